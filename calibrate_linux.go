package bcrypt

import (
	"bytes"
	"io/fs"
	"math"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// This file reads what Linux counts: CPU time and run delay of the thread, how busy its CPUs
// are, and CPU quotas. A counter that cannot be read or parsed is unknown, never an error.

var system = os.DirFS("/")

// threadCounters returns the CPU time and the run delay of the calling thread.
func threadCounters() (cpu, delay time.Duration) {
	return threadCPU(), runDelay(system)
}

// threadCPU returns the CPU time of the calling thread, or -1. It asks the clock
// CLOCK_THREAD_CPUTIME_ID, since getrusage(2) lags by up to a tick.
func threadCPU() time.Duration {
	const threadCPUTime = 3 // CLOCK_THREAD_CPUTIME_ID
	var t syscall.Timespec
	if _, _, err := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, threadCPUTime, uintptr(unsafe.Pointer(&t)), 0); err != 0 {
		return -1
	}
	return time.Duration(t.Nano())
}

// runDelay returns for how long the calling thread has waited for a CPU while it could have
// run: the second field of schedstat, in nanoseconds. It returns -1 if that is unknown.
func runDelay(root fs.FS) time.Duration {
	text, err := fs.ReadFile(root, "proc/thread-self/schedstat")
	if err != nil {
		return -1
	}
	fields := bytes.Fields(text)
	if len(fields) < 2 {
		return -1
	}
	return time.Duration(parseCount(string(fields[1]), 1))
}

func readUsage() usage    { return usageOf(system) }
func readQuotas() []quota { return quotasOf(system) }
func usageOf(root fs.FS) usage {
	u := usage{throttled: -1, throttledFor: -1}
	u.readCPUs(root, allowedCPUs(root))
	eachCgroup(root, func(dir string) bool {
		count, length := throttledOf(root, dir)
		if count < 0 {
			return false
		}
		u.throttled = min(max(u.throttled, 0), math.MaxInt64-count) + count
		if length >= 0 {
			u.throttledFor = min(max(u.throttledFor, 0), math.MaxInt64-length) + length
		}
		return true
	})
	return u
}

// quotasOf returns the CPU quotas of this process that are in sight: those of its cgroup and
// of the cgroups above it.
func quotasOf(root fs.FS) (quotas []quota) {
	eachCgroup(root, func(dir string) bool {
		q, ok := quotaOf(root, dir)
		if q.runtime > 0 {
			quotas = append(quotas, q)
		}
		return ok
	})
	return quotas
}

// allowedCPUs returns the text of the list of CPUs that the calling thread may use, such as
// "0-3,8".
func allowedCPUs(root fs.FS) string {
	text, err := fs.ReadFile(root, "proc/thread-self/status")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if list, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok {
			return strings.TrimSpace(list)
		}
	}
	return ""
}

// inList reports whether a list such as "0-3,8" has the number n.
func inList(list string, n int64) bool {
	return slices.ContainsFunc(strings.Split(list, ","), func(part string) bool {
		first, last, ok := strings.Cut(part, "-")
		if !ok {
			last = first
		}
		from, to := parseCount(first, 1), parseCount(last, 1)
		return from >= 0 && from <= n && n <= to
	})
}

// readCPUs sets what /proc/stat says of the allowed CPUs. If that cannot be read, cpus is 0.
func (u *usage) readCPUs(root fs.FS, allowed string) {
	text, err := fs.ReadFile(root, "proc/stat")
	if err != nil {
		return
	}
	const tick = int64(time.Second / 100) // USER_HZ is 100 on every architecture that Go knows
	for line := range strings.Lines(string(text)) {
		// cpuN user nice system idle iowait irq softirq steal, and guest times, which user
		// and nice include.
		fields := strings.Fields(line)
		if len(fields) < 5 || !strings.HasPrefix(fields[0], "cpu") || fields[0] == "cpu" ||
			!inList(allowed, parseCount(fields[0][3:], 1)) {
			continue
		}
		u.cpus++
		for i, field := range fields[1:min(len(fields), 9)] {
			t := parseCount(field, tick)
			if t < 0 || t > math.MaxInt64/2-int64(u.total) {
				u.cpus = 0
				return
			}
			u.total += time.Duration(t)
			switch i {
			case 3, 4: // idle and iowait
				u.idle += time.Duration(t)
			case 7:
				u.stolen += time.Duration(t)
			}
		}
	}
}

// eachCgroup calls f with the folder of this process's cgroup and of each cgroup above it, as
// far as they are in sight: in a container the topmost is often the container's own. f reports
// whether the folder had what it looks for. Mounts are tried in turn until one has.
func eachCgroup(root fs.FS, f func(dir string) bool) {
	cgroups, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return
	}
	for line := range strings.Lines(string(cgroups)) {
		// hierarchy:controllers:path. Version 2 has no controllers there.
		field := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
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
			found := false
			for at := path.Clean("/" + field[2]); ; at = path.Dir(at) {
				found = f(path.Join("sys/fs/cgroup", mount, at)) || found
				if at == "/" {
					break
				}
			}
			if found {
				return
			}
		}
	}
}

// throttledOf returns in how many periods a quota stopped the processes of a cgroup, and for
// how long, or -1. cpu.stat has the time as throttled_usec in version 2 of cgroups, and as
// throttled_time, in nanoseconds, in version 1.
func throttledOf(root fs.FS, dir string) (count int64, length time.Duration) {
	count, length = -1, -1
	stat, err := fs.ReadFile(root, path.Join(dir, "cpu.stat"))
	if err != nil {
		return count, length
	}
	for line := range strings.Lines(string(stat)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch name {
		case "nr_throttled":
			count = parseCount(value, 1)
		case "throttled_usec":
			length = time.Duration(parseCount(value, int64(time.Microsecond)))
		case "throttled_time":
			length = time.Duration(parseCount(value, 1))
		}
	}
	return count, length
}

// quotaOf returns the quota of a cgroup, zero if it has none, and whether its files are there:
// cpu.max in version 2 of cgroups, cpu.cfs_quota_us and cpu.cfs_period_us in version 1.
func quotaOf(root fs.FS, dir string) (q quota, ok bool) {
	var runtime, period string
	if text, err := fs.ReadFile(root, path.Join(dir, "cpu.max")); err == nil {
		runtime, period, _ = strings.Cut(strings.TrimSpace(string(text)), " ")
	} else {
		text, err := fs.ReadFile(root, path.Join(dir, "cpu.cfs_quota_us"))
		if err != nil {
			return quota{}, false
		}
		length, err := fs.ReadFile(root, path.Join(dir, "cpu.cfs_period_us"))
		if err != nil {
			return quota{}, false
		}
		runtime, period = strings.TrimSpace(string(text)), strings.TrimSpace(string(length))
	}
	// "max" and -1 are no quota, and are not counts.
	r, p := parseCount(runtime, int64(time.Microsecond)), parseCount(period, int64(time.Microsecond))
	if r <= 0 || p <= 0 {
		return quota{}, true
	}
	return quota{time.Duration(r), time.Duration(p)}, true
}

// parseCount returns the decimal number in text, times unit, or -1 if there is none or the
// product is too large.
func parseCount(text string, unit int64) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/unit {
		return -1
	}
	return n * unit
}
