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

var simHosts = flag.Int("hosts", 200, "simulated machines in each family; the tables of docs/calibration.md have 3000")

// A piece is a time, in nanoseconds, during which a machine has one speed: 1 is a core of its
// own, 0 is a stop.
type piece struct {
	length, speed float64
	why           stop
	others        float64 // CPUs that others use
}

// A stop is why a piece of speed 0 does not run.
type stop byte

const (
	stolen    stop = iota // by the hypervisor: no counter of the thread moves
	waits                 // for a CPU that others use
	throttled             // by a quota in sight
	hidden                // by a quota out of sight
)

const simCPUs = 2 // that the thread may use

// A simHost is a machine on which something runs, from the moment it starts.
type simHost struct {
	next  func() piece
	piece piece   // the rest of the present one
	t     float64 // wall-clock time
	cpu   float64 // CPU time
	iter  float64 // time of an iteration at speed 1
	clock func(t float64) float64

	// What the system counts, if counters is set.
	counters     bool
	inSight      []quota
	delay        float64
	idle         float64
	throttledFor float64
	stops        int64   // by a quota in sight
	stopped      float64 // by a quota, in sight or not
	phase        float64
	steal        float64            // share of the time of busy CPUs that the hypervisor takes
	lie          func(*simCounters) // changes what is read

	hashes    int // at once
	ran       uint64
	started   float64 // the present hash
	onIterate func()  // before each iteration
}

// simCounters are all counters of a host, as they are read.
type simCounters struct {
	cpu, delay time.Duration
	usage
}

// pass moves the clock and the counters by d of the present piece.
func (h *simHost) pass(d float64) {
	h.t += d
	mine := 0.0 // whether a CPU is in use for this machine
	if h.piece.speed > 0 || h.piece.why == stolen {
		mine = 1
	}
	h.idle += d * max(0, simCPUs-mine-h.piece.others)
	switch {
	case h.piece.speed > 0:
		h.cpu += d
	case h.piece.why != stolen:
		h.delay += d
		if h.piece.why != waits {
			h.stopped += d
		}
		if h.piece.why == throttled {
			h.throttledFor += d
		}
	}
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
			h.pass(d)
			return
		}
		w -= h.piece.speed * h.piece.length
		h.pass(h.piece.length)
		if h.piece = h.next(); h.piece.speed == 0 && h.piece.why == throttled && h.piece.length > 0 {
			h.stops++
		}
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

// read returns what the system has counted. It counts the time of CPUs in ticks of 10 ms.
func (h *simHost) read() simCounters {
	tick := func(t float64) time.Duration { return time.Duration(math.Floor((t+h.phase)/(10*ms)) * 10 * ms) }
	c := simCounters{
		cpu: time.Duration(h.cpu), delay: time.Duration(h.delay),
		usage: usage{
			cpus: simCPUs, idle: tick(h.idle), total: tick(h.idle) + tick(simCPUs*h.t-h.idle),
			stolen:    tick(h.steal * (simCPUs*h.t - h.idle)),
			throttled: h.stops, throttledFor: time.Duration(h.throttledFor),
		},
	}
	if !h.counters {
		c = simCounters{cpu: -1, delay: -1, usage: usage{throttled: -1, throttledFor: -1}}
	}
	if h.lie != nil {
		h.lie(&c)
	}
	return c
}

func (h *simHost) thread() (cpu, delay time.Duration) {
	c := h.read()
	return c.cpu, c.delay
}
func (h *simHost) usage() usage    { return h.read().usage }
func (h *simHost) quotas() []quota { return h.inSight }

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

	alone    func(r *rand.Rand) func() piece // the same machine without its crowd, or nil if it has none
	either   func(r *rand.Rand) func() piece // another truth that is right too, or nil
	counters bool
	inSight  []quota
	steal    float64
	lie      func() func(*simCounters)
}

func (m *simMachine) host(r *rand.Rand) *simHost {
	h := &simHost{next: m.start(r), iter: m.iter, counters: m.counters, inSight: m.inSight, steal: m.steal, phase: r.Float64() * 10 * ms}
	if m.lie != nil {
		h.lie = m.lie()
	}
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
		return func() piece { return piece{length: 1e12, speed: speed} }
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
			return piece{length: run(), speed: 1}
		}
		return piece{length: stop()}
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
		return func() piece { return piece{length: m.limit / 200, speed: max(0.2, 1+spread*r.NormFloat64())} }
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

const simPeriod = 100 * ms // of the CFS quota

// eatenQuota lets the process run for a share of each period. eaten is how many other threads of
// the process spend the same quota at the same time.
func eatenQuota(share float64, eaten float64) func(r *rand.Rand) func() piece {
	return func(r *rand.Rand) func() piece {
		phase := r.Float64() * simPeriod
		budget := share*simPeriod - eaten*phase // the others were running before
		run := max(0, min(budget/(1+eaten), simPeriod-phase))
		full := min(share*simPeriod/(1+eaten), simPeriod)
		running := false
		next := func() piece {
			running = !running
			if running {
				return piece{length: full, speed: 1}
			}
			return piece{length: simPeriod - full, why: throttled}
		}
		return after(next, piece{length: run, speed: 1}, piece{length: simPeriod - phase - run, why: throttled})
	}
}

// A simLoad is what keeps a thread from its CPU: other processes, a quota, a hypervisor.
type simLoad struct {
	processes float64 // on simCPUs CPUs, this one included
	leave     float64 // when the others leave, in nanoseconds; 0 is never
	share     float64 // of a CPU that the quota allows, 0 for no quota
	hidden    bool    // the quota is out of sight
	steal     float64 // share of the time that the hypervisor takes
}

// start returns a stream from an idle moment. The thread runs for slices of some milliseconds,
// waits for its turn after each while there is a crowd, and stops when the quota is spent.
func (l simLoad) start(r *rand.Rand) func() piece {
	slice := uniform(r, 2*ms, 5*ms)
	t, periodEnd, budget := 0.0, math.Inf(1), math.Inf(1)
	why := throttled
	if l.hidden {
		why = hidden
	}
	if l.share > 0 && l.share < 1 {
		periodEnd, budget = r.Float64()*simPeriod, l.share*simPeriod
	}
	left := slice * r.Float64() // of the slice
	waiting, stealing := 0.0, 0.0
	if l.processes > simCPUs {
		waiting = r.Float64() * slice * (l.processes/simCPUs - 1)
	}
	return func() piece {
		for {
			if t >= periodEnd {
				periodEnd, budget = periodEnd+simPeriod, l.share*simPeriod
			}
			crowd := l.processes > simCPUs && (l.leave == 0 || t < l.leave)
			p := piece{}
			if crowd {
				p.others = simCPUs
			} else {
				waiting = 0
			}
			switch {
			case budget <= 0:
				p.length, p.why = periodEnd-t, why
			case waiting > 0:
				p.length, p.why = min(waiting, periodEnd-t), waits
				waiting -= p.length
			case stealing > 0:
				p.length = stealing
				stealing = 0
			default:
				p.length, p.speed = min(left, budget, periodEnd-t), 1
				if crowd {
					p.others = simCPUs - 1
				}
				left -= p.length
				budget -= p.length
				if l.steal > 0 {
					stealing = p.length * l.steal / (1 - l.steal) * r.ExpFloat64()
				}
			}
			if left <= 0 {
				left = slice * uniform(r, 0.9, 1.1)
				if crowd {
					waiting = left * (l.processes/simCPUs - 1) * uniform(r, 0.9, 1.1)
				}
			}
			t += p.length
			if p.length > 0 {
				return p
			}
		}
	}
}

// load puts a load on a machine with counters. What it is alone is the same without others.
func load(m *simMachine, l simLoad) {
	m.counters, m.start, m.steal = true, l.start, l.steal
	if l.share > 0 && !l.hidden {
		m.inSight = []quota{{time.Duration(l.share * simPeriod), simPeriod}}
	}
	l.processes = 0
	m.alone = l.start
}

// crowd is a number of processes on the CPUs, from 2 to 16.
func crowd(r *rand.Rand) float64 { return float64(2 + r.IntN(15)) }

// lies are what counters do that cannot be trusted: they stand still, or go backwards.
var lies = []func(first, c *simCounters){
	func(first, c *simCounters) { c.cpu = first.cpu },
	func(first, c *simCounters) { c.cpu = 2*first.cpu - c.cpu },
	func(first, c *simCounters) { c.delay = first.delay },
	func(first, c *simCounters) { c.delay = 2*first.delay - c.delay },
	func(first, c *simCounters) { c.total -= c.idle - first.idle; c.idle = first.idle },
	func(first, c *simCounters) { c.idle = 2*first.idle - c.idle },
	func(first, c *simCounters) { c.total, c.idle = first.total, first.idle },
	func(first, c *simCounters) { c.total = 2*first.total - c.total },
	func(first, c *simCounters) { c.throttledFor = first.throttledFor - 1 },
}

// lying makes one counter lie from some second reading on.
func lying(r *rand.Rand) func() func(*simCounters) {
	lie := lies[r.IntN(len(lies))]
	return func() func(*simCounters) { return lieFrom(lie) }
}

func lieFrom(lie func(first, c *simCounters)) func(*simCounters) {
	var first *simCounters
	return func(c *simCounters) {
		if first == nil {
			copied := *c
			copied.cpu, copied.delay, copied.idle, copied.total = copied.cpu+time.Hour, copied.delay+time.Hour, copied.idle+time.Hour, copied.total+3*time.Hour
			first = &copied
		}
		c.cpu, c.delay, c.idle, c.total = c.cpu+time.Hour, c.delay+time.Hour, c.idle+time.Hour, c.total+3*time.Hour // no lie is below zero
		lie(first, c)
	}
}

// families are the kinds of machines. Each fills in a machine that has its limit and iteration
// time already.
var families = []struct {
	name string
	make func(r *rand.Rand, m *simMachine)
}{
	{"ideal", func(r *rand.Rand, m *simMachine) { m.start, m.counters = steady(1), true }},
	{"jitter", func(r *rand.Rand, m *simMachine) { m.counters = true; jitter(r, m) }},
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
					return piece{length: burst * r.ExpFloat64(), speed: 0.5}
				}
				return piece{length: gap * r.ExpFloat64(), speed: 1}
			}
		}
	}},
	{"quota of 0.2", func(r *rand.Rand, m *simMachine) { load(m, simLoad{share: 0.2}) }},
	{"quota of 0.5", func(r *rand.Rand, m *simMachine) { load(m, simLoad{share: 0.5}) }},
	{"quota of 0.8", func(r *rand.Rand, m *simMachine) { load(m, simLoad{share: 0.8}) }},
	{"quota, limit of whole periods", func(r *rand.Rand, m *simMachine) {
		m.limit = simPeriod * float64(1+r.IntN(8))
		load(m, simLoad{share: uniform(r, 0.1, 0.9)})
	}},
	{"quota that others eat", func(r *rand.Rand, m *simMachine) {
		share := uniform(r, 0.3, 1.5)
		m.start, m.counters = eatenQuota(share, uniform(r, 0.2, 1.5)), true
		m.inSight = []quota{{time.Duration(share * simPeriod), simPeriod}}
	}},
	{"steal of 5 to 35 %", func(r *rand.Rand, m *simMachine) {
		share, slice := uniform(r, 0.05, 0.35), uniform(r, 0.5*ms, 5*ms)
		m.counters = true
		m.start = func(r *rand.Rand) func() piece {
			return alternate(r,
				func() float64 { return slice * (1 - share) / share * r.ExpFloat64() },
				func() float64 { return slice * r.ExpFloat64() })
		}
	}},
	{"slow first 50 ms", func(r *rand.Rand, m *simMachine) {
		slow := uniform(r, 0.3, 0.8)
		m.counters = true
		m.start = func(r *rand.Rand) func() piece { return after(steady(1)(r), piece{length: 50 * ms, speed: slow}) }
	}},
	{"turbo, then throttle", func(r *rand.Rand, m *simMachine) {
		length, turbo := logUniform(r, 50*ms, 3000*ms), uniform(r, 1.1, 1.6)
		m.counters = true
		m.start = func(r *rand.Rand) func() piece { return after(steady(1)(r), piece{length: length, speed: turbo}) }
	}},
	{"one in ten iterations 100 times slower", func(r *rand.Rand, m *simMachine) {
		m.iter = max(m.iter, m.limit/10000) // for the simulation's own time
		m.iter = min(m.iter, m.limit/2000)  // or a slow one is a good part of the limit
		m.start = func(r *rand.Rand) func() piece {
			slow := true
			return func() piece {
				slow = !slow
				if slow {
					return piece{length: 100 * m.iter, speed: 0.01}
				}
				return piece{length: m.iter * 9 * r.ExpFloat64(), speed: 1}
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
	{"a crowd that leaves", func(r *rand.Rand, m *simMachine) {
		load(m, simLoad{processes: crowd(r), leave: m.limit * uniform(r, 0.2, 3)})
	}},
	{"a crowd that stays", func(r *rand.Rand, m *simMachine) { load(m, simLoad{processes: crowd(r)}) }},
	{"a crowd, each with a quota", func(r *rand.Rand, m *simMachine) {
		load(m, simLoad{processes: crowd(r), share: uniform(r, 0.2, 1)})
	}},
	{"quota out of sight", func(r *rand.Rand, m *simMachine) {
		load(m, simLoad{share: uniform(r, 0.2, 0.9), hidden: true})
	}},
	{"quota out of sight, in a crowd", func(r *rand.Rand, m *simMachine) {
		load(m, simLoad{processes: crowd(r), share: uniform(r, 0.2, 0.9), hidden: true})
		m.either = steady(1) // nothing tells that there is a quota while there is a crowd
	}},
	{"low CPU shares", func(r *rand.Rand, m *simMachine) {
		load(m, simLoad{processes: simCPUs / uniform(r, 0.03, 0.3)})
	}},
	{"steal and a crowd", func(r *rand.Rand, m *simMachine) {
		load(m, simLoad{processes: crowd(r), steal: uniform(r, 0.05, 0.35)})
	}},
	{"a crowd, no counters", func(r *rand.Rand, m *simMachine) {
		load(m, simLoad{processes: crowd(r)})
		m.counters, m.alone = false, nil
	}},
	{"a crowd, counters that lie", func(r *rand.Rand, m *simMachine) {
		load(m, simLoad{processes: crowd(r)})
		m.lie, m.either = lying(r), m.start // the wall clock's cost, or the right one
	}},
	{"quota out of sight, counters that lie", func(r *rand.Rand, m *simMachine) {
		load(m, simLoad{share: uniform(r, 0.2, 0.9), hidden: true})
		m.lie = lying(r)
	}},
}

// A simTime is what a calibration took, in limits: all, and without the time for which a quota
// stopped it.
type simTime struct{ all, running float64 }

func (h *simHost) took(m *simMachine) simTime {
	return simTime{h.t / m.limit, (h.t - h.stopped) / m.limit}
}

// simCalibrate calibrates on a machine and returns the cost, or 3 if not even 4 fits, and
// the time as a multiple of the limit.
func simCalibrate(m *simMachine, r *rand.Rand) (cost int, took simTime) {
	return simCalibrateWith(m, r, 0)
}

func simCalibrateWith(m *simMachine, r *rand.Rand, previous int) (cost int, took simTime) {
	h := m.host(r)
	c := Calibrator{MaxDuration: time.Duration(m.limit), MinCost: MinCost, Previous: previous}
	result, err := c.run(context.Background(), h)
	if errors.As(err, new(*CostTooSlowError)) {
		return MinCost - 1, h.took(m)
	}
	if err != nil {
		panic(err)
	}
	return result.Cost, h.took(m)
}

// truth is the real time of hashes on a machine.
type truth struct {
	lo, hi          int // the costs that may be returned
	isolated, train int // the highest cost whose median hash fits: from idle, and back to back
}

// measure returns the truth of a machine: without its crowd, and either of two where nothing
// could tell them apart.
func (m *simMachine) measure(r *rand.Rand) truth {
	alone := *m
	if m.alone != nil {
		alone.start = m.alone
	}
	t := alone.measureAll(r)
	if m.either != nil {
		other := *m
		other.start = m.either
		o := other.measureAll(r)
		t = truth{min(t.lo, o.lo), max(t.hi, o.hi), min(t.isolated, t.train, o.isolated, o.train), max(t.isolated, t.train, o.isolated, o.train)}
	}
	return t
}

// measureAll simulates 200 hashes from idle and 100 back to back for each cost that matters.
func (m *simMachine) measureAll(r *rand.Rand) truth {
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
	run  func(m *simMachine, r *rand.Rand) (cost int, took simTime)
}

// The algorithms of others, as their sources describe them.
var simAlgorithms = []simAlgorithm{
	{"this package", simCalibrate},
	{"bcrypt-ruby's calibrate", func(m *simMachine, r *rand.Rand) (int, simTime) {
		// One hash of each cost from 5 up, by the wall clock; the last before one that is too slow.
		h := m.host(r)
		for cost := MinCost; ; cost++ {
			before := h.now()
			h.hash(cost + 1)
			if float64(h.now()-before) > m.limit || cost == 30 {
				return cost, h.took(m)
			}
		}
	}},
	{"OpenBSD's autorounds, band (½, 1] of the limit", func(m *simMachine, r *rand.Rand) (int, simTime) {
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
		return cost, h.took(m)
	}},
	{"the PHP manual's loop", func(m *simMachine, r *rand.Rand) (int, simTime) {
		// One hash of each cost from 9 up; the first that reaches the limit.
		h := m.host(r)
		for cost := 9; ; cost++ {
			before := h.now()
			h.hash(cost)
			if float64(h.now()-before) >= m.limit || cost == MaxCost {
				return cost, h.took(m)
			}
		}
	}},
}

// simStats compares the results of an algorithm with the truth.
type simStats struct {
	results, between, below, above, twoBelow, disagree int

	outside []string // of lo..hi
	took    []float64
	running []float64 // took, less the time for which a quota stopped it

	restarts, changed int       // with Previous, the cost of the run before
	agreeing          []float64 // the time of those that keep it
}

func (s *simStats) add(o *simStats) {
	s.results += o.results
	s.between += o.between
	s.below += o.below
	s.above += o.above
	s.twoBelow += o.twoBelow
	s.disagree += o.disagree
	s.took, s.running = append(s.took, o.took...), append(s.running, o.running...)
	s.outside = append(s.outside, o.outside...)
	s.restarts += o.restarts
	s.changed += o.changed
	s.agreeing = append(s.agreeing, o.agreeing...)
}

// mean returns the mean of some times, NaN if there are none.
func mean(times []float64) float64 {
	sum := 0.0
	for _, t := range times {
		sum += t
	}
	return sum / float64(len(times))
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
			s.took, s.running = append(s.took, took.all), append(s.running, took.running)
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
			if a == 0 && cost >= MinCost { // a service restarts with the cost it had
				s.restarts++
				kept, took := simCalibrateWith(m, r, cost)
				if kept == cost {
					s.agreeing = append(s.agreeing, took.all)
				} else {
					s.changed++
				}
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
	all, each := make([]simStats, len(simAlgorithms)), make([]simStats, len(families))
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
				lock.Lock()
				defer lock.Unlock()
				each[i] = *ours
				for a := range all {
					all[a].add(&stats[a])
				}
				require.LessOrEqual(t, len(ours.outside), max(2, hosts*3/1000), "results outside of what may be returned")
			})
		}
	})

	var table strings.Builder
	fmt.Fprintf(&table, "\n| calibrator | right, %% | too low / too high, %% | two too low, %% | restarts that disagree, %% | time, × limit: mean, median, p99 | p99 without stops |\n| --- | --- | --- | --- | --- | --- | --- |\n")
	row := func(name string, s *simStats, more string) {
		slices.Sort(s.took)
		slices.Sort(s.running)
		fmt.Fprintf(&table, "| %s | %.1f | %.1f / %.1f | %.2f | %.1f | %.2f, %.2f, %.1f | %.1f |%s", name,
			percent(s.between, s.results), percent(s.below, s.results), percent(s.above, s.results), percent(s.twoBelow, s.results),
			percent(s.disagree, s.results), mean(s.took), s.took[s.results/2], s.took[s.results*99/100], s.running[s.results*99/100], more)
	}
	for a := range all {
		if all[a].results == 0 {
			return
		}
		row(simAlgorithms[a].name, &all[a], "\n")
	}
	fmt.Fprintf(&table, "\n| family, this package | right, %% | too low / too high, %% | two too low, %% | restarts that disagree, %% | time, × limit: mean, median, p99 | p99 without stops | restarts with Previous that change it, %% |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for i := range families {
		with := fmt.Sprintf(" %.1f |\n", percent(each[i].changed, each[i].restarts))
		row(families[i].name, &each[i], with)
	}
	ours := &all[0]
	fmt.Fprintf(&table, "\nwith Previous: %.2f %% of %d restarts change the cost, and the others take %.2f times the limit\n",
		percent(ours.changed, ours.restarts), ours.restarts, mean(ours.agreeing))
	t.Log(table.String())
	if hosts < 200 {
		return // too few for a percentage
	}
	require.LessOrEqual(t, len(ours.outside), ours.results/1000, "results outside of what may be returned")
	require.LessOrEqual(t, percent(ours.twoBelow, ours.results), 0.2)
	// Fewer machines give percentages that vary more.
	slack := 10 / math.Sqrt(float64(hosts))
	require.GreaterOrEqual(t, percent(ours.between, ours.results), 97.5-slack)
	require.LessOrEqual(t, mean(ours.took), 1.6+slack/10)
	require.LessOrEqual(t, ours.running[ours.results*99/100], 3.5+slack)
	require.LessOrEqual(t, percent(ours.changed, ours.restarts), 1+slack)
	require.LessOrEqual(t, mean(ours.agreeing), 1+slack/10)
}

// After a lasting change of speed, the cost fits the speed before, after, or between.
func TestCalibrateAcrossAChange(t *testing.T) {
	for i := range *simHosts {
		r := rand.New(rand.NewPCG(uint64(len(families)), uint64(i)))
		m := &simMachine{limit: logUniform(r, 20*ms, 1000*ms), iter: logUniform(r, 5e3, 500e3)}
		factor, at := logUniform(r, 0.3, 3), r.Float64()*3*m.limit
		m.start = func(r *rand.Rand) func() piece { return after(steady(factor)(r), piece{length: at, speed: 1}) }

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
