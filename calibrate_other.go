//go:build !linux

package bcrypt

import "time"

// On other systems than Linux, calibration does without the CPU time of the thread and
// without the counters of CPU quotas.

func threadCPU() time.Duration { return -1 }

func throttledPeriods() int64 { return -1 }
