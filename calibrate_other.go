//go:build !linux

package bcrypt

import "time"

// On other systems than Linux nothing is counted, and calibration goes by the wall clock.

func threadCounters() (cpu, delay time.Duration) { return -1, -1 }
func readUsage() usage                           { return usage{throttled: -1, throttledFor: -1} }
func readQuotas() []quota                        { return nil }
