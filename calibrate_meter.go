package bcrypt

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"
)

// This file measures for a calibration: it runs passes of real iterations against a clock.

// A host is what a meter sees of the machine: a clock, and an iteration. Tests put
// simulated machines in its place.
type host interface {
	now() time.Duration // a monotonic clock's reading, since any instant
	occupy(hashes int)  // keeps this many hashes in progress from now on
	setup()             // sets up a hash
	iterate()           // runs one iteration of it
	done() uint64       // iterations since occupy, of all hashes together
	usage() usage
}

// usage is what the system has counted so far.
type usage struct {
	at        time.Duration // the clock's reading
	cpu       time.Duration // CPU time of this thread, or negative if unknown
	throttled int64         // periods in which a CPU quota stopped the process, or negative
}

// The set-up and the final encryption of a hash, in iterations. They have 521 and 192
// blocks; an iteration has 1,042.
const (
	setupShare = 0.5
	finalShare = 0.18
)

// hashWork returns the time of a hash, in iterations.
func hashWork(cost int) float64 {
	return setupShare + float64(iterations(cost)) + finalShare
}

// maxStill is how many iterations may pass without the clock moving. At 50 µs each that is
// 0.8 s; the coarsest clock in use moves every 16 ms.
const maxStill = 1 << 14

var (
	errClockStill     = errors.New("bcrypt: calibrate: the clock stands still")
	errClockBackwards = errors.New("bcrypt: calibrate: the clock went backwards")
)

// A meter measures a host.
type meter struct {
	host
	ctx      context.Context
	limit    time.Duration            // the longest that a hash may take
	ceiling  int                      // the highest cost to measure
	progress func(number int, p pass) // told how far a pass is, or nil

	last     time.Duration // the clock's latest reading
	still    int           // readings since it last changed
	step     time.Duration // of a coarse clock; 0 if the clock is fine
	paused   time.Duration // time spent in progress
	reported time.Duration // when progress was last called
}

// read returns the time, less that spent in progress.
func (m *meter) read() (time.Duration, error) {
	t := m.now()
	switch {
	case t < m.last:
		return 0, errClockBackwards
	case t > m.last:
		m.still = 0
	case m.still == maxStill:
		return 0, errClockStill
	default:
		m.still++
	}
	m.last = t
	return t - m.paused, nil
}

// tick runs an iteration and returns the time after it. Every loop of the meter calls it, so
// this is where the end of ctx is noticed.
func (m *meter) tick() (time.Duration, error) {
	if err := m.ctx.Err(); err != nil {
		return 0, err
	}
	m.iterate()
	return m.read()
}

// edge runs iterations until the clock moves.
func (m *meter) edge() error {
	for before := m.last; m.last == before; {
		if _, err := m.tick(); err != nil {
			return err
		}
	}
	return nil
}

// findStep sets step if the clock is coarse: its smallest step is more than a thousandth of
// the limit. A fine clock moves from one reading to the next.
func (m *meter) findStep() error {
	m.last = m.now()
	m.reported = m.last
	smallest := time.Duration(math.MaxInt64)
	for range 64 {
		before := m.last
		if _, err := m.read(); err != nil {
			return err
		}
		if m.last > before {
			smallest = min(smallest, m.last-before)
		}
	}
	if smallest == math.MaxInt64 {
		m.occupy(1)
		for range 2 {
			before := m.last
			if err := m.edge(); err != nil {
				return err
			}
			smallest = min(smallest, m.last-before)
		}
	}
	if smallest > m.limit/1000 {
		m.step = smallest
	}
	return nil
}

// A pass is one run of the iterations of a hash, up to the limit.
type pass struct {
	cost    int                        // the highest that fits, 0 if none does
	splits  [MaxCost + 1]time.Duration // the time of a hash of each cost that fits
	done    uint64                     // iterations
	elapsed time.Duration              // for the set-up and the iterations
}

// pass runs a pass; number counts them from 1. It ends when the limit is past, or when the
// next cost cannot fit even if each iteration is as short as the shortest so far. Judging
// by the average would let one early stall end the pass at a low cost; so would the
// shortest of a few. So the first 2^MinCost iterations always run.
//
// With a coarse clock the pass starts on the edge of a step, and adds a step to each
// reading, so that no time is taken to be shorter than it is.
func (m *meter) pass(number int) (p pass, err error) {
	if m.step > 0 {
		if err := m.edge(); err != nil {
			return p, err
		}
	}
	start, err := m.read()
	if err != nil {
		return p, err
	}
	m.setup()
	before, err := m.read()
	if err != nil {
		return p, err
	}

	next, shortest := MinCost, time.Duration(math.MaxInt64)
	for {
		now, err := m.tick()
		if err != nil {
			return p, err
		}
		p.done++
		p.elapsed = now - start + m.step
		shortest = min(shortest, now-before)
		before = now

		if p.done == iterations(next) {
			hash := p.elapsed + time.Duration(finalShare*float64(shortest))
			if hash <= m.limit {
				p.cost, p.splits[next] = next, hash
			}
			if next == m.ceiling {
				return p, nil
			}
			next++
		}
		left := m.limit - p.elapsed
		if left < 0 || p.done >= iterations(MinCost) && shortest > 0 && iterations(next)-p.done > uint64(left/shortest) {
			return p, nil
		}
		m.report(number, p)
	}
}

// report calls progress, at most ten times a second.
func (m *meter) report(number int, p pass) {
	if m.progress == nil || m.last-m.reported < 100*time.Millisecond {
		return
	}
	before := m.now()
	m.progress(number, p)
	m.last = max(m.now(), m.last)
	m.paused += m.last - before
	m.reported = m.last
}

// burst keeps hashes in progress for the duration d. It returns how many iterations a second
// they do, all together.
func (m *meter) burst(hashes int, d time.Duration) (perSecond float64, err error) {
	m.occupy(hashes)
	start, err := m.read()
	if err != nil {
		return 0, err
	}
	before := m.done()
	for {
		now, err := m.tick()
		if err != nil {
			return 0, err
		}
		if elapsed := now - start; elapsed >= d {
			return float64(m.done()-before) / (elapsed + m.step).Seconds(), nil
		}
	}
}

// middle returns the cost that two passes agree on, or the middle one of three.
func middle(passes []pass) int {
	costs := make([]int, len(passes))
	for i, p := range passes {
		costs[i] = p.cost
	}
	slices.Sort(costs)
	return costs[len(costs)/2]
}

// timesAt returns the time of a hash of the given cost in each pass where it fits.
func timesAt(passes []pass, cost int) (times []time.Duration) {
	for _, p := range passes {
		if p.splits[cost] > 0 {
			times = append(times, p.splits[cost])
		}
	}
	return times
}

// timeAt returns the median time of a hash of the given cost over all passes. Where a pass
// ended before that cost, it takes the pace of that pass.
func timeAt(passes []pass, cost int) time.Duration {
	times := timesAt(passes, cost)
	for _, p := range passes {
		if p.splits[cost] == 0 {
			times = append(times, seconds(p.elapsed.Seconds()/(setupShare+float64(p.done))*hashWork(cost)))
		}
	}
	return median(times)
}

// pace returns the iterations per second over all passes.
func pace(passes []pass) float64 {
	var done, elapsed float64
	for _, p := range passes {
		done += float64(p.done)
		elapsed += p.elapsed.Seconds()
	}
	return done / elapsed
}

func median(times []time.Duration) time.Duration {
	times = slices.Sorted(slices.Values(times))
	n := len(times)
	return times[(n-1)/2]/2 + times[n/2]/2 + (times[(n-1)/2]%2+times[n/2]%2)/2
}

// seconds returns the duration of s seconds, or the longest duration there is.
func seconds(s float64) time.Duration {
	if s >= math.MaxInt64/1e9 {
		return math.MaxInt64
	}
	return time.Duration(s * 1e9)
}
