// Command storm sends logins at rising rates to two builds of the service: one on this library,
// one on golang.org/x/crypto/bcrypt. It finds how many a second each takes, and then sends each
// twice as many:
//
//	go run ./examples/login/storm
//
// It starts the services itself, on free ports of 127.0.0.1 with empty databases, and cannot be
// pointed at anything else. It ends with an error if the service on this library loses a sign-up
// that it accepted, or answers the storm with anything but success and 503.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// options are the limits of the storm.
type options struct {
	cost      int
	from, max float64       // logins per second
	step      time.Duration // how long each rate is held
	repeat    int
}

func main() {
	var o options
	flag.IntVar(&o.cost, "cost", 10, "cost of all hashes")
	flag.Float64Var(&o.from, "from", 8, "lowest rate, logins per second")
	flag.Float64Var(&o.max, "max", 1000, "highest rate, logins per second")
	flag.DurationVar(&o.step, "step", 10*time.Second, "how long each rate is held; the storm takes twice that")
	flag.IntVar(&o.repeat, "repeat", 3, "how often to do it all, the builds by turns; the table shows the median run")
	readme := flag.String("readme", "", "Markdown file in which to replace what stands between the storm's marks")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o, *readme); err != nil {
		fmt.Fprintln(os.Stderr, "storm:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, readme string) error {
	if o.from <= 0 || o.max < o.from || o.step < time.Second || o.repeat < 1 {
		return errors.New("want 0 < from <= max, step of 1s or more, repeat of 1 or more")
	}
	dir, err := os.MkdirTemp("", "storm")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	reports := make([][]*report, len(builds))
	for range o.repeat {
		for i, b := range builds {
			r, err := b.storm(ctx, dir, o)
			if err != nil {
				return fmt.Errorf("%s: %w", b.label, err)
			}
			reports[i] = append(reports[i], r)
		}
	}
	text := table(o, reports)
	fmt.Print(text)
	if readme != "" {
		if err := plots(filepath.Dir(readme), medians(reports)); err != nil {
			return err
		}
		if err := replaceMarked(readme, text); err != nil {
			return err
		}
	}
	for _, r := range reports[0] { // what the other does is in the table
		if err := r.check(); err != nil {
			return err
		}
	}
	return nil
}

// medians returns the run of median capacity for each build.
func medians(reports [][]*report) (runs []*report) {
	for _, all := range reports {
		all = slices.SortedFunc(slices.Values(all), func(a, b *report) int { return cmp.Compare(a.capacity(), b.capacity()) })
		runs = append(runs, all[len(all)/2])
	}
	return runs
}

// table returns the result as Markdown.
func table(o options, reports [][]*report) string {
	var w strings.Builder
	runs := medians(reports)
	fmt.Fprintf(&w, "Cost %d, each rate held for %v. A rate is taken if every login is answered\nand the 99th percentile stays within one second.\n\n", o.cost, o.step)
	fmt.Fprintln(&w, "| build | takes, logins/s: the runs, their median | ratio |\n| --- | ---: | ---: |")
	for i, b := range builds {
		var all []string
		for _, r := range reports[i] {
			all = append(all, fmt.Sprintf("%.1f", r.capacity()))
		}
		fmt.Fprintf(&w, "| %s | %s: **%.1f** | %.2f |\n", b.label, strings.Join(all, ", "), runs[i].capacity(), runs[i].capacity()/runs[len(runs)-1].capacity())
	}
	fmt.Fprintln(&w, "\nThe median run of each, rate by rate:\n\n| build | sent/s | logins/s | median | 99 % | refused | errors | memory |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
	for i, b := range builds {
		rows := append(slices.Clone(runs[i].rows), runs[i].storm)
		slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(a.rate, b.rate) })
		for _, r := range rows {
			fmt.Fprintf(&w, "| %s | %.1f | %.1f | %s | %s | %d | %d | %.0f MB |\n",
				b.label, r.rate, r.perSecond(), readable(r.median()), readable(r.p99()), r.refused, len(r.errors), r.memory/1e6)
		}
	}
	fmt.Fprintf(&w, "\nTwice what the build takes, for %v, one in ten of them a sign-up (the last row of each above):\n\n", 2*o.step)
	fmt.Fprintln(&w, "| build | sent/s | refused | errors | memory before, at most, after | sign-ups accepted, lost | normal again after |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
	for i, b := range builds {
		for _, r := range reports[i] {
			fmt.Fprintf(&w, "| %s | %.1f | %d | %d | %.0f, %.0f, %.0f MB | %d, %d | %s |\n", b.label, r.storm.rate, r.storm.refused, len(r.storm.errors),
				r.memoryBefore/1e6, r.storm.memory/1e6, r.memoryAfter/1e6, len(r.storm.signedUp), len(r.lost), readable(r.recovery))
		}
	}
	return w.String()
}

func readable(d time.Duration) string {
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(10 * time.Millisecond).String()
}

const begin, end = "<!-- storm begin: written by go run ./examples/login/storm -->\n", "<!-- storm end -->"

func replaceMarked(path, text string) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, ok1 := strings.Cut(string(old), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		return fmt.Errorf("%s has no storm marks", path)
	}
	return os.WriteFile(path, []byte(before+begin+text+end+after), 0o644)
}
