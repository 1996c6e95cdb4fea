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

	// thread returns what the system has counted for this thread so far: CPU time, and run
	// delay, which is time that it could have run and had no CPU. Negative is unknown.
	thread() (cpu, delay time.Duration)
	usage() usage
	quotas() []quota // in sight of this process
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
	limit    time.Duration // the longest that a hash may take
	ceiling  int           // the highest cost to measure
	previous int           // the cost in use so far, or 0
	lone     bool          // one hash at a time is measured, so thread counts all of it
	inSight  []quota
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

// limitOf returns the longest time that a hash of the given cost may take. A cost in use is
// kept for a tenth more than the limit, and left for the next only for a tenth less, so that a
// host on the edge between two costs does not change its mind at each restart.
func (m *meter) limitOf(cost int) time.Duration {
	tenth := m.limit / 10
	switch {
	case m.previous != 0 && cost == m.previous:
		return m.limit + min(tenth, math.MaxInt64-m.limit)
	case m.previous != 0 && cost == m.previous+1:
		return m.limit - tenth
	}
	return m.limit
}

// pass runs a pass, and takes the crowd out of it if there was one. number counts passes from
// 1. first is the first pass, or nil.
func (m *meter) pass(number int, first *pass) (p pass, err error) {
	before, start := m.usage(), m.now()
	if p, err = m.run(number, first); err != nil {
		return p, err
	}
	p.addUsage(before, m.usage(), m.now()-start)
	p.wallCost, p.own = p.cost, p.elapsed
	if m.lone && p.crowded() {
		p.leaveCrowd(m.inSight, m.ceiling, m.limitOf)
	}
	return p, nil
}

// run runs the iterations of a pass. It ends when the limit is past, or when the next cost
// cannot fit even if each iteration is as short as the shortest so far. Judging by the average
// would let one early stall end the pass at a low cost; so would the shortest of a few. So the
// first 2^MinCost iterations always run. It also ends when it confirms the first pass: one cost
// lower it took as long, and the first was not near an edge between two costs.
//
// With a coarse clock the pass starts on the edge of a step, and adds a step to each
// reading, so that no time is taken to be shorter than it is.
func (m *meter) run(number int, first *pass) (p pass, err error) {
	if m.step > 0 {
		if err := m.edge(); err != nil {
			return p, err
		}
	}
	start, err := m.read()
	if err != nil {
		return p, err
	}
	cpu, delay := m.thread()
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
			if hash <= m.limitOf(next) {
				p.cost, p.splits[next] = next, hash
			}
			if first != nil && m.clear(first) && m.confirms(p, next, first, cpu, delay) {
				p.cost, p.confirmed = first.cost, true
				break
			}
			if next == m.ceiling {
				break
			}
			next++
		}
		left := m.limitOf(next) - p.elapsed
		if left < 0 || p.done >= iterations(MinCost) && shortest > 0 && iterations(next)-p.done > uint64(left/shortest) {
			break
		}
		m.report(number, p)
	}
	p.cpu, p.delay = m.threadSince(cpu, delay)
	return p, nil
}

// threadSince returns what the system has counted for the thread since cpu and delay, or -1 for
// both if it does not count one of them.
func (m *meter) threadSince(cpu, delay time.Duration) (time.Duration, time.Duration) {
	nowCPU, nowDelay := m.thread()
	if cpu < 0 || delay < 0 || nowCPU < cpu || nowDelay < delay {
		return -1, -1
	}
	return nowCPU - cpu, nowDelay - delay
}

// clear reports whether the cost of p is clear of the limit's edge: its hash takes at least a
// tenth less than the limit, and the next cost's a tenth more.
func (m *meter) clear(p *pass) bool {
	if p.cost == 0 || p.splits[p.cost] > m.limit-m.limit/10 {
		return false
	}
	if p.cost == m.ceiling {
		return true
	}
	next := 2 * p.splits[p.cost]
	if computed := m.computed(p); computed != nil {
		next = computed.alone(p.cost + 1)
	}
	return next.Seconds() >= 1.1*m.limit.Seconds()
}

// computed returns what p is by its CPU time and the quotas in sight, or nil if there are none
// or the CPU time is unknown.
func (m *meter) computed(p *pass) *pass {
	if !m.lone || len(m.inSight) == 0 || p.cpu <= 0 {
		return nil
	}
	computed := *p
	computed.leaveCrowd(m.inSight, m.ceiling, m.limitOf)
	return &computed
}

// confirms reports whether p, which has just reached cost, goes like the first pass, whose cost
// is clear of the edge. At this cost and the one below they took the same time within 3 %; one
// time alone would agree too often by chance. If the first pass was crowded, the two have the
// same pace without the crowd, which a quarter of the limit is enough to see.
func (m *meter) confirms(p pass, cost int, first *pass, cpu, delay time.Duration) bool {
	if first.inCrowd {
		p.cpu, p.delay = m.threadSince(cpu, delay)
		return p.elapsed >= m.limit/4 && p.cpu > 0 && m.alike(seconds(p.iteration(p.ownTime())), seconds(first.iteration(first.own)))
	}
	return cost == first.cost-1 && cost > MinCost &&
		m.alike(p.splits[cost], first.splits[cost]) && m.alike(p.splits[cost-1], first.splits[cost-1])
}

// steady reports whether the pass kept its pace: each of the last two costs took twice as long
// as the one below.
func (m *meter) steady(p *pass) bool {
	c := p.cost
	return c >= MinCost+2 && m.alike(p.splits[c], 2*p.splits[c-1]) && m.alike(p.splits[c-1], 2*p.splits[c-2])
}

// alike reports whether two times are equal within 3 %, or within a step of a coarse clock.
func (m *meter) alike(a, b time.Duration) bool {
	return math.Abs(a.Seconds()-b.Seconds()) <= max(0.03*max(a, b).Seconds(), m.step.Seconds())
}

// warmUp is the shortest pass that is proof alone: a clock may take some tens of milliseconds to
// reach its speed after idling.
const warmUp = 60 * time.Millisecond

// enough reports whether p alone is proof: its cost is clear of the edge, and two ways to look at
// it agree. In a crowd they are the CPU time and the wall time less the run delay. Under a quota
// in sight they are the wall clock and the CPU time put through the quota. Otherwise the pass had
// a CPU for all of the time, and kept its pace.
func (m *meter) enough(p *pass) bool {
	if !m.lone || m.step > 0 || p.cpu <= 0 || !m.clear(p) {
		return false
	}
	if p.inCrowd {
		return m.alike(p.own, p.elapsed-p.delay)
	}
	if computed := m.computed(p); computed != nil {
		return computed.cost == p.cost
	}
	return p.throttled <= 0 && p.cpu.Seconds() >= 0.98*p.elapsed.Seconds() && p.elapsed >= warmUp && m.steady(p)
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

// middle returns the cost that two agree on, or the middle one of three.
func middle(costs []int) int {
	costs = slices.Sorted(slices.Values(costs))
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
			times = append(times, p.alone(cost))
		}
	}
	return median(times)
}

// pace returns the iterations per second over all passes, without the crowd.
func pace(passes []pass) float64 {
	var done, own float64
	for _, p := range passes {
		done += float64(p.done)
		own += p.own.Seconds()
	}
	return done / own
}

func median(times []time.Duration) time.Duration {
	times = slices.Sorted(slices.Values(times))
	n := len(times)
	return times[(n-1)/2]/2 + times[n/2]/2 + (times[(n-1)/2]%2+times[n/2]%2)/2
}
