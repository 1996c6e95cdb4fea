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

// SafeMinCost is the lowest cost that [Calibrate] returns, and a [Calibrator] unless it
// is told otherwise: the minimum that OWASP's Password Storage Cheat Sheet asks of
// bcrypt.
const SafeMinCost = 10

// Calibrate returns the highest cost whose hash takes no longer than maxDuration on this
// host, alone on its core, by the wall clock. It is [Calibrator.Run] with a MaxDuration
// and nothing else.
//
// It returns a [*CostTooSlowError] if a hash of [SafeMinCost] takes longer, and another
// error if maxDuration is not positive, the host computes bcrypt wrongly, or its clock
// does not run. With any error the cost is 0, which no hash has.
//
// Call it at start-up. See [Calibrator] for how it measures and how long it takes, and
// for what to do on a slow host and where many processes start together.
func Calibrate(maxDuration time.Duration) (cost int, err error) {
	c, err := (&Calibrator{MaxDuration: maxDuration}).Run(context.Background())
	if err != nil {
		return 0, err
	}
	return c.Cost, nil
}

// A Calibrator finds the highest safe cost for the host. The fields are set before
// [Calibrator.Run] and not changed during it; calibrators that run at the same time
// measure each other.
//
// # How it measures
//
// All iterations of bcrypt are alike, and a hash of cost c is 2^c of them. So a pass runs
// the real iterations, watched by the clock: the time at which 2^c are done is the time
// that a hash of cost c takes. Nothing is extrapolated, and what slows hashes on this
// host, a CPU quota, throttling or load, is in the figure. A pass ends when the time is
// up, or when even at the fastest pace seen the next cost cannot fit. There are two
// passes, and where they differ a third; of three, the middle one counts.
//
// It takes usually 1 to 2 times MaxDuration; at most 3, plus what the system stops the
// process for (under a CPU quota up to about 0.1 s a pass). To that comes a short run with
// all cores busy, a tenth of MaxDuration and at most 0.1 s, with a Concurrency above 1
// another for a hash alone; with MinRate the first takes MaxDuration, but from 0.2 to 1 s.
//
// # Slow hosts
//
// If a hash of MinCost does not fit, the result is a [*CostTooSlowError], never a weaker
// cost. A service should not die of it. Go on at [SafeMinCost], and log the error and the
// evidence loudly.
//
// # Many processes on one host
//
// Processes that start together measure each other: eight on one node see a fraction of
// its speed each, and agree on too low a cost, or all fail. For a fleet, calibrate once on
// each class of host, idle, put that cost into the configuration, and at start-up only
// check it: run a Calibrator whose MinCost and MaxCost are that cost, and log the error,
// which tells of a host that is slower than its class.
type Calibrator struct {
	MaxDuration time.Duration             // the longest that one hash may take: the median, by the wall clock; required
	MinCost     int                       // the lowest cost to return, 4 to 31; 0 means SafeMinCost
	MaxCost     int                       // the highest, 4 to 31; 0 means 31
	Concurrency int                       // hashes under way at once while measuring; 0 means 1, a hash alone
	MinRate     float64                   // hashes per second that the host must sustain at the cost returned; 0: no such demand
	Progress    func(CalibrationProgress) // called by Run, on its goroutine, at most ten times a second, its time not measured; or nil
}

// CalibrationProgress says how far a calibration is.
type CalibrationProgress struct {
	Pass int     // 1, 2, or 3
	Done float64 // share of the longest that the pass can take, 0 to 1
	Cost int     // the highest cost that fits so far, 0 if none does
}

// A Calibration is what a [Calibrator] measured: the cost, and the evidence for it. Its
// String method is meant for logs. In JSON durations are integers of nanoseconds.
type Calibration struct {
	Cost        int           `json:"cost"` // 0 with a *CostTooSlowError
	MaxDuration time.Duration `json:"max_duration_ns"`
	Elapsed     time.Duration `json:"elapsed_ns"`  // how long the calibration took
	Concurrency int           `json:"concurrency"` // hashes under way at once in the passes
	GOMAXPROCS  int           `json:"gomaxprocs"`
	StoppedBy   StopReason    `json:"stopped_by"` // why Cost is not higher

	Passes   []CalibrationPass `json:"passes"`
	Min      time.Duration     `json:"min_ns"` // of the passes' times at Cost
	Median   time.Duration     `json:"median_ns"`
	Max      time.Duration     `json:"max_ns"`
	Splits   []CostTime        `json:"splits"`      // the medians for Cost and each lower cost from 4 up
	Forecast time.Duration     `json:"forecast_ns"` // for Cost+1, which was not run to its end; 0 if Cost is 31

	IterationsPerSecond float64       `json:"iterations_per_second"` // of one hash in the passes
	Alone               time.Duration `json:"alone_ns"`              // a hash of Cost alone on its core
	Loaded              time.Duration `json:"loaded_ns"`             // the same with all cores busy
	Rate                float64       `json:"rate"`                  // hashes of Cost per second with all cores busy

	Warnings []Warning `json:"warnings,omitempty"` // reasons to doubt the figures
}

// A CalibrationPass is one pass of a [Calibration].
type CalibrationPass struct {
	Cost int           `json:"cost"`    // the highest that fits in MaxDuration by this pass; 0 if none does
	Time time.Duration `json:"time_ns"` // at the Calibration's Cost; 0 if this pass did not get there
}

// A CostTime is the time that a hash of a cost takes.
type CostTime struct {
	Cost int           `json:"cost"`
	Time time.Duration `json:"time_ns"`
}

// A StopReason says why a calibration returned no higher cost.
type StopReason string

const (
	StoppedByLimit   StopReason = "limit"   // the next cost takes longer than MaxDuration
	StoppedByCeiling StopReason = "ceiling" // MaxCost fits
	StoppedByRate    StopReason = "rate"    // at the next cost the host does not sustain MinRate
)

// A Warning is a reason to doubt a [Calibration]. The text says what to do about it.
type Warning struct {
	Code WarningCode `json:"code"`
	Text string      `json:"text"`
}

// A WarningCode names the reason of a [Warning].
type WarningCode string

const (
	WarnRaceDetector WarningCode = "race_detector" // the program was built with -race
	WarnPassesDiffer WarningCode = "passes_differ" // so the cost may differ at the next start
	WarnThrottled    WarningCode = "throttled"     // a CPU quota stopped the process meanwhile
	WarnContended    WarningCode = "contended"     // others had the CPU for part of the time
)

// A CostTooSlowError is returned when the lowest cost allowed is too slow for the host:
// a hash takes longer than MaxDuration, or fewer than MinRate can be done in a second.
type CostTooSlowError struct {
	Cost        int           // the lowest cost allowed
	Duration    time.Duration // what a hash of that cost takes, or would have taken
	MaxDuration time.Duration // the limit
	Rate        float64       // hashes of that cost per second that the host sustains
	MinRate     float64       // what was asked, or 0
}

func (e *CostTooSlowError) Error() string {
	if e.Duration > e.MaxDuration {
		return fmt.Sprintf("bcrypt: a hash of cost %d takes %v here, longer than the limit of %v",
			e.Cost, readable(e.Duration), e.MaxDuration)
	}
	return fmt.Sprintf("bcrypt: this host does %.3g hashes of cost %d per second, fewer than the %.3g asked for",
		e.Rate, e.Cost, e.MinRate)
}

// Run calibrates. It stops within one iteration, some 50 µs, of the end of ctx and then
// returns ctx.Err().
//
// Before any work it returns an error if MaxDuration is not positive, MinCost or MaxCost
// is outside 4 to 31 or the first is above the second, Concurrency is negative or more
// than the host's cores can hold at once, or MinRate is negative or not a number. Then it
// returns an error if a known answer comes out wrong, or if the clock stands still or
// goes backwards. A [*CostTooSlowError] comes with the evidence, whose Cost is 0. With
// all other errors the Calibration is nil.
func (c *Calibrator) Run(ctx context.Context) (*Calibration, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	if err := checkKnownAnswers(); err != nil {
		return nil, err
	}
	runtime.LockOSThread() // so that the thread's CPU time is that of the passes
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
		return fmt.Errorf("bcrypt: calibrate: Concurrency is %d, want 0 to %d, which this host's cores hold at once", c.Concurrency, maxConcurrency())
	case !(c.MinRate >= 0) || math.IsInf(c.MinRate, 1):
		return fmt.Errorf("bcrypt: calibrate: MinRate is %v, want 0 or more hashes per second", c.MinRate)
	}
	return nil
}

func (c *Calibrator) minCost() int     { return cmp.Or(c.MinCost, SafeMinCost) }
func (c *Calibrator) maxCost() int     { return cmp.Or(c.MaxCost, MaxCost) }
func (c *Calibrator) concurrency() int { return max(c.Concurrency, 1) }

// run is Run on any host. It fills in the evidence from what the meter measures.
func (c *Calibrator) run(ctx context.Context, h host) (*Calibration, error) {
	m := &meter{Calibrator: c, host: h, ctx: ctx}
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
		p.cost = max(p.cost, c.minCost()-1) // below the floor all are alike
		passes = append(passes, p)
	}
	after := h.usage()

	short := min(c.MaxDuration/10, 100*time.Millisecond)
	loadedFor := short
	if c.MinRate > 0 {
		loadedFor = min(max(c.MaxDuration, 200*time.Millisecond), time.Second) // two periods of a CPU quota and more
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

// addTimes fills in what the passes say of r.Cost and of the costs below.
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

// warn adds the warnings. before and after are from around the passes.
func (r *Calibration) warn(passes []pass, before, after usage) {
	add := func(code WarningCode, format string, args ...any) {
		r.Warnings = append(r.Warnings, Warning{code, fmt.Sprintf(format, args...)})
	}
	if raceEnabled {
		add(WarnRaceDetector, "this program was built with the race detector, in which hashes take about ten times as long: "+
			"calibrate without it, or set the cost in tests")
	}

	if len(passes) == 3 {
		first, second, third := passes[0].cost, passes[1].cost, passes[2].cost
		why := "the host's speed changes: where restarts must agree, calibrate once on an idle host and configure that cost"
		switch {
		case second == third && first > second:
			why = "the first alone was faster, which looks like a CPU quota or a clock that slows down under load; the others are what lasts"
		case second == third && first < second:
			why = "the first alone was slower, which looks like a host that starts slowly; the others are what lasts"
		}
		costs := make([]string, len(passes))
		for i := range r.Passes {
			costs[i] = fmt.Sprint(r.Passes[i].Cost)
		}
		add(WarnPassesDiffer, "the passes found costs %s: %s", strings.Join(costs, ", "), why)
	}

	share := "" // of the CPU, which tells something of a hash alone only
	lacking := false
	if r.Concurrency == 1 && before.cpu >= 0 && after.cpu >= 0 && after.at > before.at {
		had := float64(after.cpu-before.cpu) / float64(after.at-before.at)
		lacking = had < 0.9
		share = fmt.Sprintf(", and had a CPU for %.0f %% of the time", 100*had)
	}
	switch throttled := after.throttled - before.throttled; {
	case before.throttled >= 0 && throttled > 0:
		add(WarnThrottled, "a CPU quota stopped this process %d times while it measured%s: "+
			"hashes in service will be stopped likewise; a higher quota allows a higher cost", throttled, share)
	case lacking:
		add(WarnContended, "the passes waited for others%s: "+
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
			line("", "with %d hashes under way; %v alone", r.Concurrency, readable(r.Alone))
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

// readable rounds d to three digits.
func readable(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit)
}

// seconds is the duration of s seconds, or the longest there is.
func seconds(s float64) time.Duration {
	if s >= math.MaxInt64/1e9 {
		return math.MaxInt64
	}
	return time.Duration(s * 1e9)
}
