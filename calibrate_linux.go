package bcrypt

import (
	"bufio"
	"bytes"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// threadCPU returns the CPU time of the calling thread.
func threadCPU() time.Duration {
	const thread = 1 // RUSAGE_THREAD of getrusage(2)
	var r syscall.Rusage
	if err := syscall.Getrusage(thread, &r); err != nil {
		return -1
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// throttledPeriods returns the number of periods in which a CPU quota has stopped this
// process, or -1.
func throttledPeriods() int64 {
	return cgroupThrottled(os.DirFS("/"))
}

// cgroupThrottled adds up nr_throttled of cpu.stat, of cgroup version 1 or 2, for the cgroup
// of this process and those above it, whose quotas apply to it too. In a container those
// above may be out of sight, and the root in sight is the container's own cgroup. It returns
// -1 if no such file can be read.
func cgroupThrottled(root fs.FS) int64 {
	cgroups, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return -1
	}
	total := int64(-1)
	for lines := bufio.NewScanner(bytes.NewReader(cgroups)); lines.Scan(); {
		// A line is hierarchy:controllers:path. Version 2 has no controllers there.
		field := strings.SplitN(lines.Text(), ":", 3)
		if len(field) != 3 {
			continue
		}
		var mounts []string
		switch {
		case field[0] == "0" && field[1] == "":
			mounts = []string{"", "unified"}
		case slices.Contains(strings.Split(field[1], ","), "cpu"):
			mounts = []string{field[1], "cpu"}
		}
		for _, mount := range mounts {
			for at := path.Clean("/" + field[2]); ; at = path.Dir(at) {
				n := throttledOf(root, path.Join("sys/fs/cgroup", mount, at, "cpu.stat"))
				if n >= 0 {
					total = max(total, 0) + n
				}
				if at == "/" {
					break
				}
			}
			if total >= 0 {
				return total
			}
		}
	}
	return total
}

// throttledOf returns nr_throttled of a cpu.stat, or -1.
func throttledOf(root fs.FS, name string) int64 {
	stat, err := fs.ReadFile(root, name)
	if err != nil {
		return -1
	}
	for line := range strings.Lines(string(stat)) {
		if value, ok := strings.CutPrefix(line, "nr_throttled "); ok {
			if n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64); err == nil {
				return n
			}
		}
	}
	return -1
}
