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
// [Calibrator.Run] and do not change them during it. Calibrators that run at the same time
// measure each other.
//
// # How it measures
//
// All iterations of bcrypt are alike, and a hash of cost c has 2^c of them. A pass runs the
// real iterations and watches the clock. When 2^c are done, that is the time of a hash of
// cost c. Nothing is extrapolated, so whatever slows hashes on this host is in the figure:
// a CPU quota, throttling, other load. A pass ends when the time is up, or when the next
// cost cannot fit even at the fastest pace seen. There are two passes, and a third if they
// differ. Of three, the middle one counts.
//
// Expect it to take one to two times MaxDuration, and three at most, plus the time for
// which the system stops the process (under a CPU quota up to about 0.1 s a pass). Then
// comes one short run with all cores busy: MaxDuration/10, at most 0.1 s (with MinRate:
// MaxDuration, between 0.2 and 1 s). A Concurrency above 1 adds another like it.
//
// # Slow hosts
//
// If a hash of MinCost does not fit, the result is a [*CostTooSlowError], never a weaker
// cost. That should not stop a service. Use [SafeMinCost], and log the error and the
// evidence as an alert.
//
// # Many processes on one host
//
// Processes that start together measure each other. Eight on one node each see a fraction
// of its speed, and agree on a cost that is too low, or all fail. For a fleet, calibrate
// once on an idle host of each class and put that cost into the configuration. At start-up
// only check it: run a Calibrator with that cost as MinCost and MaxCost, and log the error,
// which tells of a host that is slower than its class.
type Calibrator struct {
	// MaxDuration is the longest that one hash may take: the median, by the wall clock.
	// It is required.
	MaxDuration time.Duration

	// MinCost is the lowest cost to return, 4 to 31. 0 means SafeMinCost.
	MinCost int

	// MaxCost is the highest cost to return, 4 to 31. 0 means 31.
	MaxCost int

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

	Warnings []Warning `json:"warnings,omitempty"` // reasons to doubt the figures
}

// A CalibrationPass is one pass of a [Calibration].
type CalibrationPass struct {
	Cost int           `json:"cost"`    // the highest that fits in MaxDuration; 0 if none does
	Time time.Duration `json:"time_ns"` // at the Calibration's Cost; 0 if the pass did not get there
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
	WarnContended    WarningCode = "contended"     // others had the CPU for part of the time
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
// positive, MinCost or MaxCost is outside 4 to 31, MinCost is above MaxCost, Concurrency is
// negative or more than the host's cores can run at once, or MinRate is negative or not a
// number. It also returns an error if the host computes a known answer wrongly, or if its
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

// run is Run on any host.
func (c *Calibrator) run(ctx context.Context, h host) (*Calibration, error) {
	m := &meter{host: h, ctx: ctx, limit: c.MaxDuration, ceiling: c.maxCost()}
	if c.Progress != nil {
		m.progress = func(number int, p pass) {
			c.Progress(CalibrationProgress{Pass: number, Done: float64(p.elapsed) / float64(c.MaxDuration), Cost: p.cost})
		}
	}
	start := h.now()
	if err := m.findStep(); err != nil {
		return nil, err
	}

	h.occupy(c.concurrency())
	before := h.usage()
	var passes []pass
	for len(passes) < 2 || len(passes) == 2 && passes[0].cost != passes[1].cost {
		p, err := m.pass(len(passes) + 1)
		if err != nil {
			return nil, err
		}
		p.cost = max(p.cost, c.minCost()-1) // below the floor, all costs are alike
		passes = append(passes, p)
	}
	after := h.usage()

	short := min(c.MaxDuration/10, 100*time.Millisecond)
	loadedFor := short
	if c.MinRate > 0 {
		loadedFor = min(max(c.MaxDuration, 200*time.Millisecond), time.Second) // at least two periods of a CPU quota
	}
	loaded, err := m.burst(maxConcurrency(), loadedFor)
	if err != nil {
		return nil, err
	}

	r := &Calibration{
		Cost:                middle(passes),
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
	r.warn(passes, before, after)
	r.Elapsed = h.now() - start
	return r, tooSlow
}

// minShareTime is the shortest time over which a share of the CPU is more than noise: the
// CPU time of a thread may come in steps of a millisecond.
const minShareTime = 5 * time.Millisecond

// addTimes fills in the times of r.Cost and of the costs below.
func (r *Calibration) addTimes(passes []pass) {
	for _, p := range passes {
		fits := 0
		for cost, t := range p.splits {
			if t > 0 {
				fits = cost
			}
		}
		r.Passes = append(r.Passes, CalibrationPass{Cost: fits, Time: p.splits[r.Cost]})
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

// warn adds the warnings. before and after were read before and after the passes.
func (r *Calibration) warn(passes []pass, before, after usage) {
	add := func(code WarningCode, format string, args ...any) {
		r.Warnings = append(r.Warnings, Warning{code, fmt.Sprintf(format, args...)})
	}
	if raceEnabled {
		add(WarnRaceDetector, "this program was built with the race detector, which makes hashes about ten times slower: "+
			"calibrate without it, or set the cost in tests")
	}

	if len(passes) == 3 {
		first, second, third := passes[0].cost, passes[1].cost, passes[2].cost
		why := "the host's speed changes: if restarts must agree, calibrate once on an idle host and configure that cost"
		switch {
		case second == third && first > second:
			why = "only the first was faster, which looks like a CPU quota or a clock that slows down under load; the others show what lasts"
		case second == third && first < second:
			why = "only the first was slower, which looks like a host that starts slowly; the others show what lasts"
		}
		costs := make([]string, len(passes))
		for i := range r.Passes {
			costs[i] = fmt.Sprint(r.Passes[i].Cost)
		}
		add(WarnPassesDiffer, "the passes found costs %s: %s", strings.Join(costs, ", "), why)
	}

	share := "" // CPU share; known only for one hash at a time, and noise over a few milliseconds
	lacking := false
	if r.Concurrency == 1 && before.cpu >= 0 && after.cpu >= 0 && after.at-before.at >= minShareTime {
		had := float64(after.cpu-before.cpu) / float64(after.at-before.at)
		lacking = had < 0.9
		share = fmt.Sprintf(", and had a CPU for %.0f %% of the time", 100*had)
	}
	switch throttled := after.throttled - before.throttled; {
	case before.throttled >= 0 && throttled > 0:
		add(WarnThrottled, "a CPU quota stopped this process %d times while it measured%s: "+
			"it will stop hashes in service too; a higher quota allows a higher cost", throttled, share)
	case lacking:
		add(WarnContended, "the passes waited for other programs%s: "+
			"if the host is not always so busy, calibrate when it is idle", share)
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
			if p.Time == 0 {
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
		line("all cores", "%v a hash, %.3g hashes a second", readable(r.Loaded), r.Rate)
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
