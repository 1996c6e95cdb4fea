package bcrypt

import (
	"io"
	"os"
	"runtime"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestThreadCounters(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, delay := threadCounters()
	require.GreaterOrEqual(t, before, time.Duration(0))
	zero, err := os.Open("/dev/zero") // time in the system counts too
	require.NoError(t, err)
	defer zero.Close()
	_, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, io.LimitReader(zero, 256<<20), make([]byte, 1<<20))
	require.NoError(t, err)
	after, later := threadCounters()
	require.Greater(t, after, before)
	require.GreaterOrEqual(t, later, delay)
}

// files is a file system of texts.
func files(texts map[string]string) fstest.MapFS {
	root := fstest.MapFS{}
	for name, text := range texts {
		root[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return root
}

func TestRunDelay(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"12 345 6\n": 345, "12 0 6\n": 0, "": -1, "12\n": -1, "12 -5 6\n": -1, "1 x 3\n": -1, "1 99999999999999999999 3\n": -1,
	} {
		require.Equal(t, want, runDelay(files(map[string]string{"proc/thread-self/schedstat": text})), text)
	}
	require.EqualValues(t, -1, runDelay(files(nil)))
}

func TestAllowedCPUs(t *testing.T) {
	require.Equal(t, "0-1,4", allowedCPUs(files(map[string]string{"proc/thread-self/status": "Name:\tx\nCpus_allowed:\t13\nCpus_allowed_list:\t0-1,4\n"})))
	require.Empty(t, allowedCPUs(files(map[string]string{"proc/thread-self/status": "Name:\tx\n"})))
	require.Empty(t, allowedCPUs(files(nil)))
	for n, want := range map[int64]bool{-1: false, 0: true, 1: true, 2: false, 4: true, 9: false, 10: true, 11: true, 12: false} {
		require.Equal(t, want, inList("0-1,4,10-11", n), n)
	}
	require.False(t, inList("", 0))
	require.False(t, inList("x-1,1-", 1))
}

func TestCPUTimes(t *testing.T) {
	const stat = "cpu  9 9 9 9 9 9 9 9 9 9\n" +
		"cpu0 100 1 20 300 4 5 6 7 50 1\n" +
		"cpu1 1 0 0 10 0 0 0 0 0 0\n" +
		"cpu2 5 5 5 5\n" + // of old kernels
		"intr 12 34\n"
	const tick = 10 * time.Millisecond
	for _, c := range []struct {
		name, stat, allowed string
		cpus                int
		idle, total, stolen time.Duration
	}{
		{"one CPU", stat, "0", 1, 304 * tick, 443 * tick, 7 * tick},
		{"two", stat, "0-1", 2, 314 * tick, 454 * tick, 7 * tick},
		{"no steal", stat, "2", 1, 5 * tick, 20 * tick, 0},
		{"none of them", stat, "7", 0, 0, 0, 0},
		{"no list", stat, "", 0, 0, 0, 0},
		{"not a number", "cpu0 1 2 3 x 5\n", "0", 0, 0, 0, 0},
		{"below zero", "cpu0 1 2 3 -4 5\n", "0", 0, 0, 0, 0},
		{"too large", "cpu0 1 2 3 922337203685477580 5\n", "0", 0, 0, 0, 0},
		{"too large together", "cpu0 1 2 900000000000 500000000000 5\n", "0", 0, 0, 0, 0},
		{"too short", "cpu0 1 2 3\n", "0", 0, 0, 0, 0},
		{"no number of a CPU", "cpux 1 2 3 4 5\n", "0", 0, 0, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var u usage
			u.readCPUs(files(map[string]string{"proc/stat": c.stat}), c.allowed)
			require.Equal(t, c.cpus, u.cpus)
			if c.cpus > 0 {
				require.Equal(t, usage{cpus: c.cpus, idle: c.idle, total: c.total, stolen: c.stolen}, u)
			}
		})
	}
	u := usageOf(files(nil))
	require.Zero(t, u.cpus)
}

// Quotas and their stops, of versions 1 and 2, of this cgroup and those above, and in containers.
func TestCgroups(t *testing.T) {
	const stat = "nr_periods 12\nnr_throttled 7\nthrottled_usec 81\n"
	us := time.Microsecond
	for _, c := range []struct {
		name   string
		files  map[string]string
		count  int64
		length time.Duration
		quotas []quota
	}{
		{"nothing to read", nil, -1, -1, nil},
		{"version 2", map[string]string{
			"proc/self/cgroup": "0::/system.slice/app.service\n",
			"sys/fs/cgroup/system.slice/app.service/cpu.stat": stat,
			"sys/fs/cgroup/system.slice/app.service/cpu.max":  "50000 100000\n",
			"sys/fs/cgroup/system.slice/cpu.max":              "max 100000\n",
		}, 7, 81 * us, []quota{{50000 * us, 100000 * us}}},
		{"version 2, with a parent's quota", map[string]string{
			"proc/self/cgroup":           "0::/a/b\n",
			"sys/fs/cgroup/a/b/cpu.stat": stat,
			"sys/fs/cgroup/a/b/cpu.max":  "150000 100000\n",
			"sys/fs/cgroup/a/cpu.stat":   "nr_throttled 30\nthrottled_usec 1000\n",
			"sys/fs/cgroup/a/cpu.max":    "20000 50000\n",
			"sys/fs/cgroup/cpu.stat":     "usage_usec 1\n",
		}, 37, 1081 * us, []quota{{150000 * us, 100000 * us}, {20000 * us, 50000 * us}}},
		{"version 2 in a container", map[string]string{
			"proc/self/cgroup":       "0::/\n",
			"sys/fs/cgroup/cpu.stat": stat,
			"sys/fs/cgroup/cpu.max":  "200000 100000\n",
		}, 7, 81 * us, []quota{{200000 * us, 100000 * us}}},
		{"version 1", map[string]string{
			"proc/self/cgroup":                                "4:memory:/m\n3:cpu,cpuacct:/app\n0::/\n",
			"sys/fs/cgroup/cpu,cpuacct/app/cpu.stat":          "nr_throttled 5\nthrottled_time 7000\n",
			"sys/fs/cgroup/cpu,cpuacct/app/cpu.cfs_quota_us":  "25000\n",
			"sys/fs/cgroup/cpu,cpuacct/app/cpu.cfs_period_us": "100000\n",
			"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us":      "-1\n",
			"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us":     "100000\n",
			"sys/fs/cgroup/memory/m/cpu.stat":                 stat,
		}, 5, 7 * us, []quota{{25000 * us, 100000 * us}}},
		{"version 1 in a container, whose path is the host's", map[string]string{
			"proc/self/cgroup":                    "3:cpu,cpuacct:/docker/0123\n",
			"sys/fs/cgroup/cpu/cpu.stat":          "nr_throttled 5\nthrottled_time 7000\n",
			"sys/fs/cgroup/cpu/cpu.cfs_quota_us":  "25000\n",
			"sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
		}, 5, 7 * us, []quota{{25000 * us, 100000 * us}}},
		{"hybrid", map[string]string{
			"proc/self/cgroup":                 "0::/u\n",
			"sys/fs/cgroup/unified/u/cpu.stat": stat,
		}, 7, 81 * us, nil},
		{"no time in cpu.stat", map[string]string{
			"proc/self/cgroup":         "0::/a\n",
			"sys/fs/cgroup/a/cpu.stat": "nr_throttled 3\n",
		}, 3, -1, nil},
		{"not numbers", map[string]string{
			"proc/self/cgroup":         "x\n0::/a\n",
			"sys/fs/cgroup/a/cpu.stat": "nr_throttled x\nthrottled_usec -3\n",
			"sys/fs/cgroup/a/cpu.max":  "5\n",
		}, -1, -1, nil},
		{"a quota of nothing", map[string]string{
			"proc/self/cgroup":        "0::/a\n",
			"sys/fs/cgroup/a/cpu.max": "0 100000\n",
		}, -1, -1, nil},
		{"no period", map[string]string{
			"proc/self/cgroup":                   "1:cpu:/\n",
			"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "25000\n",
		}, -1, -1, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := usageOf(files(c.files))
			require.Equal(t, c.count, u.throttled)
			require.Equal(t, c.length, u.throttledFor)
			require.Equal(t, c.quotas, quotasOf(files(c.files)))
		})
	}
}

// FuzzCounters gives any text to the readers of counters. None panics, and what it returns is
// unknown or possible.
func FuzzCounters(f *testing.F) {
	f.Add("cpu0 1 2 3 4 5 6 7 8\n", "1 2 3", "Cpus_allowed_list:\t0-3\n", "0::/a/../b\n", "nr_throttled 1\nthrottled_usec 2\n", "max 100000")
	f.Add("cpu1 1 2 3\n", "", "", "1:cpu:/x", "throttled_time 9223372036854775807", "9223372036854775807 1")
	f.Fuzz(func(t *testing.T, stat, schedstat, status, cgroup, cpuStat, cpuMax string) {
		root := files(map[string]string{
			"proc/stat": stat, "proc/thread-self/schedstat": schedstat, "proc/thread-self/status": status, "proc/self/cgroup": cgroup,
			"sys/fs/cgroup/cpu.stat": cpuStat, "sys/fs/cgroup/cpu.max": cpuMax,
			"sys/fs/cgroup/cpu/cpu.stat": cpuStat, "sys/fs/cgroup/cpu/cpu.cfs_quota_us": cpuMax, "sys/fs/cgroup/cpu/cpu.cfs_period_us": cpuMax,
		})
		require.GreaterOrEqual(t, runDelay(root), time.Duration(-1))
		u := usageOf(root)
		require.True(t, u.cpus >= 0 && u.idle >= 0 && u.stolen >= 0 && u.total >= u.idle+u.stolen, "%+v", u)
		require.True(t, u.throttled >= -1 && u.throttledFor >= -1, "%+v", u)
		for _, q := range quotasOf(root) {
			require.True(t, q.runtime > 0 && q.period > 0, "%+v", q)
			require.GreaterOrEqual(t, q.stretch(1), 1.0)
		}
	})
}
