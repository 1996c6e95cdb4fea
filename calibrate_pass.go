package bcrypt

import (
	"math"
	"time"
)

// This file is one pass of a calibration, and how it tells a crowd from a slow host.
//
// A cost outlives the moment in which it was measured, so it is for a hash alone on this host,
// under the quota of this process. Services that start together are a crowd: they leave again. A
// quota, stolen time and a slow clock are the host: they stay. All of them make a pass take longer
// by the wall clock. What the system counts tells them apart:
//
//	                               CPU time   run delay   CPUs busy   throttled
//	8 processes on 2 CPUs          as alone   the rest    100 %       0
//	low CPU shares beside loops    as alone   the rest    100 %       0
//	8 at once, each with a quota   as alone   the rest    100 %       little
//	a quota of half a CPU          as alone   the rest    26 %        the rest
//	the same, out of sight         as alone   the rest    26 %        0
//	stolen time                    as alone   0           100 %       0
//
// All but stolen time was measured on Linux. That is the hypervisor's, and /proc/stat counts it.

// The thresholds of the rule.
const (
	crowdDelay = 0.1  // of the wall time: run delay beyond what throttling explains
	crowdBusy  = 0.95 // of the time of the CPUs that the thread may use
)

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

// A pass is one run of the iterations of a hash, up to the limit.
type pass struct {
	cost      int                        // the highest that fits, 0 if none does
	splits    [MaxCost + 1]time.Duration // the time of a hash of each cost that fits
	confirmed bool                       // it ended early, because it went like the first pass
	done      uint64                     // iterations
	elapsed   time.Duration              // for the set-up and the iterations, by the wall clock

	cpu, delay   time.Duration // what the thread had and waited for in that time, or negative
	busy         float64       // share of the allowed CPUs' time in use, or negative
	stolen       float64       // share of the time in use that a hypervisor took
	throttled    int64         // periods in which a quota stopped the process, or negative
	throttledFor time.Duration // for how long, or negative

	inCrowd  bool // cost and splits are those without the crowd, under the quotas
	quotas   []quota
	own      time.Duration // elapsed, less the crowd
	wallCost int           // the highest cost that fits by the wall clock
}

// usage is what the system has counted so far beside the thread.
type usage struct {
	cpus         int           // CPUs that the thread may use; 0 if unknown
	idle, total  time.Duration // their time without work, and in any state, all together
	stolen       time.Duration // their time that a hypervisor took
	throttled    int64         // periods in which a CPU quota stopped the process, or negative
	throttledFor time.Duration // for how long, or negative
}

// addUsage sets how busy the CPUs were during the pass, and how much a quota stopped it, from
// what was counted before and after in the wall time given. The counters of the CPUs must account
// for that time on each of them, to within half of it, or else their share is unknown.
func (p *pass) addUsage(before, after usage, wall time.Duration) {
	p.busy, p.stolen, p.throttled, p.throttledFor = -1, 0, -1, -1
	if before.throttled >= 0 && after.throttled >= before.throttled {
		p.throttled = after.throttled - before.throttled
	}
	switch {
	case before.throttledFor >= 0 && after.throttledFor >= before.throttledFor:
		p.throttledFor = after.throttledFor - before.throttledFor
	case before.throttledFor < 0 && after.throttledFor < 0 && p.throttled < 0:
		p.throttledFor = 0 // no cgroup in sight stops anything
	}
	idle, total := after.idle-before.idle, after.total-before.total
	want, slack := time.Duration(after.cpus)*wall, time.Duration(after.cpus)*20*time.Millisecond // two ticks each
	if before.cpus > 0 && before.cpus == after.cpus && idle >= 0 && total > 0 && idle <= total &&
		total >= want/2 && total <= want+want/2+slack {
		p.busy = 1 - float64(idle)/float64(total)
		if stolen := after.stolen - before.stolen; stolen > 0 && stolen <= total-idle {
			p.stolen = float64(stolen) / float64(total-idle)
		}
	}
}

// crowded reports whether others had the CPU for part of the pass, and not only a quota: the
// thread waited for a CPU longer than throttling explains, and the CPUs had no time for it.
// A quota out of sight leaves the CPUs idle, so it does not look like a crowd. Where a counter
// is unknown, or cannot be right, the pass is not crowded and the wall clock decides.
func (p *pass) crowded() bool {
	wall := p.elapsed.Seconds()
	known := p.cpu > 0 && p.delay >= 0 && p.throttledFor >= 0 && p.busy >= 0 &&
		p.cpu.Seconds() <= 1.05*wall && p.delay.Seconds() <= 1.05*wall
	return known && (p.delay-p.throttledFor).Seconds() > crowdDelay*wall && p.busy >= crowdBusy
}

// ownTime returns the time of the pass without others: the thread's CPU time, and its share of the
// time that a hypervisor took, which stays with the host.
func (p *pass) ownTime() time.Duration {
	return seconds(p.cpu.Seconds() / (1 - min(p.stolen, 0.9)))
}

// leaveCrowd sets the cost and the times of a crowded pass to those of a hash alone under the
// quotas, up to the ceiling. limitOf is the longest time of a hash of a cost.
func (p *pass) leaveCrowd(quotas []quota, ceiling int, limitOf func(cost int) time.Duration) {
	p.inCrowd, p.quotas, p.own = true, quotas, p.ownTime()
	p.cost, p.splits = 0, [MaxCost + 1]time.Duration{}
	for cost := MinCost; cost <= ceiling; cost++ {
		t := p.alone(cost)
		if t > limitOf(cost) {
			break
		}
		p.cost, p.splits[cost] = cost, t
	}
}

// iteration returns the time of one iteration, if the pass took the time given.
func (p *pass) iteration(time time.Duration) float64 {
	return time.Seconds() / (setupShare + float64(p.done))
}

// alone returns the time of a hash of the given cost at the pass's pace, without the crowd if
// there was one.
func (p *pass) alone(cost int) time.Duration {
	work := p.iteration(p.own) * hashWork(cost)
	longest := work
	for _, q := range p.quotas {
		longest = max(longest, q.stretch(work))
	}
	return seconds(longest)
}

// A quota lets the processes of a cgroup use CPUs for runtime in each period, all together.
type quota struct{ runtime, period time.Duration }

// stretch returns how long work that needs a CPU for the given seconds takes under the quota,
// when it starts with a whole runtime: a period for each runtime used up, and the rest.
func (q quota) stretch(work float64) float64 {
	runtime, period := q.runtime.Seconds(), q.period.Seconds()
	if runtime >= period { // a single thread is never stopped
		return work
	}
	return period*math.Floor(work/runtime) + math.Mod(work, runtime)
}

// seconds returns the duration of s seconds, or the longest duration there is.
func seconds(s float64) time.Duration {
	if s >= math.MaxInt64/1e9 {
		return math.MaxInt64
	}
	return time.Duration(s * 1e9)
}
