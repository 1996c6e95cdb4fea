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

func TestThreadCPU(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := threadCPU()
	require.GreaterOrEqual(t, before, time.Duration(0))
	zero, err := os.Open("/dev/zero") // time in the system counts too
	require.NoError(t, err)
	defer zero.Close()
	_, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, io.LimitReader(zero, 256<<20), make([]byte, 1<<20))
	require.NoError(t, err)
	require.Greater(t, threadCPU(), before)
}

func TestCgroupThrottled(t *testing.T) {
	const stat = "nr_periods 12\nnr_throttled 7\nthrottled_usec 81\n"
	for _, c := range []struct {
		name  string
		files map[string]string
		want  int64
	}{
		{"nothing to read", nil, -1},
		{"version 2", map[string]string{
			"proc/self/cgroup": "0::/system.slice/app.service\n",
			"sys/fs/cgroup/system.slice/app.service/cpu.stat": stat,
		}, 7},
		{"version 2, with a parent's quota", map[string]string{
			"proc/self/cgroup":           "0::/a/b\n",
			"sys/fs/cgroup/a/b/cpu.stat": stat,
			"sys/fs/cgroup/a/cpu.stat":   "nr_throttled 30\n",
			"sys/fs/cgroup/cpu.stat":     "usage_usec 1\n",
		}, 37},
		{"version 2 in a container", map[string]string{
			"proc/self/cgroup":       "0::/\n",
			"sys/fs/cgroup/cpu.stat": stat,
		}, 7},
		{"version 1", map[string]string{
			"proc/self/cgroup":                       "4:memory:/m\n3:cpu,cpuacct:/app\n0::/\n",
			"sys/fs/cgroup/cpu,cpuacct/app/cpu.stat": stat,
		}, 7},
		{"version 1, mounted by its short name, the path not to be seen", map[string]string{
			"proc/self/cgroup":           "3:cpu,cpuacct:/docker/0123\n",
			"sys/fs/cgroup/cpu/cpu.stat": stat,
		}, 7},
		{"version 1, mounted by both names, nothing throttled", map[string]string{
			"proc/self/cgroup":                   "3:cpu,cpuacct:/\n",
			"sys/fs/cgroup/cpu,cpuacct/cpu.stat": "nr_throttled 0\n",
			"sys/fs/cgroup/cpu/cpu.stat":         stat,
		}, 0},
		{"no quota", map[string]string{
			"proc/self/cgroup":       "0::/\n",
			"sys/fs/cgroup/cpu.stat": "usage_usec 1\n",
		}, -1},
		{"nonsense", map[string]string{
			"proc/self/cgroup":       "\n:\nx\n0::/../../..\n",
			"sys/fs/cgroup/cpu.stat": "nr_throttled many\n",
		}, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := fstest.MapFS{}
			for name, text := range c.files {
				root[name] = &fstest.MapFile{Data: []byte(text)}
			}
			require.Equal(t, c.want, cgroupThrottled(root))
		})
	}
}
