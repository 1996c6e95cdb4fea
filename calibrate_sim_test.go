package bcrypt

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// This file runs calibration on simulated machines, thousands a second. A machine is a stream
// of pieces of constant speed. A hash is an amount of work.

var simHosts = flag.Int("hosts", 200, "simulated machines in each family; the README's table has 3000")

// A piece is a time, in nanoseconds, during which a machine has one speed: 1 is a core of its
// own, 0 is a stop.
type piece struct{ length, speed float64 }

// A simHost is a machine on which something runs, from the moment it starts.
type simHost struct {
	next  func() piece
	piece piece   // the rest of the present one
	t     float64 // wall-clock time
	cpu   float64 // CPU time
	iter  float64 // time of an iteration at speed 1
	clock func(t float64) float64

	hashes    int // at once
	ran       uint64
	started   float64 // the present hash
	onIterate func()  // before each iteration
	onUsage   func(usage) usage
}

// work does an amount of work, in nanoseconds at speed 1.
func (h *simHost) work(w float64) {
	for {
		if h.piece.speed*h.piece.length >= w {
			d := 0.0
			if w > 0 {
				d = w / h.piece.speed
			}
			h.piece.length -= d
			h.t += d
			h.cpu += d
			return
		}
		w -= h.piece.speed * h.piece.length
		h.t += h.piece.length
		if h.piece.speed > 0 {
			h.cpu += h.piece.length
		}
		h.piece = h.next()
	}
}

func (h *simHost) now() time.Duration {
	h.work(25) // nanoseconds, about what a reading costs
	if h.clock != nil {
		return time.Duration(h.clock(h.t))
	}
	return time.Duration(h.t)
}

func (h *simHost) occupy(hashes int) { h.hashes, h.ran = hashes, 0 }
func (h *simHost) done() uint64      { return 1000 + h.ran*uint64(max(h.hashes, 1)) } // others' at once

func (h *simHost) setup() {
	h.started = h.t
	h.work(setupShare * h.iter)
}

func (h *simHost) iterate() {
	if h.onIterate != nil {
		h.onIterate()
	}
	h.work(h.iter)
	h.ran++
}

func (h *simHost) usage() usage {
	u := usage{at: h.now(), cpu: -1, throttled: -1}
	if h.onUsage != nil {
		u = h.onUsage(u)
	}
	return u
}

// hash runs one hash and returns its time by the wall clock.
func (h *simHost) hash(cost int) float64 {
	before := h.t
	h.work(h.iter * hashWork(cost))
	return h.t - before
}

// A simMachine is the parameters of a machine. start returns its stream from an idle moment, at
// a random phase of everything that has a period.
type simMachine struct {
	limit float64
	iter  float64
	step  float64 // of its clock, 0 if fine
	start func(r *rand.Rand) func() piece
}

func (m *simMachine) host(r *rand.Rand) *simHost {
	h := &simHost{next: m.start(r), iter: m.iter}
	if m.step > 0 {
		phase := r.Float64() * m.step
		h.clock = func(t float64) float64 { return math.Floor((t+phase)/m.step) * m.step }
	}
	return h
}

const ms = 1e6 // nanoseconds

func uniform(r *rand.Rand, lo, hi float64) float64 { return lo + r.Float64()*(hi-lo) }
func logUniform(r *rand.Rand, lo, hi float64) float64 {
	return lo * math.Exp(r.Float64()*math.Log(hi/lo))
}

func steady(speed float64) func(*rand.Rand) func() piece {
	return func(*rand.Rand) func() piece {
		return func() piece { return piece{1e12, speed} }
	}
}

// after yields the given pieces and then those of next.
func after(next func() piece, first ...piece) func() piece {
	return func() piece {
		if len(first) == 0 {
			return next()
		}
		p := first[0]
		first = first[1:]
		return p
	}
}

// alternate runs for a time and stops for a time, in turns, and starts anywhere.
func alternate(r *rand.Rand, run, stop func() float64) func() piece {
	running := false
	next := func() piece {
		running = !running
		if running {
			return piece{run(), 1}
		}
		return piece{stop(), 0}
	}
	first := next()
	if r.IntN(2) == 0 {
		first = next()
	}
	first.length *= r.Float64()
	return after(next, first)
}

// jitter varies the speed from moment to moment.
func jitter(r *rand.Rand, m *simMachine) {
	spread := uniform(r, 0.01, 0.1)
	m.start = func(r *rand.Rand) func() piece {
		return func() piece { return piece{m.limit / 200, max(0.2, 1+spread*r.NormFloat64())} }
	}
}

// contended gives each of n threads a time slice in turn.
func contended(n int) func(r *rand.Rand, m *simMachine) {
	return func(r *rand.Rand, m *simMachine) {
		slice := uniform(r, 1*ms, 6*ms)
		m.start = func(r *rand.Rand) func() piece {
			return alternate(r,
				func() float64 { return slice * uniform(r, 0.9, 1.1) },
				func() float64 { return slice * float64(n-1) * uniform(r, 0.9, 1.1) })
		}
	}
}

const period = 100 * ms // of the CFS quota

// quota lets the process run for a share of each period. eaten is how many other threads of the
// process spend the same quota at the same time.
func quota(share float64, eaten float64) func(r *rand.Rand) func() piece {
	return func(r *rand.Rand) func() piece {
		phase := r.Float64() * period
		budget := share*period - eaten*phase // the others were running before
		run := max(0, min(budget/(1+eaten), period-phase))
		full := min(share*period/(1+eaten), period)
		running := false
		next := func() piece {
			running = !running
			if running {
				return piece{full, 1}
			}
			return piece{period - full, 0}
		}
		return after(next, piece{run, 1}, piece{period - phase - run, 0})
	}
}

// families are the kinds of machines. Each fills in a machine that has its limit and iteration
// time already.
var families = []struct {
	name string
	make func(r *rand.Rand, m *simMachine)
}{
	{"ideal", func(r *rand.Rand, m *simMachine) { m.start = steady(1) }},
	{"jitter", jitter},
	{"hiccups of 1 to 50 ms", func(r *rand.Rand, m *simMachine) {
		gap := logUniform(r, 500*ms, 5000*ms)
		m.start = func(r *rand.Rand) func() piece {
			return alternate(r,
				func() float64 { return gap * r.ExpFloat64() },
				func() float64 { return logUniform(r, 1*ms, 50*ms) })
		}
	}},
	{"half a core in slices", contended(2)},
	{"a third in slices", contended(3)},
	{"bursts of load", func(r *rand.Rand, m *simMachine) {
		// A neighbour takes half the core now and then.
		burst := logUniform(r, 5*ms, 100*ms)
		gap := burst * uniform(r, 2, 8)
		m.start = func(r *rand.Rand) func() piece {
			busy := r.Float64() < gap/(burst+gap)
			return func() piece {
				busy = !busy
				if busy {
					return piece{burst * r.ExpFloat64(), 0.5}
				}
				return piece{gap * r.ExpFloat64(), 1}
			}
		}
	}},
	{"quota of 0.2", func(r *rand.Rand, m *simMachine) { m.start = quota(0.2, 0) }},
	{"quota of 0.5", func(r *rand.Rand, m *simMachine) { m.start = quota(0.5, 0) }},
	{"quota of 0.8", func(r *rand.Rand, m *simMachine) { m.start = quota(0.8, 0) }},
	{"quota, limit of whole periods", func(r *rand.Rand, m *simMachine) {
		m.limit = period * float64(1+r.IntN(8))
		m.start = quota(uniform(r, 0.1, 0.9), 0)
	}},
	{"quota that others eat", func(r *rand.Rand, m *simMachine) {
		m.start = quota(uniform(r, 0.3, 1.5), uniform(r, 0.2, 1.5))
	}},
	{"steal of 5 to 35 %", func(r *rand.Rand, m *simMachine) {
		share, slice := uniform(r, 0.05, 0.35), uniform(r, 0.5*ms, 5*ms)
		m.start = func(r *rand.Rand) func() piece {
			return alternate(r,
				func() float64 { return slice * (1 - share) / share * r.ExpFloat64() },
				func() float64 { return slice * r.ExpFloat64() })
		}
	}},
	{"slow first 50 ms", func(r *rand.Rand, m *simMachine) {
		slow := uniform(r, 0.3, 0.8)
		m.start = func(r *rand.Rand) func() piece { return after(steady(1)(r), piece{50 * ms, slow}) }
	}},
	{"turbo, then throttle", func(r *rand.Rand, m *simMachine) {
		length, turbo := logUniform(r, 50*ms, 3000*ms), uniform(r, 1.1, 1.6)
		m.start = func(r *rand.Rand) func() piece { return after(steady(1)(r), piece{length, turbo}) }
	}},
	{"one in ten iterations 100 times slower", func(r *rand.Rand, m *simMachine) {
		m.iter = max(m.iter, m.limit/10000) // for the simulation's own time
		m.iter = min(m.iter, m.limit/2000)  // or a slow one is a good part of the limit
		m.start = func(r *rand.Rand) func() piece {
			slow := true
			return func() piece {
				slow = !slow
				if slow {
					return piece{100 * m.iter, 0.01}
				}
				return piece{m.iter * 9 * r.ExpFloat64(), 1}
			}
		}
	}},
	{"coarse clock", func(r *rand.Rand, m *simMachine) {
		m.step = logUniform(r, 0.5*ms, 15.6*ms)
		m.start = steady(1)
	}},
	{"coarse clock and jitter", func(r *rand.Rand, m *simMachine) {
		m.step = logUniform(r, 0.5*ms, 15.6*ms)
		jitter(r, m)
	}},
}

// simCalibrate calibrates on a machine and returns the cost, or 3 if not even 4 fits, and
// the time as a multiple of the limit.
func simCalibrate(m *simMachine, r *rand.Rand) (cost int, took float64) {
	h := m.host(r)
	c := Calibrator{MaxDuration: time.Duration(m.limit), MinCost: MinCost}
	result, err := c.run(context.Background(), h)
	if errors.As(err, new(*CostTooSlowError)) {
		return MinCost - 1, h.t / m.limit
	}
	if err != nil {
		panic(err)
	}
	return result.Cost, h.t / m.limit
}

// truth is the real time of hashes on a machine.
type truth struct {
	lo, hi          int // the costs that may be returned
	isolated, train int // the highest cost whose median hash fits: from idle, and back to back
}

// measure simulates 200 hashes from idle and 100 back to back for each cost that matters.
func (m *simMachine) measure(r *rand.Rand) truth {
	times := make([][2][]float64, MaxCost+1)
	highest := MinCost // the first that cannot fit, even on a machine of twice the speed
	for highest < MaxCost && m.iter*hashWork(highest) < 2*m.limit {
		highest++
	}
	for range 200 {
		h := &simHost{next: m.start(r), iter: m.iter}
		done := 0.0
		for cost := MinCost; cost <= highest; cost++ {
			h.work(m.iter * (hashWork(cost) - done))
			done = hashWork(cost)
			times[cost][0] = append(times[cost][0], h.t)
		}
	}
	for cost := MinCost; cost <= highest; cost++ {
		slices.Sort(times[cost][0])
		if times[cost][0][199] < m.limit/16 {
			times[cost][1] = times[cost][0] // far below the limit, in whatever order
			continue
		}
		h := &simHost{next: m.start(r), iter: m.iter}
		for range 100 {
			times[cost][1] = append(times[cost][1], h.hash(cost))
		}
		slices.Sort(times[cost][1])
	}

	at := func(t []float64, q float64) float64 { return t[int(q*float64(len(t)-1))] }
	none := MinCost - 1
	tr := truth{none, none, none, none}
	for cost := MinCost; cost <= highest; cost++ {
		isolated, train := times[cost][0], times[cost][1]
		if max(at(isolated, 0.95), at(train, 0.95))+2*m.step <= m.limit/1.05 {
			tr.lo = cost
		}
		if min(at(isolated, 0.05), at(train, 0.05))-2*m.step <= m.limit*1.05 {
			tr.hi = cost
		}
		if at(isolated, 0.5) <= m.limit {
			tr.isolated = cost
		}
		if at(train, 0.5) <= m.limit {
			tr.train = cost
		}
	}
	return tr
}

// A calibrator under comparison.
type simAlgorithm struct {
	name string
	run  func(m *simMachine, r *rand.Rand) (cost int, took float64)
}

// The algorithms of others, as their sources describe them.
var simAlgorithms = []simAlgorithm{
	{"this package", simCalibrate},
	{"bcrypt-ruby's calibrate", func(m *simMachine, r *rand.Rand) (int, float64) {
		// One hash of each cost from 5 up, by the wall clock; the last before one that is too slow.
		h := m.host(r)
		for cost := MinCost; ; cost++ {
			before := h.now()
			h.hash(cost + 1)
			if float64(h.now()-before) > m.limit || cost == 30 {
				return cost, h.t / m.limit
			}
		}
	}},
	{"OpenBSD's autorounds, band (½, 1] of the limit", func(m *simMachine, r *rand.Rand) (int, float64) {
		// One hash of cost 8 by the thread's CPU time, then doubled or halved on paper.
		h := m.host(r)
		h.hash(8)
		cost, d := 8, h.cpu
		for ; cost < 16 && d <= m.limit/2; d *= 2 {
			cost++
		}
		for ; cost > 6 && d > m.limit; d /= 2 {
			cost--
		}
		return cost, h.t / m.limit
	}},
	{"the PHP manual's loop", func(m *simMachine, r *rand.Rand) (int, float64) {
		// One hash of each cost from 9 up; the first that reaches the limit.
		h := m.host(r)
		for cost := 9; ; cost++ {
			before := h.now()
			h.hash(cost)
			if float64(h.now()-before) >= m.limit || cost == MaxCost {
				return cost, h.t / m.limit
			}
		}
	}},
}

// simStats compares the results of an algorithm with the truth.
type simStats struct {
	results, between, below, above, twoBelow, disagree int
	outside                                            []string // of lo..hi
	took                                               []float64
}

func (s *simStats) add(o *simStats) {
	s.results += o.results
	s.between += o.between
	s.below += o.below
	s.above += o.above
	s.twoBelow += o.twoBelow
	s.disagree += o.disagree
	s.took = append(s.took, o.took...)
}

func percent(n, of int) float64 { return 100 * float64(n) / float64(of) }

// simulate runs all algorithms on n machines of a family.
func simulate(family int, n int) []simStats {
	stats := make([]simStats, len(simAlgorithms))
	for i := range n {
		r := rand.New(rand.NewPCG(uint64(family), uint64(i)))
		m := &simMachine{limit: logUniform(r, 20*ms, 1000*ms), iter: logUniform(r, 5e3, 500e3)}
		families[family].make(r, m)
		truth := m.measure(r)
		for a, algorithm := range simAlgorithms {
			s := &stats[a]
			cost, took := algorithm.run(m, r)
			again, _ := algorithm.run(m, r)
			s.results++
			s.took = append(s.took, took)
			lowest, highest := min(truth.isolated, truth.train), max(truth.isolated, truth.train)
			switch {
			case cost < lowest:
				s.below++
				if cost < lowest-1 {
					s.twoBelow++
				}
			case cost > highest:
				s.above++
			default:
				s.between++
			}
			if cost != again {
				s.disagree++
			}
			if cost < truth.lo || cost > truth.hi {
				s.outside = append(s.outside, fmt.Sprintf("machine %d: cost %d, want %d to %d; limit %.0f ms, iteration %.0f µs",
					i, cost, truth.lo, truth.hi, m.limit/ms, m.iter/1e3))
			}
		}
	}
	return stats
}

// On machines of all families the calibrated cost is the one that hashes then keep. Calibration
// is better at that than the algorithms that it replaces.
func TestCalibrateOnSimulatedMachines(t *testing.T) {
	hosts := *simHosts
	if testing.Short() {
		hosts = min(hosts, 20)
	}
	all := make([]simStats, len(simAlgorithms))
	var lock sync.Mutex
	t.Run("families", func(t *testing.T) {
		for i, family := range families {
			t.Run(family.name, func(t *testing.T) {
				t.Parallel()
				stats := simulate(i, hosts)
				ours := &stats[0]
				for _, o := range ours.outside {
					t.Log(o)
				}
				require.LessOrEqual(t, len(ours.outside), hosts/1000, "results outside of what may be returned")
				lock.Lock()
				defer lock.Unlock()
				for a := range all {
					all[a].add(&stats[a])
				}
			})
		}
	})

	var table strings.Builder
	fmt.Fprintf(&table, "\n| calibrator | between the truths, %% | too low / too high, %% | two too low, %% | restarts that disagree, %% | time, × limit: mean, median, p99 |\n| --- | --- | --- | --- | --- | --- |\n")
	for a, s := range all {
		if s.results == 0 {
			continue
		}
		slices.Sort(s.took)
		sum := 0.0
		for _, took := range s.took {
			sum += took
		}
		fmt.Fprintf(&table, "| %s | %.1f | %.1f / %.1f | %.2f | %.1f | %.2f, %.2f, %.1f |\n", simAlgorithms[a].name,
			percent(s.between, s.results), percent(s.below, s.results), percent(s.above, s.results), percent(s.twoBelow, s.results),
			percent(s.disagree, s.results), sum/float64(s.results), s.took[s.results/2], s.took[s.results*99/100])
	}
	t.Log(table.String())
	if hosts < 200 {
		return // too few for a percentage
	}
	require.GreaterOrEqual(t, percent(all[0].between, all[0].results), 97.0)
	require.LessOrEqual(t, percent(all[0].twoBelow, all[0].results), 0.2)
}

// After a lasting change of speed, the cost fits the speed before, after, or between.
func TestCalibrateAcrossAChange(t *testing.T) {
	for i := range *simHosts {
		r := rand.New(rand.NewPCG(uint64(len(families)), uint64(i)))
		m := &simMachine{limit: logUniform(r, 20*ms, 1000*ms), iter: logUniform(r, 5e3, 500e3)}
		factor, at := logUniform(r, 0.3, 3), r.Float64()*3*m.limit
		m.start = func(r *rand.Rand) func() piece { return after(steady(factor)(r), piece{at, 1}) }

		cost, _ := simCalibrate(m, r)
		slow, fast := m.iter/min(factor, 1), m.iter/max(factor, 1)
		for _, c := range []struct {
			iter, limit float64
			ok          func(highest int) bool
		}{
			{slow, m.limit / 1.05, func(highest int) bool { return cost >= highest }},
			{fast, m.limit * 1.05, func(highest int) bool { return cost <= highest }},
		} {
			highest := MinCost - 1
			for highest < MaxCost && c.iter*hashWork(highest+1) <= c.limit {
				highest++
			}
			require.True(t, c.ok(highest), "machine %d: cost %d; limit %.0f ms, iteration %.0f or %.0f µs", i, cost, m.limit/ms, slow/1e3, fast/1e3)
		}
	}
}
