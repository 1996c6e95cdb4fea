package main

import (
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"example.com/bcrypt"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"
	"gonum.org/v1/gonum/stat"
)

// passwords are what bench hashes. It also shows that their length makes no difference.
var passwords = []struct{ name, text string }{
	{"short", "swordfish"},
	{"medium", "correct horse battery staple"},
	{"long", strings.Repeat("0123456789ab", 6)}, // 72 bytes
}

// A plan says what bench measures.
type plan struct {
	from, to  int // costs
	max       time.Duration
	passwords []string // names
	callers   []int
	rounds    int
	peers     []peer
}

// A result is the times of one peer at one cost, password and number of callers.
type result struct {
	Peer       string        `json:"implementation"`
	Cost       int           `json:"cost"`
	Password   string        `json:"password"`
	Callers    int           `json:"callers"`
	Hashes     int           `json:"hashes"`
	Iterations uint64        `json:"iterations"` // of bcrypt, in each hash
	Mean       time.Duration `json:"mean_ns"`
	Min        time.Duration `json:"min_ns"`
	Max        time.Duration `json:"max_ns"`
	SD         time.Duration `json:"sd_ns"`
	Median     time.Duration `json:"median_ns"`
	P99        time.Duration `json:"p99_ns"`

	times []float64 // seconds
}

func bench() *cobra.Command {
	var p plan
	var costs, against, picture string
	var asJSON, asCSV bool
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Time bcrypt implementations side by side",
		Long: "Time bcrypt implementations side by side. They take turns, hash by hash, so other load\n" +
			"on the machine affects all of them alike. An implementation stops at the first cost\n" +
			"whose hash takes longer than --max. Ctrl-C prints what is done so far.\n\n" +
			"x/crypto and go-crypt/x run in this process, and so does libxcrypt in a build with the\n" +
			"tag libxcrypt. php, ruby, python, node-bcrypt, bcryptjs and htpasswd run as programs, if\n" +
			"installed; they time the hash alone, without their own start.",
		Example: "  bcrypt bench --costs 4-12 --plot bench.svg\n" +
			"  bcrypt bench --max 100ms --against all --passwords short,long\n" +
			"  bcrypt bench --costs 10-10 --callers 1,8 --csv",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if p.from, p.to, err = parseCosts(costs); err != nil {
				return err
			}
			if err := p.validate(); err != nil {
				return err
			}
			if picture != "" && !strings.HasSuffix(picture, ".svg") && !strings.HasSuffix(picture, ".png") {
				return fmt.Errorf("--plot is %q, want a name that ends in .svg or .png", picture)
			}
			if p.peers, err = choosePeers(cmd.Context(), strings.Split(against, ",")); err != nil {
				return err
			}
			results, benchErr := p.run(cmd.Context())
			if benchErr != nil && !errors.Is(benchErr, context.Canceled) {
				return benchErr
			}
			out := cmd.OutOrStdout()
			switch {
			case asJSON:
				err = json.NewEncoder(out).Encode(results)
			case asCSV:
				err = writeCSV(out, results)
			default:
				printResults(out, results)
			}
			if picture != "" && err == nil && len(results) > 0 {
				err = plotResults(picture, results, p.max)
			}
			return errors.Join(benchErr, err)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&costs, "costs", "4-14", "the costs, a number or from-to")
	flags.DurationVar(&p.max, "max", time.Second, "an implementation stops at the first cost whose hash takes longer")
	flags.StringSliceVar(&p.passwords, "passwords", []string{"medium"}, "short (9 bytes), medium (28), long (72)")
	flags.IntSliceVar(&p.callers, "callers", []int{1}, "hashes at once; programs run one at a time")
	flags.StringVar(&against, "against", "x/crypto,go-crypt/x", "implementations to compare with, or all (those that work here)")
	flags.IntVar(&p.rounds, "rounds", 11, "turns of each implementation")
	flags.StringVar(&picture, "plot", "", "write time against cost to this file, .svg or .png")
	flags.BoolVar(&asJSON, "json", false, "print JSON, durations in nanoseconds")
	flags.BoolVar(&asCSV, "csv", false, "print CSV, durations in nanoseconds")
	cmd.MarkFlagsMutuallyExclusive("json", "csv")
	return cmd
}

// parseCosts reads "10" and "4-14".
func parseCosts(s string) (from, to int, err error) {
	first, last, ok := strings.Cut(s, "-")
	if !ok {
		last = first
	}
	from, err1 := strconv.Atoi(first)
	to, err2 := strconv.Atoi(last)
	if err1 != nil || err2 != nil || from < bcrypt.MinCost || to > bcrypt.MaxCost || from > to {
		return 0, 0, fmt.Errorf("--costs is %q, want a cost from 4 to 31 or two such as 4-14", s)
	}
	return from, to, nil
}

func (p *plan) validate() error {
	if p.max <= 0 {
		return fmt.Errorf("--max is %v, want more than 0", p.max)
	}
	if p.rounds < 1 {
		return fmt.Errorf("--rounds is %d, want 1 or more", p.rounds)
	}
	for _, n := range p.callers {
		if n < 1 {
			return fmt.Errorf("--callers names %d, want 1 or more", n)
		}
	}
	for _, name := range p.passwords {
		if textOf(name) == "" {
			return fmt.Errorf("--passwords names %q, want short, medium or long", name)
		}
	}
	return nil
}

// textOf returns the password of a name, or "".
func textOf(name string) string {
	for _, p := range passwords {
		if p.name == name {
			return p.text
		}
	}
	return ""
}

// run measures, cost by cost. If ctx ends, it returns the results so far and ctx.Err().
func (p *plan) run(ctx context.Context) ([]*result, error) {
	var all []*result
	bar := p.bar()
	defer bar.Finish()
	ended := map[string]bool{}
	for cost := p.from; cost <= p.to; cost++ {
		var turns []func() error
		var step []*result
		for _, callers := range p.callers {
			for _, name := range p.passwords {
				for _, peer := range p.peers {
					key := fmt.Sprint(peer.name, callers)
					if ended[key] || peer.outside && callers > 1 {
						continue
					}
					r := &result{Peer: peer.name, Cost: cost, Password: name, Callers: callers, Iterations: 1 << cost}
					step = append(step, r)
					turns = append(turns, func() error {
						bar.Describe(fmt.Sprintf("cost %d, %s", cost, peer.name))
						return r.turn(ctx, peer)
					})
				}
			}
		}
		for range p.rounds {
			for _, turn := range turns {
				// Once ctx has ended, a peer's error is only that it was stopped.
				if err := turn(); err != nil || ctx.Err() != nil {
					return append(all, summarize(step)...), cmp.Or(ctx.Err(), err)
				}
			}
			bar.Add64(1 << cost)
		}
		all = append(all, summarize(step)...)
		for _, r := range step {
			if r.Median > p.max {
				ended[fmt.Sprint(r.Peer, r.Callers)] = true
			}
		}
	}
	return all, nil
}

// bar shows how much of the work is done, and the time remaining.
func (p *plan) bar() *progressbar.ProgressBar {
	if !term.IsTerminal(int(os.Stderr.Fd())) {
		return progressbar.DefaultSilent(-1)
	}
	work := int64(p.rounds) * (int64(1)<<(p.to+1) - int64(1)<<p.from)
	return newBar(work)
}

// turn lets each caller make one hash.
func (r *result) turn(ctx context.Context, p peer) error {
	times := make([]time.Duration, r.Callers)
	errs := make([]error, r.Callers)
	var wg sync.WaitGroup
	for i := range r.Callers {
		wg.Go(func() { times[i], errs[i] = p.hash(ctx, textOf(r.Password), r.Cost) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	for _, t := range times {
		r.times = append(r.times, t.Seconds())
	}
	return nil
}

// summarize computes the statistics, and drops results that had no turn.
func summarize(results []*result) []*result {
	duration := func(s float64) time.Duration { return time.Duration(s * 1e9) }
	return slices.DeleteFunc(results, func(r *result) bool {
		if r.Hashes = len(r.times); r.Hashes == 0 {
			return true
		}
		slices.Sort(r.times)
		r.Min, r.Max = duration(r.times[0]), duration(r.times[r.Hashes-1])
		r.Mean = duration(stat.Mean(r.times, nil))
		if r.Hashes > 1 {
			r.SD = duration(stat.StdDev(r.times, nil))
		}
		r.Median = duration(stat.Quantile(0.5, stat.Empirical, r.times, nil))
		r.P99 = duration(stat.Quantile(0.99, stat.Empirical, r.times, nil))
		return false
	})
}

func printResults(w io.Writer, results []*result) {
	t := newTable(5, "cost", "callers", "password", "implementation", "hashes", "mean", "min", "max", "std dev", "median", "p99")
	for i, r := range results {
		if i > 0 && r.Cost != results[i-1].Cost {
			t.AppendSeparator()
		}
		t.AppendRow(table.Row{r.Cost, r.Callers, r.Password, r.Peer, r.Hashes,
			rounded(r.Mean), rounded(r.Min), rounded(r.Max), rounded(r.SD), rounded(r.Median), rounded(r.P99)})
	}
	fmt.Fprintf(w, "%s, %s/%s, GOMAXPROCS %d; a hash of cost c takes 2^c iterations\n%s\n",
		runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0), t.Render())
	if spread := lengthSpread(results); spread > 0 {
		fmt.Fprintf(w, "Password length makes no difference: medians of one implementation and cost differ by %.1f %% at the median.\n", 100*spread)
	}
}

// lengthSpread returns how far the medians for passwords of different length are apart, as a
// share: the median over implementations and costs. It is 0 if there was one length.
func lengthSpread(results []*result) float64 {
	type group struct {
		peer          string
		cost, callers int
	}
	medians := map[group][]float64{}
	for _, r := range results {
		g := group{r.Peer, r.Cost, r.Callers}
		medians[g] = append(medians[g], r.Median.Seconds())
	}
	var spreads []float64
	for _, m := range medians {
		if len(m) > 1 {
			spreads = append(spreads, slices.Max(m)/slices.Min(m)-1)
		}
	}
	if len(spreads) == 0 {
		return 0
	}
	slices.Sort(spreads)
	return math.Max(spreads[len(spreads)/2], 1e-9)
}

func writeCSV(w io.Writer, results []*result) error {
	out := csv.NewWriter(w)
	out.Write([]string{"implementation", "cost", "password", "callers", "hashes", "iterations", "mean_ns", "min_ns", "max_ns", "sd_ns", "median_ns", "p99_ns"})
	for _, r := range results {
		row := []string{r.Peer, strconv.Itoa(r.Cost), r.Password, strconv.Itoa(r.Callers), strconv.Itoa(r.Hashes), strconv.FormatUint(r.Iterations, 10)}
		for _, d := range []time.Duration{r.Mean, r.Min, r.Max, r.SD, r.Median, r.P99} {
			row = append(row, strconv.FormatInt(int64(d), 10))
		}
		out.Write(row)
	}
	out.Flush()
	return out.Error()
}
