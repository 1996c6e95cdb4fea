package bcrypt

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"
)

// This file is the measuring of a calibration: passes over real iterations against a
// clock. See [Calibrator] for what it is for.

// A host is what a meter sees of the machine: a clock, and an iteration. Tests put
// simulated machines behind it.
type host interface {
	now() time.Duration // by a monotonic clock, since any instant
	occupy(hashes int)  // from now on so many hashes are under way at once
	setup()             // sets up a hash
	iterate()           // runs one iteration of it
	done() uint64       // iterations since occupy, of all hashes together
	usage() usage
}

// usage is what the system says of the time until now.
type usage struct {
	at        time.Duration // the clock's reading
	cpu       time.Duration // that this thread had a CPU, or negative if that is not known
	throttled int64         // periods in which a CPU quota stopped the process, or negative
}

// A hash's set-up and final encryption, in iterations: 521 and 192 of the 1,042 blocks
// that an iteration has.
const (
	setupShare = 0.5
	finalShare = 0.18
)

// hashWork returns how many iterations' time a hash takes.
func hashWork(cost int) float64 {
	return setupShare + float64(iterations(cost)) + finalShare
}

// maxStill is how many readings, with an iteration between, may be the same: 0.8 s at
// 50 µs an iteration, where the coarsest clock in use moves every 16 ms.
const maxStill = 1 << 14

var (
	errClockStill     = errors.New("bcrypt: calibrate: the clock stands still")
	errClockBackwards = errors.New("bcrypt: calibrate: the clock went backwards")
)

// A meter measures a host for a Calibrator.
type meter struct {
	*Calibrator
	host
	ctx context.Context

	last     time.Duration // the clock's latest reading
	still    int           // readings since it last changed
	step     time.Duration // of a coarse clock; 0 if the clock is fine
	paused   time.Duration // time spent in Progress
	reported time.Duration // when Progress was last called
}

// read returns the time, less that spent in Progress.
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

// tick runs an iteration and returns the time after it. It is where all loops stop.
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

// findStep sets step if the smallest step of the clock that it sees is more than a
// thousandth of MaxDuration. A fine clock moves from one reading to the next.
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
	if smallest > m.MaxDuration/1000 {
		m.step = smallest
	}
	return nil
}

// A pass is one run of the iterations of a hash, up to MaxDuration.
type pass struct {
	cost    int                        // the highest that fits, 0 if none does
	splits  [MaxCost + 1]time.Duration // the time of a hash of each cost that fits
	done    uint64                     // iterations
	elapsed time.Duration              // for these and the set-up
}

// pass runs the number-th pass. The time is up when it is past MaxDuration, or when the
// iterations up to the next cost would not fit if each were as short as the shortest so
// far. A rule on the time so far would be wrong: an early stall would end the pass at a
// low cost. So would the shortest of a few, if a stall hits the first: so many iterations
// as a hash of the lowest cost has are run at any rate.
//
// With a coarse clock the pass starts on a step's edge, and a step is added to each
// reading: the time is not longer than that.
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
			if hash <= m.MaxDuration {
				p.cost, p.splits[next] = next, hash
			}
			if next == m.maxCost() {
				return p, nil
			}
			next++
		}
		left := m.MaxDuration - p.elapsed
		if left < 0 || p.done >= iterations(MinCost) && shortest > 0 && iterations(next)-p.done > uint64(left/shortest) {
			return p, nil
		}
		m.report(number, p)
	}
}

// report calls Progress if a tenth of a second has gone by since it last did.
func (m *meter) report(number int, p pass) {
	if m.Progress == nil || m.last-m.reported < 100*time.Millisecond {
		return
	}
	before := m.now()
	m.Progress(CalibrationProgress{
		Pass: number,
		Done: float64(p.elapsed) / float64(m.MaxDuration),
		Cost: p.cost,
	})
	m.last = max(m.now(), m.last)
	m.paused += m.last - before
	m.reported = m.last
}

// burst keeps hashes under way for the duration d, and returns how many iterations of
// them all are done a second.
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

// middle returns the cost of the passes: that of all, or the middle one of three.
func middle(passes []pass) int {
	costs := make([]int, len(passes))
	for i, p := range passes {
		costs[i] = p.cost
	}
	slices.Sort(costs)
	return costs[len(costs)/2]
}

// timesAt returns the times of a hash of the cost in those passes where it fits.
func timesAt(passes []pass, cost int) (times []time.Duration) {
	for _, p := range passes {
		if p.splits[cost] > 0 {
			times = append(times, p.splits[cost])
		}
	}
	return times
}

// timeAt returns the median time of a hash of the cost, and where a pass ended before it
// was done, takes what it would have taken at the pace of that pass.
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
