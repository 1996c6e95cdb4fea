//go:build !linux

package bcrypt

import "time"

// Elsewhere than on Linux calibration goes without the thread's CPU time and without what
// the system says of quotas.

func threadCPU() time.Duration { return -1 }

func throttledPeriods() int64 { return -1 }
