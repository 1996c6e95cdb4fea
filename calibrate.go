package bcrypt

import (
	"errors"
	"fmt"
	"time"
)

// SafeMinCost is the lowest cost that [Calibrate] returns: the minimum that OWASP's
// Password Storage Cheat Sheet asks of bcrypt.
const SafeMinCost = 10

// A CostTooSlowError is returned by [Calibrate] when a hash of the lowest cost allowed
// takes longer than the limit.
type CostTooSlowError struct {
	Cost        int           // the lowest cost allowed
	Elapsed     time.Duration // what a hash of that cost takes
	MaxDuration time.Duration // the limit
}

func (e *CostTooSlowError) Error() string {
	return fmt.Sprintf("bcrypt: a hash of cost %d takes %v, longer than the limit of %v", e.Cost, e.Elapsed, e.MaxDuration)
}

// Calibrate returns the highest cost whose hash takes no longer than maxDuration on this
// host, alone on its core, by the wall clock. Nothing is extrapolated: it runs the
// iterations of a hash until the time is up, and a hash of cost c is 2^c of them, so the
// time at which each cost is done is measured. The call takes about maxDuration.
//
// It returns a [*CostTooSlowError] if a hash of [SafeMinCost] takes longer than
// maxDuration, and another error if maxDuration is not positive. With any error the
// cost is 0.
func Calibrate(maxDuration time.Duration) (cost int, err error) {
	if maxDuration <= 0 {
		return 0, errors.New("bcrypt: calibrate: the longest duration is not positive")
	}
	if err := selfTest(); err != nil {
		return 0, err
	}
	n := lanes.Get().(*lane)
	defer lanes.Put(n)

	start := time.Now()
	n.setup(nil, new([saltSize]byte), plain)
	next := MinCost
	shortest := time.Duration(1<<63 - 1)
	var elapsed time.Duration
	for done := uint64(1); ; done++ {
		n.iterate()
		before := elapsed
		elapsed = time.Since(start)
		shortest = min(shortest, elapsed-before)
		if done == 1<<next {
			// The 192 block encryptions that end a hash are 0.18 of an iteration.
			hash := elapsed + shortest*18/100
			if next >= SafeMinCost && hash > maxDuration {
				break
			}
			if hash <= maxDuration {
				cost = next
			}
			if next == MaxCost {
				break
			}
			next++
		}
		left := time.Duration(uint64(1)<<max(next, SafeMinCost) - done)
		if next > SafeMinCost && elapsed+left*shortest > maxDuration {
			break
		}
	}
	if cost < SafeMinCost {
		return 0, &CostTooSlowError{Cost: SafeMinCost, Elapsed: elapsed, MaxDuration: maxDuration}
	}
	return cost, nil
}
