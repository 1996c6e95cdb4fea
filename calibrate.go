package bcrypt

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"time"
)

// SafeMinCost is the lowest cost that [Calibrate] returns: the minimum for bcrypt in
// OWASP's Password Storage Cheat Sheet. A [Calibrator] may set another floor.
const SafeMinCost = 10

// Calibrate returns the highest cost whose hash takes no longer than maxDuration on this
// host, alone on its core, by the wall clock. It is [Calibrator.Run] with nothing but a
// MaxDuration. Call it at start-up.
//
// It returns a [*CostTooSlowError] if a hash of [SafeMinCost] takes longer. It returns
// another error if maxDuration is not positive, if the host computes bcrypt wrongly, or if
// its clock does not run. With any error the cost is 0, which no hash has.
//
// [Calibrator] says how it measures, how long it takes, and what to do on a slow or busy
// host.
func Calibrate(maxDuration time.Duration) (cost int, err error) {
	c, err := (&Calibrator{MaxDuration: maxDuration}).Run(context.Background())
	if err != nil {
		return 0, err
	}
	return c.Cost, nil
}

// A Calibrator finds the highest safe cost for the host. Set the fields before
// [Calibrator.Run] and do not change them during it. Run one at a time in a process.
//
// # How it measures
//
// All iterations of bcrypt are alike, and a hash of cost c has 2^c of them. A pass runs the
// real iterations and watches the clock. When 2^c are done, that is the time of a hash of
// cost c. Nothing is extrapolated, so a CPU quota and a clock that throttles are in the
// figure; other programs are not, see below. A pass ends when the time is up, or when the
// next cost cannot fit even at the fastest pace seen. There are two passes, and a third if
// they differ. Of three, the middle one counts.
//
// Expect it to take one to two times MaxDuration, and three at most, plus the time for
// which the system stops the process (under a CPU quota up to about 0.1 s a pass). A second
// pass stops early when it confirms the first, and on a quiet machine without a quota there
// is no second. Then comes one short run with all cores busy: MaxDuration/20, at most 0.1 s
// (with MinRate: MaxDuration, between 0.2 and 1 s). A Concurrency above 1 adds another like it.
//
// # Slow hosts
//
// If a hash of MinCost does not fit, the result is a [*CostTooSlowError], never a weaker
// cost. That should not stop a service. Use [SafeMinCost], and log the error and the
// evidence as an alert.
//
// # Busy hosts
//
// A cost outlives the moment in which it was measured, so it is for a hash alone on this
// host, under the CPU quota of this process. A quota and a slow CPU are the host. Other
// programs are load: services that start together leave each other alone again. On Linux a
// pass tells the two apart by what the system counts. It is crowded if this thread waited
// for a CPU for more than a tenth of the time, beyond what a quota explains, while the CPUs
// that it may use were at least 95 % busy. Then its CPU time decides, put through the quotas
// in sight, and not the wall clock. So sixteen processes that start on two CPUs get the cost
// that one alone gets. [Calibration] then has the warning WarnCrowded, and in WallCost what
// the wall clock says. The wall clock decides where a counter is missing, on other systems,
// with a Concurrency above 1, and always for MinRate.
//
// # Restarts and fleets
//
// Previous is the cost in use so far. It saves a pass when the first pass agrees with it, and
// a host on the edge between two costs keeps it. A fleet of unlike hosts wants one cost for
// all: see docs/calibration.md in the repository.
type Calibrator struct {
	// MaxDuration is the longest that one hash may take: the median, by the wall clock.
	// It is required.
	MaxDuration time.Duration

	// MinCost is the lowest cost to return, 4 to 31. 0 means SafeMinCost.
	MinCost int

	// MaxCost is the highest cost to return, 4 to 31. 0 means 31.
	MaxCost int

	// Previous is the cost in use so far, 4 to 31: from the configuration, a file, or the
	// newest stored hash. 0 means none. It counts as a pass that was already made. It is kept
	// while its hash takes at most 1.1 times MaxDuration and a hash of the next cost more than
	// 0.9 times. Outside MinCost to MaxCost, or where it does not fit, it does not count.
	Previous int

	// Concurrency is how many hashes run at once while measuring. 0 means 1, a hash alone.
	Concurrency int

	// MinRate is how many hashes per second the whole host must sustain at the cost
	// returned. 0 means no such demand.
	MinRate float64

	// Progress, if not nil, is called by Run on its own goroutine, at most ten times a
	// second. Its time is not measured.
	Progress func(CalibrationProgress)
}

// CalibrationProgress says how far a calibration is.
type CalibrationProgress struct {
	Pass int     // 1, 2 or 3
	Done float64 // share of the longest time that the pass can take, 0 to 1
	Cost int     // the highest cost that fits so far, 0 if none does
}

// A Calibration is what a [Calibrator] measured: the cost, and the evidence for it. Its
// String method is meant for logs. In JSON, durations are integers of nanoseconds.
type Calibration struct {
	Cost        int           `json:"cost"` // 0 with a *CostTooSlowError
	MaxDuration time.Duration `json:"max_duration_ns"`
	Elapsed     time.Duration `json:"elapsed_ns"`  // how long the calibration took
	Concurrency int           `json:"concurrency"` // hashes that ran at once in the passes
	GOMAXPROCS  int           `json:"gomaxprocs"`
	StoppedBy   StopReason    `json:"stopped_by"` // why Cost is not higher

	Previous       int    `json:"previous"`        // the Calibrator's
	PreviousKept   bool   `json:"previous_kept"`   // Cost is Previous
	PreviousReason string `json:"previous_reason"` // why it was kept or not; "" without Previous

	Passes   []CalibrationPass `json:"passes"`
	Min      time.Duration     `json:"min_ns"` // over the passes' times at Cost
	Median   time.Duration     `json:"median_ns"`
	Max      time.Duration     `json:"max_ns"`
	Splits   []CostTime        `json:"splits"`      // the medians at each cost from 4 to Cost
	Forecast time.Duration     `json:"forecast_ns"` // at Cost+1, which did not run to its end; 0 if Cost is 31

	IterationsPerSecond float64       `json:"iterations_per_second"` // of one hash in the passes
	Alone               time.Duration `json:"alone_ns"`              // a hash of Cost alone on its core
	Loaded              time.Duration `json:"loaded_ns"`             // the same with all cores busy
	Rate                float64       `json:"rate"`                  // hashes of Cost per second, with all cores busy

	WallCost    int           `json:"wall_cost"`       // the highest that fits now by the wall clock, whatever else runs; 0 if none
	WallTime    time.Duration `json:"wall_time_ns"`    // of a hash of Cost now, by the wall clock
	QuotaCPUs   float64       `json:"quota_cpus"`      // of the tightest CPU quota in sight; 0 if there is none
	QuotaPeriod time.Duration `json:"quota_period_ns"` // of that quota

	Warnings []Warning `json:"warnings,omitempty"` // reasons to doubt the figures
}

// A CalibrationPass is one pass of a [Calibration]. Where the system does not count CPU, RunDelay
// or Busy, they are 0.
type CalibrationPass struct {
	Cost      int           `json:"cost"`      // the highest that fits in MaxDuration; 0 if none does
	Time      time.Duration `json:"time_ns"`   // at the Calibration's Cost; 0 if the pass did not get there
	Confirmed bool          `json:"confirmed"` // it ended one cost lower, where it took as long as the first pass
	Crowded   bool          `json:"crowded"`   // Cost and Time are computed, without the crowd

	Elapsed  time.Duration `json:"elapsed_ns"`   // that the pass took
	CPU      time.Duration `json:"cpu_ns"`       // that it had a CPU
	RunDelay time.Duration `json:"run_delay_ns"` // that it waited for a CPU
	Busy     float64       `json:"busy"`         // share of the time of its CPUs in use, by anyone, 0 to 1
}

// A CostTime is the time of a hash of one cost.
type CostTime struct {
	Cost int           `json:"cost"`
	Time time.Duration `json:"time_ns"`
}

// A StopReason says why a calibration returned no higher cost.
type StopReason string

const (
	StoppedByLimit   StopReason = "limit"   // the next cost takes longer than MaxDuration
	StoppedByCeiling StopReason = "ceiling" // MaxCost fits
	StoppedByRate    StopReason = "rate"    // the host does not sustain MinRate at the next cost
)

// A Warning is a reason to doubt a [Calibration]. Its text says what to do about it.
type Warning struct {
	Code WarningCode `json:"code"`
	Text string      `json:"text"`
}

// A WarningCode names the reason for a [Warning].
type WarningCode string

const (
	WarnRaceDetector WarningCode = "race_detector" // the program was built with -race
	WarnPassesDiffer WarningCode = "passes_differ" // the cost may differ at the next start
	WarnThrottled    WarningCode = "throttled"     // a CPU quota stopped the process
	WarnContended    WarningCode = "contended"     // the process waited for a CPU, and it is not known why
	WarnCrowded      WarningCode = "crowded"       // others had the CPUs; the cost is for the host without them
)

// A CostTooSlowError is returned when even the lowest cost allowed is too slow for the host:
// a hash takes longer than MaxDuration, or the host does fewer than MinRate a second.
type CostTooSlowError struct {
	Cost        int           // the lowest cost allowed
	Duration    time.Duration // that a hash of this cost takes, or would have taken
	MaxDuration time.Duration // the limit
	Rate        float64       // hashes of this cost that the host does per second
	MinRate     float64       // the Calibrator's, or 0
}

func (e *CostTooSlowError) Error() string {
	if e.Duration > e.MaxDuration {
		return fmt.Sprintf("bcrypt: a hash of cost %d takes %v here, longer than the limit of %v",
			e.Cost, readable(e.Duration), e.MaxDuration)
	}
	return fmt.Sprintf("bcrypt: this host does %.3g hashes of cost %d per second, fewer than the %.3g asked for",
		e.Rate, e.Cost, e.MinRate)
}

// Run calibrates. When ctx ends it stops within one iteration, some 50 µs, and returns
// ctx.Err().
//
// It returns an error before any work if a field is out of range: MaxDuration is not
// positive, MinCost, MaxCost or Previous is outside 4 to 31, MinCost is above MaxCost,
// Concurrency is negative or more than the host's cores can run at once, or MinRate is
// negative or not a number. It also returns an error if the host computes a known answer wrongly, or if its
// clock stands still or goes backwards. A [*CostTooSlowError] comes with the evidence,
// whose Cost is 0. With any other error the Calibration is nil.
func (c *Calibrator) Run(ctx context.Context) (*Calibration, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	if err := checkKnownAnswers(); err != nil {
		return nil, err
	}
	runtime.LockOSThread() // so that the thread's CPU time is the time of the passes
	defer runtime.UnlockOSThread()
	h := newMachine()
	defer h.close()
	return c.run(ctx, h)
}

func (c *Calibrator) validate() error {
	switch {
	case c.MaxDuration <= 0:
		return fmt.Errorf("bcrypt: calibrate: MaxDuration is %v, want more than 0", c.MaxDuration)
	case c.minCost() < MinCost || c.minCost() > MaxCost:
		return fmt.Errorf("bcrypt: calibrate: MinCost is %d, want 0 or %d to %d", c.MinCost, MinCost, MaxCost)
	case c.maxCost() < MinCost || c.maxCost() > MaxCost:
		return fmt.Errorf("bcrypt: calibrate: MaxCost is %d, want 0 or %d to %d", c.MaxCost, MinCost, MaxCost)
	case c.minCost() > c.maxCost():
		return fmt.Errorf("bcrypt: calibrate: MinCost is %d, above MaxCost, which is %d", c.minCost(), c.maxCost())
	case c.Previous != 0 && (c.Previous < MinCost || c.Previous > MaxCost):
		return fmt.Errorf("bcrypt: calibrate: Previous is %d, want 0 or %d to %d", c.Previous, MinCost, MaxCost)
	case c.Concurrency < 0 || c.Concurrency > maxConcurrency():
		return fmt.Errorf("bcrypt: calibrate: Concurrency is %d, want 0 to %d, which this host's cores can run at once", c.Concurrency, maxConcurrency())
	case !(c.MinRate >= 0) || math.IsInf(c.MinRate, 1):
		return fmt.Errorf("bcrypt: calibrate: MinRate is %v, want 0 or more hashes per second", c.MinRate)
	}
	return nil
}

func (c *Calibrator) minCost() int     { return cmp.Or(c.MinCost, SafeMinCost) }
func (c *Calibrator) maxCost() int     { return cmp.Or(c.MaxCost, MaxCost) }
func (c *Calibrator) concurrency() int { return max(c.Concurrency, 1) }

// previous returns Previous if it may be kept, or 0.
func (c *Calibrator) previous() int {
	if c.Previous < c.minCost() || c.Previous > c.maxCost() {
		return 0
	}
	return c.Previous
}

// run is Run on any host.
func (c *Calibrator) run(ctx context.Context, h host) (*Calibration, error) {
	m := &meter{
		host: h, ctx: ctx, limit: c.MaxDuration, ceiling: c.maxCost(), previous: c.previous(),
		lone: c.concurrency() == 1, inSight: h.quotas(),
	}
	if c.Progress != nil {
		m.progress = func(number int, p pass) {
			c.Progress(CalibrationProgress{Pass: number, Done: min(1, p.elapsed.Seconds()/c.MaxDuration.Seconds()), Cost: p.cost})
		}
	}
	start := h.now()
	if err := m.findStep(); err != nil {
		return nil, err
	}
	h.occupy(c.concurrency())
	passes, cost, err := c.findCost(m)
	if err != nil {
		return nil, err
	}

	short := min(c.MaxDuration/20, 100*time.Millisecond)
	loadedFor := short
	if c.MinRate > 0 {
		loadedFor = min(max(c.MaxDuration, 200*time.Millisecond), time.Second) // at least two periods of a CPU quota
	}
	loaded, err := m.burst(maxConcurrency(), loadedFor)
	if err != nil {
		return nil, err
	}

	r := &Calibration{
		Cost:                cost,
		MaxDuration:         c.MaxDuration,
		Concurrency:         c.concurrency(),
		GOMAXPROCS:          runtime.GOMAXPROCS(0),
		StoppedBy:           StoppedByLimit,
		IterationsPerSecond: pace(passes),
	}
	if r.Cost == c.maxCost() {
		r.StoppedBy = StoppedByCeiling
	}
	for r.Cost >= c.minCost() && loaded < c.MinRate*hashWork(r.Cost) {
		r.Cost--
		r.StoppedBy = StoppedByRate
	}
	var tooSlow error
	if r.Cost < c.minCost() {
		r.Cost = 0
		tooSlow = &CostTooSlowError{
			Cost: c.minCost(), Duration: timeAt(passes, c.minCost()), MaxDuration: c.MaxDuration,
			Rate: loaded / hashWork(c.minCost()), MinRate: c.MinRate,
		}
	}

	r.addTimes(passes)
	r.addQuota(m.inSight)
	r.judgePrevious(c, passes)
	if r.Cost > 0 {
		r.Rate = loaded / hashWork(r.Cost)
		r.Loaded = seconds(float64(maxConcurrency()) / r.Rate)
		r.Alone = r.Median
		if c.concurrency() > 1 {
			alone, err := m.burst(1, short)
			if err != nil {
				return nil, err
			}
			r.Alone = seconds(hashWork(r.Cost) / alone)
		}
	}
	r.warn(passes)
	r.Elapsed = h.now() - start
	return r, tooSlow
}

// findCost runs passes until two agree, where Previous counts as one, or until there are three,
// of which the middle one counts. One pass is enough if it is proof by itself.
func (c *Calibrator) findCost(m *meter) (passes []pass, cost int, err error) {
	var costs []int
	if c.previous() != 0 {
		costs = []int{c.previous()}
	}
	var first *pass
	for len(costs) < 2 || len(costs) == 2 && costs[0] != costs[1] {
		p, err := m.pass(len(passes)+1, first)
		if err != nil {
			return nil, 0, err
		}
		passes = append(passes, p)
		first = &passes[0]
		costs = append(costs, max(p.cost, c.minCost()-1)) // below the floor, all costs are alike
		if len(costs) == 1 && m.enough(&p) {
			break
		}
	}
	return passes, middle(costs), nil
}

// minShareTime is the shortest time over which a share of the CPU is more than noise.
const minShareTime = 5 * time.Millisecond

// addTimes fills in the passes, and the times of r.Cost and of the costs below.
func (r *Calibration) addTimes(passes []pass) {
	var wallCosts []int
	var wallTimes []time.Duration
	for _, p := range passes {
		r.Passes = append(r.Passes, CalibrationPass{
			Cost: p.cost, Time: p.splits[r.Cost], Confirmed: p.confirmed, Crowded: p.inCrowd,
			Elapsed: p.elapsed, CPU: max(p.cpu, 0), RunDelay: max(p.delay, 0), Busy: max(p.busy, 0),
		})
		wallCosts = append(wallCosts, p.wallCost)
		wallTime := p.splits[r.Cost]
		if p.inCrowd || wallTime == 0 {
			wallTime = seconds(p.iteration(p.elapsed) * hashWork(r.Cost))
		}
		wallTimes = append(wallTimes, wallTime)
	}
	r.WallCost = middle(wallCosts)
	if r.Cost > 0 {
		r.WallTime = median(wallTimes)
	}
	for cost := MinCost; cost <= MaxCost && (cost <= r.Cost || r.Cost == 0); cost++ {
		times := timesAt(passes, cost)
		if len(times) == 0 {
			break
		}
		r.Splits = append(r.Splits, CostTime{Cost: cost, Time: median(times)})
		if cost == r.Cost {
			r.Min, r.Median, r.Max = slices.Min(times), median(times), slices.Max(times)
			if cost < MaxCost {
				r.Forecast = 2 * r.Median
			}
		}
	}
}

// addQuota fills in the tightest of the quotas.
func (r *Calibration) addQuota(quotas []quota) {
	for _, q := range quotas {
		cpus := q.runtime.Seconds() / q.period.Seconds()
		if r.QuotaCPUs == 0 || cpus < r.QuotaCPUs {
			r.QuotaCPUs, r.QuotaPeriod = cpus, q.period
		}
	}
}

// judgePrevious says whether Previous was kept, and why.
func (r *Calibration) judgePrevious(c *Calibrator, passes []pass) {
	if c.Previous == 0 {
		return
	}
	r.Previous, r.PreviousKept = c.Previous, r.Cost == c.Previous
	time := func(cost int) time.Duration { return readable(timeAt(passes, cost)) }
	switch {
	case c.Previous < c.minCost():
		r.PreviousReason = fmt.Sprintf("it is below MinCost, which is %d", c.minCost())
	case c.Previous > c.maxCost():
		r.PreviousReason = fmt.Sprintf("it is above MaxCost, which is %d", c.maxCost())
	case r.PreviousKept && r.Cost == c.maxCost():
		r.PreviousReason = fmt.Sprintf("a hash takes %v, at most 1.1 times the limit", time(r.Cost))
	case r.PreviousKept:
		r.PreviousReason = fmt.Sprintf("a hash takes %v, at most 1.1 times the limit, and one of cost %d more than 0.9 times", time(r.Cost), r.Cost+1)
	case r.StoppedBy == StoppedByRate:
		r.PreviousReason = "the host does not sustain MinRate at it"
	case r.Cost < c.Previous:
		r.PreviousReason = fmt.Sprintf("a hash takes %v, more than 1.1 times the limit", time(c.Previous))
	default:
		r.PreviousReason = fmt.Sprintf("a hash of cost %d takes %v, at most 0.9 times the limit", c.Previous+1, time(c.Previous+1))
	}
}

// warn adds the warnings. Those about the CPU exclude each other where they would be contrary:
// what is known to be a crowd or a quota is not also something unknown.
func (r *Calibration) warn(passes []pass) {
	add := func(code WarningCode, format string, args ...any) {
		r.Warnings = append(r.Warnings, Warning{code, fmt.Sprintf(format, args...)})
	}
	if raceEnabled {
		add(WarnRaceDetector, "this program was built with the race detector, which makes hashes about ten times slower: "+
			"calibrate without it, or set the cost in tests")
	}

	costs, differ := make([]string, len(passes)), false
	for i, p := range passes {
		costs[i] = fmt.Sprint(p.cost)
		differ = differ || p.cost != passes[0].cost
	}
	if differ {
		why := "the host's speed changes: if restarts must agree, calibrate once on an idle host and configure that cost"
		if len(passes) == 3 && passes[1].cost == passes[2].cost {
			why = "only the first was slower, which looks like a host that starts slowly; the others show what lasts"
			if passes[0].cost > passes[1].cost {
				why = "only the first was faster, which looks like a CPU quota or a clock that slows down under load; the others show what lasts"
			}
		}
		add(WarnPassesDiffer, "the passes found costs %s: %s", strings.Join(costs, ", "), why)
	}

	var elapsed, cpu, own time.Duration
	var throttled int64
	crowded, known := false, r.Concurrency == 1
	for _, p := range passes {
		elapsed, cpu, own = elapsed+p.elapsed, cpu+p.cpu, own+p.own
		throttled += max(p.throttled, 0)
		crowded, known = crowded || p.inCrowd, known && p.cpu >= 0
	}
	had := cpu.Seconds() / elapsed.Seconds() // known for one hash at a time only
	known = known && elapsed >= minShareTime
	if crowded {
		add(WarnCrowded, "%.0f %% of the time went to other programs: the cost is for this host without them, "+
			"and a hash of it takes longer while they run; if they always do, set a lower limit or use a host of its own",
			100*(1-own.Seconds()/elapsed.Seconds()))
	}
	switch {
	case throttled > 0:
		share := ""
		if known && !crowded {
			share = fmt.Sprintf(", and it had a CPU for %.0f %% of the time", 100*had)
		}
		add(WarnThrottled, "a CPU quota stopped this process %d times while it measured%s: "+
			"it will stop hashes in service too; a higher quota allows a higher cost", throttled, share)
	case !crowded && known && had < 0.9:
		add(WarnContended, "this process had a CPU for %.0f %% of the time, and the system does not say why: "+
			"a CPU quota out of sight, or other programs; if it is not always so, calibrate when the host is idle", 100*had)
	}
}

// String returns the evidence as a few aligned lines, the cost first.
func (r *Calibration) String() string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-12s"+format+"\n", append([]any{name}, args...)...)
	}
	if r.Cost == 0 {
		line("cost", "none: even the lowest allowed is too slow")
	} else {
		line("cost", "%d", r.Cost)
		passes := make([]string, len(r.Passes))
		for i, p := range r.Passes {
			passes[i] = fmt.Sprint(readable(p.Time))
			switch {
			case p.Confirmed:
				passes[i] = "confirmed"
			case p.Time == 0:
				passes[i] = fmt.Sprintf("cost %d only", p.Cost)
			}
		}
		line("takes", "%v, limit %v (passes: %s)", readable(r.Median), r.MaxDuration, strings.Join(passes, ", "))
		if r.Concurrency > 1 {
			line("", "with %d hashes at once; %v alone", r.Concurrency, readable(r.Alone))
		}
		if r.Forecast > 0 {
			line("next", "cost %d would take %v", r.Cost+1, readable(r.Forecast))
		}
		if slices.ContainsFunc(r.Passes, func(p CalibrationPass) bool { return p.Crowded }) {
			now := "no cost fits"
			if r.WallCost > 0 {
				now = fmt.Sprintf("cost %d fits", r.WallCost)
			}
			line("now", "%s, and cost %d takes %v: others have the CPUs", now, r.Cost, readable(r.WallTime))
		}
		line("all cores", "%v a hash, %.3g hashes a second", readable(r.Loaded), r.Rate)
	}
	if r.Previous > 0 {
		verb := "changed"
		if r.PreviousKept {
			verb = "kept"
		}
		line("previous", "cost %d, %s: %s", r.Previous, verb, r.PreviousReason)
	}
	if r.QuotaCPUs > 0 {
		line("quota", "%.3g CPUs, in periods of %v", r.QuotaCPUs, r.QuotaPeriod)
	}
	line("pace", "%.3g iterations a second", r.IterationsPerSecond)
	line("stopped by", "%s", r.StoppedBy)
	line("measured in", "%v, GOMAXPROCS %d", readable(r.Elapsed), r.GOMAXPROCS)
	for _, w := range r.Warnings {
		line("warning", "%s", w.Text)
	}
	return b.String()
}

// readable returns d rounded to three digits.
func readable(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit)
}
