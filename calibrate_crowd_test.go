package bcrypt

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// loadedHost is a machine with counters on which an iteration takes 50 µs alone, under a load.
func loadedHost(l simLoad, seed uint64) *simHost {
	m := &simMachine{limit: 250 * ms, iter: 50e3}
	load(m, l)
	return m.host(rand.New(rand.NewPCG(seed, 1)))
}

func TestQuotaStretch(t *testing.T) {
	half := quota{50 * time.Millisecond, 100 * time.Millisecond}
	for work, want := range map[float64]float64{0: 0, 0.02: 0.02, 0.07: 0.12, 0.12: 0.22, 1.03: 2.03} {
		require.InDelta(t, want, half.stretch(work), 1e-9)
	}
	require.Equal(t, 7.0, quota{100, 100}.stretch(7)) // one thread is never stopped
	require.Equal(t, 7.0, quota{250, 100}.stretch(7))
}

// A crowd does not change the cost, whatever its size, and with quotas neither. The evidence has
// both what is alone and what is now.
func TestCalibrateCrowd(t *testing.T) {
	for processes := 3.0; processes <= 16; processes++ {
		result, err := calibrateOn(loadedHost(simLoad{processes: processes}, 1), Calibrator{MaxDuration: 250 * time.Millisecond})
		require.NoError(t, err)
		require.Equal(t, 12, result.Cost)
		require.InEpsilon(t, 0.2048, result.Median.Seconds(), 0.02)
		require.InEpsilon(t, 0.2048*processes/2, result.WallTime.Seconds(), 0.3)
		require.Zero(t, result.QuotaCPUs)
		require.InEpsilon(t, 20000, result.IterationsPerSecond, 0.02)
		for _, p := range result.Passes {
			require.True(t, p.Crowded)
			require.InEpsilon(t, p.Elapsed.Seconds(), (p.CPU + p.RunDelay).Seconds(), 0.01)
			require.InDelta(t, 1, p.Busy, 0.01)
		}
	}

	result, err := calibrateOn(loadedHost(simLoad{processes: 16}, 1), Calibrator{MaxDuration: 250 * time.Millisecond})
	require.NoError(t, err)
	require.Equal(t, 9, result.WallCost)
	require.Contains(t, result.String(), "now         cost 9 fits, and cost 12 takes 1.")
	require.Contains(t, result.String(), "takes       205ms, limit 250ms (passes: 205ms)\n")

	// Under a quota of half a CPU cost 11 takes 102 ms of work, and so 202 ms alone.
	result, err = calibrateOn(loadedHost(simLoad{processes: 8, share: 0.5}, 1), Calibrator{MaxDuration: 250 * time.Millisecond})
	require.NoError(t, err)
	require.Equal(t, 11, result.Cost)
	require.InEpsilon(t, 0.2024, result.Median.Seconds(), 0.03)
	require.Equal(t, 0.5, result.QuotaCPUs)
	require.Equal(t, 100*time.Millisecond, result.QuotaPeriod)
	require.Contains(t, result.String(), "quota       0.5 CPUs, in periods of 100ms\n")

	// Even the lowest cost is too slow alone: the time is the one alone.
	_, err = calibrateOn(loadedHost(simLoad{processes: 8}, 1), Calibrator{MaxDuration: 40 * time.Millisecond})
	var tooSlow *CostTooSlowError
	require.ErrorAs(t, err, &tooSlow)
	require.InEpsilon(t, 0.0512, tooSlow.Duration.Seconds(), 0.03)

	// With several hashes at once the thread's counters do not count all, so the wall clock decides.
	if maxConcurrency() > 1 {
		result, err = calibrateOn(loadedHost(simLoad{processes: 8}, 1), Calibrator{MaxDuration: 250 * time.Millisecond, Concurrency: 2})
		require.NoError(t, err)
		require.LessOrEqual(t, result.Cost, 11)
		require.Empty(t, warningCodes(result))
	}
}

func warningCodes(r *Calibration) (codes []WarningCode) {
	for _, w := range r.Warnings {
		if w.Code != WarnRaceDetector {
			codes = append(codes, w.Code)
		}
	}
	return codes
}

// Situations, and the warnings about the CPU that they give. No two of one situation are contrary:
// a time that a crowd or a quota explains is never also called unexplained.
func TestWarningsOfSituations(t *testing.T) {
	unknownThread := func(c *simCounters) { c.cpu, c.delay = -1, -1 }
	for _, c := range []struct {
		situation string
		load      simLoad
		lie       func(*simCounters)
		limit     time.Duration
		want      []WarningCode
		texts     []string
	}{
		{"alone", simLoad{}, nil, 0, nil, nil},
		{"one other on two CPUs", simLoad{processes: 2}, nil, 0, nil, nil},
		{"a crowd", simLoad{processes: 8}, nil, 0, []WarningCode{WarnCrowded}, []string{"% of the time went to other programs"}},
		{"low shares", simLoad{processes: 30}, nil, 0, []WarningCode{WarnCrowded}, nil},
		{"a quota", simLoad{share: 0.5}, nil, 0, []WarningCode{WarnThrottled}, []string{"times while it measured, and it had a CPU for "}},
		{"a quota of a whole CPU", simLoad{share: 1}, nil, 0, nil, nil},
		{"a quota out of sight", simLoad{share: 0.5, hidden: true}, nil, 0, []WarningCode{WarnContended}, []string{"a CPU quota out of sight, or other programs"}},
		{"a crowd, and a quota that it leaves unused", simLoad{processes: 8, share: 0.5}, nil, 0, []WarningCode{WarnCrowded}, nil},
		{"a crowd, and a quota out of sight", simLoad{processes: 8, share: 0.5, hidden: true}, nil, 0, []WarningCode{WarnCrowded}, nil},
		{"a crowd, and a quota that stops", simLoad{processes: 3, share: 0.5}, nil, 0, []WarningCode{WarnCrowded, WarnThrottled},
			[]string{"% of the time went to other programs", "times while it measured: it will stop"}},
		{"steal", simLoad{steal: 0.3}, nil, 0, []WarningCode{WarnContended}, nil},
		{"a crowd, the thread not counted", simLoad{processes: 8}, unknownThread, 0, nil, nil},
		{"a crowd, run delay not counted", simLoad{processes: 8}, func(c *simCounters) { c.delay = -1 }, 0, nil, nil},
		{"a crowd, CPUs not counted", simLoad{processes: 8}, func(c *simCounters) { c.cpus = 0 }, 0, []WarningCode{WarnContended}, nil},
		{"a crowd, no cgroup", simLoad{processes: 8}, func(c *simCounters) { c.usage.throttled, c.throttledFor = -1, -1 }, 0, []WarningCode{WarnCrowded}, nil},
		{"a crowd, stops counted but not their time", simLoad{processes: 8}, func(c *simCounters) { c.throttledFor = -1 }, 0, []WarningCode{WarnContended}, nil},
		{"a time too short to measure", simLoad{share: 0.5, hidden: true}, nil, time.Microsecond, nil, nil},
	} {
		t.Run(c.situation, func(t *testing.T) {
			for seed := range uint64(5) {
				h := loadedHost(c.load, seed)
				h.lie = c.lie
				limit := c.limit
				if limit == 0 {
					limit = 2 * time.Second // so that each has its effect
				}
				result, _ := calibrateOn(h, Calibrator{MaxDuration: limit, MinCost: MinCost})
				var codes []WarningCode
				all := ""
				for _, w := range result.Warnings {
					if w.Code != WarnRaceDetector && w.Code != WarnPassesDiffer {
						codes = append(codes, w.Code)
						all += w.Text + "\n"
					}
				}
				require.Equal(t, c.want, codes, all)
				for _, text := range c.texts {
					require.Contains(t, all, text)
				}
			}
		})
	}
}

// Where nobody else has the CPUs, no host gets more than the wall clock says: not by steal, turbo,
// a throttled clock, a quota, or a quota out of sight. The same holds for counters that lie, but
// for a moment of stopping that is shorter than a tick and so cannot be seen.
func TestNoHarm(t *testing.T) {
	hosts := min(*simHosts, 100)
	for i, family := range families {
		alone := strings.Contains(family.name, "quota") || strings.Contains(family.name, "steal") || strings.Contains(family.name, "turbo") ||
			strings.Contains(family.name, "slow") || family.name == "ideal" || family.name == "jitter"
		if !alone || strings.Contains(family.name, "crowd") || strings.Contains(family.name, "lie") {
			continue
		}
		for n := range hosts {
			r := rand.New(rand.NewPCG(uint64(i), uint64(n)))
			m := &simMachine{limit: logUniform(r, 20*ms, 1000*ms), iter: logUniform(r, 5e3, 500e3)}
			family.make(r, m)
			result, _ := calibrateOn(m.host(r), Calibrator{MaxDuration: time.Duration(m.limit), MinCost: MinCost})
			what := fmt.Sprintf("%s, machine %d", family.name, n)
			require.NotContains(t, warningCodes(result), WarnCrowded, what)
			require.LessOrEqual(t, result.Cost, result.WallCost, what)
		}
	}
}

func TestCalibratePrevious(t *testing.T) {
	calibrate := func(limit time.Duration, c Calibrator) *Calibration {
		t.Helper()
		c.MaxDuration = limit
		result, err := calibrateOn(steadyHost(), c) // cost 12 takes 205 ms
		require.NoError(t, err)
		return result
	}
	for _, c := range []struct {
		name   string
		limit  time.Duration
		c      Calibrator
		cost   int
		passes int
		kept   bool
		reason string
	}{
		{"agrees", 250 * time.Millisecond, Calibrator{Previous: 12}, 12, 1, true, "a hash takes 205ms, at most 1.1 times the limit, and one of cost 13 more than 0.9 times"},
		{"a little too slow", 190 * time.Millisecond, Calibrator{Previous: 12}, 12, 1, true, "a hash takes 205ms, at most 1.1 times the limit, and one of cost 13 more than 0.9 times"},
		{"too slow", 185 * time.Millisecond, Calibrator{Previous: 12}, 11, 2, false, "a hash takes 205ms, more than 1.1 times the limit"},
		{"the next would fit, just", 220 * time.Millisecond, Calibrator{Previous: 11}, 11, 1, true, "a hash takes 102ms, at most 1.1 times the limit, and one of cost 12 more than 0.9 times"},
		{"the next fits", 230 * time.Millisecond, Calibrator{Previous: 11}, 12, 2, false, "a hash of cost 12 takes 205ms, at most 0.9 times the limit"},
		{"much too low", 250 * time.Millisecond, Calibrator{MinCost: 4, Previous: 5}, 12, 2, false, "a hash of cost 6 takes 3.24ms, at most 0.9 times the limit"},
		{"much too high", 250 * time.Millisecond, Calibrator{Previous: 20}, 12, 2, false, "a hash takes 52.5s, more than 1.1 times the limit"},
		{"below the floor", 250 * time.Millisecond, Calibrator{MinCost: 11, Previous: 10}, 12, 2, false, "it is below MinCost, which is 11"},
		{"above the ceiling", 250 * time.Millisecond, Calibrator{MaxCost: 11, Previous: 12}, 11, 2, false, "it is above MaxCost, which is 11"},
		{"at the ceiling", 250 * time.Millisecond, Calibrator{MaxCost: 11, Previous: 11}, 11, 1, true, "a hash takes 102ms, at most 1.1 times the limit"},
		{"too few a second", 250 * time.Millisecond, Calibrator{Previous: 12, MinRate: 6 * float64(maxConcurrency())}, 11, 1, false, "the host does not sustain MinRate at it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := calibrate(c.limit, c.c)
			require.Equal(t, c.cost, r.Cost)
			require.Len(t, r.Passes, c.passes)
			require.Equal(t, c.c.Previous, r.Previous)
			require.Equal(t, c.kept, r.PreviousKept)
			require.Equal(t, c.reason, r.PreviousReason)
			verb := map[bool]string{true: "kept", false: "changed"}[c.kept]
			require.Contains(t, r.String(), fmt.Sprintf("previous    cost %d, %s: %s\n", c.c.Previous, verb, c.reason))
		})
	}
	r := calibrate(250*time.Millisecond, Calibrator{})
	require.Zero(t, r.Previous)
	require.Empty(t, r.PreviousReason)
	require.NotContains(t, r.String(), "previous")

	// The longest limit has no tenth to spare.
	require.Equal(t, 14, calibrate(1<<63-1, Calibrator{MaxCost: 14, Previous: 14}).Cost)
}

// One pass is enough on a host that gives it all of a CPU and is clear of the edge. Elsewhere a
// second confirms the first before it is done.
func TestCalibrateOwnTime(t *testing.T) {
	h := loadedHost(simLoad{}, 1)
	result, err := calibrateOn(h, Calibrator{MaxDuration: 250 * time.Millisecond})
	require.NoError(t, err)
	require.Len(t, result.Passes, 1)

	result, err = calibrateOn(steadyHost(), Calibrator{MaxDuration: 250 * time.Millisecond}) // no counters
	require.NoError(t, err)
	require.Len(t, result.Passes, 2)
	require.True(t, result.Passes[1].Confirmed)
	require.InDelta(t, 0.1024, result.Passes[1].Elapsed.Seconds(), 0.001)
	require.Contains(t, result.String(), "(passes: 205ms, confirmed)")

	for _, limit := range []time.Duration{208 * time.Millisecond, 400 * time.Millisecond} { // near an edge
		result, err = calibrateOn(loadedHost(simLoad{}, 1), Calibrator{MaxDuration: limit})
		require.NoError(t, err)
		require.Equal(t, 12, result.Cost)
		require.Len(t, result.Passes, 2)
		require.False(t, result.Passes[1].Confirmed)
	}
}
