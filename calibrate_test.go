package bcrypt

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// steadyHost is an idle machine on which an iteration takes 50 µs, so that a hash of cost
// 11 takes 102 ms and one of cost 12 205 ms.
func steadyHost() *simHost {
	return &simHost{next: steady(1)(nil), iter: 50e3}
}

// meterOn returns a meter of h that has looked at its clock.
func meterOn(t *testing.T, h *simHost, limit time.Duration) *meter {
	t.Helper()
	m := &meter{host: h, ctx: context.Background(), limit: limit, ceiling: MaxCost}
	require.NoError(t, m.findStep())
	return m
}

func calibrateOn(h *simHost, c Calibrator) (*Calibration, error) {
	return c.run(context.Background(), h)
}

func TestCalibratorErrors(t *testing.T) {
	limit := 10 * time.Millisecond
	for _, c := range []struct {
		calibrator Calibrator
		text       string
	}{
		{Calibrator{}, "bcrypt: calibrate: MaxDuration is 0s, want more than 0"},
		{Calibrator{MaxDuration: -limit}, "bcrypt: calibrate: MaxDuration is -10ms, want more than 0"},
		{Calibrator{MaxDuration: limit, MinCost: 3}, "bcrypt: calibrate: MinCost is 3, want 0 or 4 to 31"},
		{Calibrator{MaxDuration: limit, MinCost: 32}, "bcrypt: calibrate: MinCost is 32, want 0 or 4 to 31"},
		{Calibrator{MaxDuration: limit, MaxCost: -1}, "bcrypt: calibrate: MaxCost is -1, want 0 or 4 to 31"},
		{Calibrator{MaxDuration: limit, MaxCost: 32}, "bcrypt: calibrate: MaxCost is 32, want 0 or 4 to 31"},
		{Calibrator{MaxDuration: limit, MinCost: 12, MaxCost: 11}, "bcrypt: calibrate: MinCost is 12, above MaxCost, which is 11"},
		{Calibrator{MaxDuration: limit, MaxCost: 9}, "bcrypt: calibrate: MinCost is 10, above MaxCost, which is 9"},
		{Calibrator{MaxDuration: limit, Previous: 3}, "bcrypt: calibrate: Previous is 3, want 0 or 4 to 31"},
		{Calibrator{MaxDuration: limit, Previous: 32}, "bcrypt: calibrate: Previous is 32, want 0 or 4 to 31"},
		{Calibrator{MaxDuration: limit, Previous: -1}, "bcrypt: calibrate: Previous is -1, want 0 or 4 to 31"},
		{Calibrator{MaxDuration: limit, Concurrency: -1}, "bcrypt: calibrate: Concurrency is -1, want 0 to "},
		{Calibrator{MaxDuration: limit, Concurrency: maxConcurrency() + 1}, "which this host's cores can run at once"},
		{Calibrator{MaxDuration: limit, MinRate: -1}, "bcrypt: calibrate: MinRate is -1, want 0 or more hashes per second"},
		{Calibrator{MaxDuration: limit, MinRate: math.NaN()}, "bcrypt: calibrate: MinRate is NaN, want 0 or more hashes per second"},
		{Calibrator{MaxDuration: limit, MinRate: math.Inf(1)}, "bcrypt: calibrate: MinRate is +Inf, want 0 or more hashes per second"},
	} {
		result, err := c.calibrator.Run(context.Background())
		require.ErrorContains(t, err, c.text)
		require.Nil(t, result)
	}
	cost, err := Calibrate(0)
	require.Error(t, err)
	require.Zero(t, cost)

	for _, c := range []Calibrator{ // the ends of each range
		{MaxDuration: 1},
		{MaxDuration: limit, MinCost: 4, MaxCost: 4},
		{MaxDuration: limit, MinCost: 31, MaxCost: 31},
		{MaxDuration: limit, Previous: 4},
		{MaxDuration: limit, Previous: 31},
		{MaxDuration: limit, Concurrency: maxConcurrency()},
		{MaxDuration: limit, MinRate: math.MaxFloat64},
	} {
		require.NoError(t, c.validate())
	}
}

// On the real host, these facts hold at any speed.
func TestCalibrateHere(t *testing.T) {
	c := Calibrator{MaxDuration: 30 * time.Millisecond, MinCost: MinCost, Concurrency: maxConcurrency()}
	result, err := c.Run(context.Background())
	if tooSlow := (*CostTooSlowError)(nil); errors.As(err, &tooSlow) {
		require.Zero(t, result.Cost)
		require.Equal(t, MinCost, tooSlow.Cost)
		require.Greater(t, tooSlow.Duration, c.MaxDuration)
		return
	}
	require.NoError(t, err)
	require.LessOrEqual(t, result.Median, c.MaxDuration)
	require.Len(t, result.Splits, result.Cost-MinCost+1)
	for i, split := range result.Splits {
		require.Equal(t, MinCost+i, split.Cost)
		require.Positive(t, split.Time)
	}
	require.Equal(t, result.Median, result.Splits[len(result.Splits)-1].Time)
	require.Positive(t, result.Alone)
	require.Positive(t, result.Loaded)
	require.Positive(t, result.IterationsPerSecond)
	require.Equal(t, raceEnabled, len(result.Warnings) > 0 && result.Warnings[0].Code == WarnRaceDetector)
}

func TestCalibration(t *testing.T) {
	hashes := float64(maxConcurrency())
	host := steadyHost()
	host.work(5e9) // the clock runs since any instant
	result, err := calibrateOn(host, Calibrator{MaxDuration: 250 * time.Millisecond})
	require.NoError(t, err)
	require.Equal(t, 12, result.Cost)
	require.Equal(t, StoppedByLimit, result.StoppedBy)
	require.Len(t, result.Passes, 2)
	require.InDelta(t, 4096.68*50e3+4098*25, float64(result.Median), 1e3) // with the readings
	require.Equal(t, 2*result.Median, result.Forecast)
	require.Equal(t, result.Median, result.Alone)
	require.InDelta(t, float64(result.Median), float64(result.Loaded), 1e6)
	require.InDelta(t, hashes/0.2048, result.Rate, 0.05*hashes)
	require.InDelta(t, 20000, result.IterationsPerSecond, 100)
	require.Len(t, result.Splits, 9)
	require.False(t, raceEnabled != (len(result.Warnings) == 1), "%v", result.Warnings)
	// The first pass ends when cost 13 cannot fit, just after cost 12 is done. The second ends at
	// cost 11, which confirms the first.
	require.InDelta(t, 0.2048+0.1024+0.0125, result.Elapsed.Seconds(), 0.002)

	result, err = calibrateOn(steadyHost(), Calibrator{MaxDuration: 250 * time.Millisecond, MaxCost: 11})
	require.NoError(t, err)
	require.Equal(t, 11, result.Cost)
	require.Equal(t, StoppedByCeiling, result.StoppedBy)

	result, err = calibrateOn(steadyHost(), Calibrator{MaxDuration: 250 * time.Millisecond, MinCost: 12})
	require.NoError(t, err)
	require.Equal(t, 12, result.Cost) // the lowest allowed

	if maxConcurrency() > 1 {
		result, err = calibrateOn(steadyHost(), Calibrator{MaxDuration: 250 * time.Millisecond, Concurrency: 2})
		require.NoError(t, err)
		require.InDelta(t, 4096.68*50e3, float64(result.Alone), 1e6)
	}
}

// A hash that takes exactly the limit fits. The pass that finds it runs no iteration that it does
// not count.
func TestCalibrationPass(t *testing.T) {
	pass := func(limit time.Duration) (pass, *simHost) {
		h := steadyHost()
		m := meterOn(t, h, limit)
		require.Zero(t, m.step)
		p, err := m.pass(1, nil)
		require.NoError(t, err)
		return p, h
	}
	p, h := pass(250 * time.Millisecond)
	require.Equal(t, p.done, h.ran)
	limit := p.splits[12]
	p, _ = pass(limit)
	require.Equal(t, 12, p.cost)
	p, _ = pass(limit - 1)
	require.Equal(t, 11, p.cost)
}

// The highest cost has a time and no forecast.
func TestCalibrationOfHighestCost(t *testing.T) {
	p := pass{cost: MaxCost, done: 1 << 31, elapsed: 1000}
	for cost := MinCost; cost <= MaxCost; cost++ {
		p.splits[cost] = time.Duration(cost)
	}
	r := Calibration{Cost: MaxCost}
	r.addTimes([]pass{p, p})
	require.Len(t, r.Splits, MaxCost-MinCost+1)
	require.EqualValues(t, MaxCost, r.Median)
	require.Zero(t, r.Forecast)
	require.NotContains(t, r.String(), "next")
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		times []time.Duration
		want  time.Duration
	}{
		{[]time.Duration{7}, 7},
		{[]time.Duration{5, 3}, 4},
		{[]time.Duration{5, 4}, 4},
		{[]time.Duration{9, 1, 2}, 2},
		{[]time.Duration{math.MaxInt64, math.MaxInt64}, math.MaxInt64},
	} {
		require.Equal(t, c.want, median(c.times), "%v", c.times)
	}
}

// The iterations of all cores count.
func TestMachineDone(t *testing.T) {
	m := machine{own: 5}
	m.others.Store(3)
	require.EqualValues(t, 8, m.done())
}

func TestCalibrateMinRate(t *testing.T) {
	hashes := float64(maxConcurrency())
	// With all lanes in use, each does 9.76 hashes a second at cost 11, and 4.88 at cost 12.
	result, err := calibrateOn(steadyHost(), Calibrator{MaxDuration: 250 * time.Millisecond, MinRate: 4.8 * hashes})
	require.NoError(t, err)
	require.Equal(t, 12, result.Cost)
	require.Equal(t, StoppedByLimit, result.StoppedBy)

	result, err = calibrateOn(steadyHost(), Calibrator{MaxDuration: 250 * time.Millisecond, MinRate: 4.95 * hashes})
	require.NoError(t, err)
	require.Equal(t, 11, result.Cost)
	require.Equal(t, StoppedByRate, result.StoppedBy)
	require.InDelta(t, 9.76*hashes, result.Rate, 0.1*hashes)
	require.InDelta(t, 2048.68*50e3, float64(result.Median), 1e6)

	// With a short limit the rate is measured for longer: two periods of a quota.
	result, err = calibrateOn(steadyHost(), Calibrator{MaxDuration: 20 * time.Millisecond, MinCost: MinCost, MinRate: 1})
	require.NoError(t, err)
	require.Greater(t, result.Elapsed, 200*time.Millisecond)

	result, err = calibrateOn(steadyHost(), Calibrator{MaxDuration: 250 * time.Millisecond, MinRate: 100 * hashes})
	var tooSlow *CostTooSlowError
	require.ErrorAs(t, err, &tooSlow)
	require.Equal(t, 10, tooSlow.Cost)
	require.InDelta(t, 19.5*hashes, tooSlow.Rate, 0.2*hashes)
	require.Equal(t, 100*hashes, tooSlow.MinRate)
	require.Contains(t, err.Error(), "hashes of cost 10 per second, fewer than the ")
	require.Zero(t, result.Cost)
	require.Equal(t, StoppedByRate, result.StoppedBy)
}

func TestCalibrateTooSlow(t *testing.T) {
	result, err := calibrateOn(steadyHost(), Calibrator{MaxDuration: 40 * time.Millisecond})
	var tooSlow *CostTooSlowError
	require.ErrorAs(t, err, &tooSlow)
	require.Equal(t, 10, tooSlow.Cost)
	require.InDelta(t, 1024.68*50e3, float64(tooSlow.Duration), 2e5)
	require.EqualError(t, err, "bcrypt: a hash of cost 10 takes 51.3ms here, longer than the limit of 40ms")
	require.Zero(t, result.Cost)
	require.Zero(t, result.Rate)
	require.Len(t, result.Splits, 6) // costs 4 to 9 fit
	require.Equal(t, 9, result.Passes[0].Cost)

	// A limit below one iteration works too.
	_, err = calibrateOn(steadyHost(), Calibrator{MaxDuration: 1, MinCost: MinCost})
	require.ErrorAs(t, err, &tooSlow)
	require.Equal(t, MinCost, tooSlow.Cost)
}

// Times of years do not overflow.
func TestCalibrateLongTimes(t *testing.T) {
	h := steadyHost()
	h.iter = 5e9 // 5 s an iteration: a hash of cost 31 takes 340 years, more than a Duration
	result, err := calibrateOn(h, Calibrator{MaxDuration: 1000 * time.Hour})
	require.NoError(t, err)
	require.Equal(t, 19, result.Cost)

	_, err = calibrateOn(h, Calibrator{MaxDuration: time.Hour, MinCost: 31})
	var tooSlow *CostTooSlowError
	require.ErrorAs(t, err, &tooSlow)
	require.Equal(t, time.Duration(math.MaxInt64), tooSlow.Duration)

	result, err = calibrateOn(steadyHost(), Calibrator{MaxDuration: math.MaxInt64, MaxCost: 14})
	require.NoError(t, err)
	require.Equal(t, 14, result.Cost)
}

// A stall in the first iteration of a pass does not end it, although nothing faster has been
// seen.
func TestCalibrateEarlyStall(t *testing.T) {
	h := steadyHost()
	h.onIterate = func() {
		if h.t-h.started < h.iter {
			h.work(20 * ms)
		}
	}
	result, err := calibrateOn(h, Calibrator{MaxDuration: 250 * time.Millisecond})
	require.NoError(t, err)
	require.Equal(t, 12, result.Cost)
}

func TestCalibrateClockFaults(t *testing.T) {
	frozen := func(from float64) func(float64) float64 {
		return func(t float64) float64 { return min(t, from) }
	}
	backwards := func(from, by float64) func(float64) float64 {
		return func(t float64) float64 {
			if t > from {
				return t - by
			}
			return t
		}
	}
	for _, c := range []struct {
		name  string
		clock func(float64) float64
		err   error
	}{
		{"still from the start", frozen(0), errClockStill},
		{"still in the first pass", frozen(100 * ms), errClockStill},
		{"still in the second pass", frozen(300 * ms), errClockStill},
		{"still in the last burst", frozen(312 * ms), errClockStill},
		{"backwards at once", backwards(1000, 500), errClockBackwards},
		{"backwards in a pass", backwards(100*ms, 1*ms), errClockBackwards},
		{"backwards in the last burst", backwards(312*ms, 1*ms), errClockBackwards},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := steadyHost()
			h.clock = c.clock
			result, err := calibrateOn(h, Calibrator{MaxDuration: 250 * time.Millisecond})
			require.Equal(t, c.err, err)
			require.Nil(t, result)
		})
	}
}

// Older Windows clocks move every 15.6 ms. The cost is still right; a hash that fits by less than
// a step does not count as fitting.
func TestCalibrateCoarseClock(t *testing.T) {
	for phase := range 100 {
		m := &simMachine{limit: 250 * ms, iter: 50e3, step: 15.6 * ms, start: steady(1)}
		cost, _ := simCalibrate(m, rand.New(rand.NewPCG(1, uint64(phase))))
		require.Equal(t, 12, cost)
		m.limit = 206 * ms
		cost, _ = simCalibrate(m, rand.New(rand.NewPCG(2, uint64(phase))))
		require.Equal(t, 11, cost)
		m.limit = 222 * ms // a step more than the hash, since passes start on an edge
		cost, _ = simCalibrate(m, rand.New(rand.NewPCG(3, uint64(phase))))
		require.Equal(t, 12, cost)
	}

	// Neither is a rate higher than measured.
	h := steadyHost()
	h.clock = func(t float64) float64 { return math.Floor((t+1e12)/(15.6*ms)) * 15.6 * ms }
	result, err := calibrateOn(h, Calibrator{MaxDuration: 250 * time.Millisecond})
	require.NoError(t, err)
	require.Equal(t, 12, result.Cost)
	require.Less(t, result.Rate, float64(maxConcurrency())/0.2048)

	// A clock is coarse if it has steps of more than a thousandth of the limit.
	for _, c := range []struct{ step, want time.Duration }{
		{250 * time.Microsecond, 0},
		{251 * time.Microsecond, 251 * time.Microsecond},
	} {
		h := steadyHost()
		h.clock = func(t float64) float64 { return float64(time.Duration(t) / c.step * c.step) }
		require.Equal(t, c.want, meterOn(t, h, 250*time.Millisecond).step)
	}
}

// Cancelling ends the run before the next iteration, wherever it is.
func TestCalibrateCancel(t *testing.T) {
	whole := steadyHost()
	whole.clock = func(t float64) float64 { return math.Floor(t/(1*ms)) * ms } // so that edges are sought
	iterationsRun := 0
	whole.onIterate = func() { iterationsRun++ }
	_, err := calibrateOn(whole, Calibrator{MaxDuration: 30 * time.Millisecond, MinCost: 4, Concurrency: maxConcurrency()})
	require.NoError(t, err)
	require.Greater(t, iterationsRun, 900)

	for last := 1; last < iterationsRun; last += 7 {
		ctx, cancel := context.WithCancel(context.Background())
		h := steadyHost()
		h.clock = whole.clock
		ran := 0
		h.onIterate = func() {
			if ran++; ran == last {
				cancel()
			}
		}
		c := Calibrator{MaxDuration: 30 * time.Millisecond, MinCost: 4, Concurrency: maxConcurrency()}
		result, err := c.run(ctx, h)
		require.Equal(t, context.Canceled, err)
		require.Nil(t, result)
		require.Equal(t, last, ran)
	}

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = (&Calibrator{MaxDuration: time.Hour}).Run(ctx)
	require.Equal(t, context.Canceled, err)
}

// Progress is called at most ten times a second, and its own time does not count.
func TestCalibrateProgress(t *testing.T) {
	h := steadyHost()
	var calls []CalibrationProgress
	var at []time.Duration
	result, err := calibrateOn(h, Calibrator{MaxDuration: 500 * time.Millisecond, Progress: func(p CalibrationProgress) {
		calls = append(calls, p)
		at = append(at, h.now())
		h.work(300 * ms)
	}})
	require.NoError(t, err)
	require.Equal(t, 13, result.Cost) // 410 ms
	require.InDelta(t, 8192.68*50e3, float64(result.Median), 2e6)
	require.Len(t, calls, 6) // the second pass is shorter: it confirms the first
	require.InDelta(t, 0.2, calls[0].Done, 0.01)
	for i := range calls {
		require.Equal(t, 1+i/4, calls[i].Pass)
		require.Equal(t, []int{10, 11, 12, 12}[i%4], calls[i].Cost, "%v", calls)
		if i > 0 {
			require.GreaterOrEqual(t, at[i]-at[i-1], 400*time.Millisecond)
		}
	}
}

func TestCalibrationWarnings(t *testing.T) {
	limit := 250 * time.Millisecond
	codes := func(h *simHost, c Calibrator) (codes []WarningCode, texts string) {
		c.MaxDuration = limit
		result, err := calibrateOn(h, c)
		require.NoError(t, err)
		for _, w := range result.Warnings {
			if w.Code != WarnRaceDetector {
				codes = append(codes, w.Code)
				texts += w.Text + "\n"
			}
		}
		return codes, texts
	}
	fast := &simHost{iter: 50e3, next: after(steady(0.5)(nil), piece{length: 230 * ms, speed: 1})}
	got, text := codes(fast, Calibrator{})
	require.Equal(t, []WarningCode{WarnPassesDiffer}, got)
	require.Contains(t, text, "the passes found costs 12, 11, 11: only the first was faster")

	slow := &simHost{iter: 50e3, next: after(steady(1)(nil), piece{length: 230 * ms, speed: 0.5})}
	got, text = codes(slow, Calibrator{})
	require.Equal(t, []WarningCode{WarnPassesDiffer}, got)
	require.Contains(t, text, "the passes found costs 11, 12, 12: only the first was slower")

	wild := &simHost{iter: 50e3, next: after(steady(2)(nil), piece{length: 200 * ms, speed: 1}, piece{length: 20 * ms, speed: 1}, piece{length: 200 * ms, speed: 0.5})}
	got, text = codes(wild, Calibrator{})
	require.Equal(t, []WarningCode{WarnPassesDiffer}, got)
	require.Contains(t, text, "the host's speed changes")
}

// A wrong known answer is an error, before anything is measured.
func TestCalibrateSelfTest(t *testing.T) {
	initialState[3] ^= 1
	defer func() { initialState[3] ^= 1 }()
	result, err := (&Calibrator{MaxDuration: time.Hour}).Run(context.Background())
	require.Equal(t, errSelfTest, err)
	require.Nil(t, result)
}

// String is what a service logs, JSON what a program reads.
func TestCalibrationFormats(t *testing.T) {
	r := Calibration{
		Cost: 12, MaxDuration: 250 * time.Millisecond, Elapsed: 423456789, Concurrency: 1, GOMAXPROCS: 2, StoppedBy: StoppedByLimit,
		Passes: []CalibrationPass{{12, 195123456, false, true, 5, 6, 7, 0.5}, {Cost: 11}, {Cost: 12, Time: 198123456, Confirmed: true}},
		Min:    195123456, Median: 196623456, Max: 198123456,
		Splits:   []CostTime{{4, 900000}, {12, 196623456}},
		Forecast: 393246912, IterationsPerSecond: 20703.1, Alone: 196623456, Loaded: 201123456, Rate: 9.9441,
		WallCost: 12, WallTime: 196623456, QuotaCPUs: 0.5, QuotaPeriod: 100e6,
		Previous: 12, PreviousKept: true, PreviousReason: "it fits",
		Warnings: []Warning{{WarnPassesDiffer, "the passes found costs 12, 11, 12: why"}},
	}
	require.Equal(t, `cost        12
takes       197ms, limit 250ms (passes: 195ms, cost 11 only, confirmed)
next        cost 13 would take 393ms
now         cost 12 fits, and cost 12 takes 197ms: others have the CPUs
all cores   201ms a hash, 9.94 hashes a second
previous    cost 12, kept: it fits
quota       0.5 CPUs, in periods of 100ms
pace        2.07e+04 iterations a second
stopped by  limit
measured in 423ms, GOMAXPROCS 2
warning     the passes found costs 12, 11, 12: why
`, r.String())

	text, err := json.Marshal(r)
	require.NoError(t, err)
	require.JSONEq(t, `{
		"cost": 12, "max_duration_ns": 250000000, "elapsed_ns": 423456789, "concurrency": 1, "gomaxprocs": 2, "stopped_by": "limit",
		"passes": [
			{"cost": 12, "time_ns": 195123456, "confirmed": false, "crowded": true, "elapsed_ns": 5, "cpu_ns": 6, "run_delay_ns": 7, "busy": 0.5},
			{"cost": 11, "time_ns": 0, "confirmed": false, "crowded": false, "elapsed_ns": 0, "cpu_ns": 0, "run_delay_ns": 0, "busy": 0},
			{"cost": 12, "time_ns": 198123456, "confirmed": true, "crowded": false, "elapsed_ns": 0, "cpu_ns": 0, "run_delay_ns": 0, "busy": 0}],
		"wall_cost": 12, "wall_time_ns": 196623456, "quota_cpus": 0.5, "quota_period_ns": 100000000,
		"previous": 12, "previous_kept": true, "previous_reason": "it fits",
		"min_ns": 195123456, "median_ns": 196623456, "max_ns": 198123456,
		"splits": [{"cost": 4, "time_ns": 900000}, {"cost": 12, "time_ns": 196623456}],
		"forecast_ns": 393246912, "iterations_per_second": 20703.1, "alone_ns": 196623456, "loaded_ns": 201123456, "rate": 9.9441,
		"warnings": [{"code": "passes_differ", "text": "the passes found costs 12, 11, 12: why"}]
	}`, string(text))
	var back Calibration
	require.NoError(t, json.Unmarshal(text, &back))
	require.Equal(t, r, back)

	require.Equal(t, `cost        none: even the lowest allowed is too slow
pace        0 iterations a second
stopped by  limit
measured in 0s, GOMAXPROCS 0
`, (&Calibration{StoppedBy: StoppedByLimit}).String())

	// A hash that takes exactly the limit is not too slow, but the rate may be too low.
	few := CostTooSlowError{Cost: 10, Duration: 100, MaxDuration: 100, Rate: 1.5, MinRate: 2}
	require.Equal(t, "bcrypt: this host does 1.5 hashes of cost 10 per second, fewer than the 2 asked for", few.Error())
	require.EqualValues(t, 10000, readable(10006))
	require.Equal(t, time.Duration(math.MaxInt64), seconds(math.MaxInt64/1e9))
}
