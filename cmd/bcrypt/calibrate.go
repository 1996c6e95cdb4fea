package main

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"example.com/bcrypt"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// attacker is the speed of one graphics card against bcrypt. The file names the card and the
// source of the figure.
var attacker = func() (a struct {
	What, Source     string
	Cost             int
	GuessesPerSecond float64 `json:"guesses_per_second"`
}) {
	if err := json.Unmarshal(attackerJSON, &a); err != nil {
		panic(err)
	}
	return a
}()

//go:embed attacker.json
var attackerJSON []byte

func calibrate() *cobra.Command {
	var c bcrypt.Calibrator
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "calibrate",
		Short: "Find the highest cost whose hash fits in a time on this machine",
		Long: "Find the highest cost whose hash fits in a time on this machine. It runs the real\n" +
			"iterations against the clock. Run it where the service will run, with the same quota.",
		Example: "  bcrypt calibrate --max 250ms\n" +
			"  bcrypt calibrate --max 250ms --previous 11\n" +
			"  bcrypt calibrate --max 250ms --min-rate 40 --json",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if term.IsTerminal(int(os.Stderr.Fd())) {
				bar := newBar(100)
				defer bar.Finish()
				c.Progress = func(p bcrypt.CalibrationProgress) {
					bar.Describe(fmt.Sprintf("pass %d, cost %d fits", p.Pass, p.Cost))
					bar.Set(int(100 * p.Done))
				}
			}
			result, err := c.Run(cmd.Context())
			var tooSlow *bcrypt.CostTooSlowError
			if err != nil && !errors.As(err, &tooSlow) {
				return err
			}
			if asJSON {
				out := json.NewEncoder(cmd.OutOrStdout())
				out.SetIndent("", "  ")
				return errors.Join(out.Encode(result), err)
			}
			printCalibration(cmd.OutOrStdout(), result)
			return err
		},
	}
	flags := cmd.Flags()
	flags.DurationVar(&c.MaxDuration, "max", 250*time.Millisecond, "the longest that one hash may take")
	flags.Float64Var(&c.MinRate, "min-rate", 0, "hashes per second that the machine must sustain; 0 for no such demand")
	flags.IntVar(&c.Previous, "previous", 0, "the cost in use so far; it is kept if it fits or nearly fits")
	flags.IntVar(&c.Concurrency, "concurrency", 1, "hashes that run at once while measuring")
	flags.IntVar(&c.MinCost, "min-cost", bcrypt.SafeMinCost, "the lowest cost to accept, 4 to 31")
	flags.BoolVar(&asJSON, "json", false, "print the evidence as JSON, durations in nanoseconds")
	return cmd
}

// newBar returns a progress bar on standard error. It erases itself at the end.
func newBar(most int64) *progressbar.ProgressBar {
	return progressbar.NewOptions64(most,
		progressbar.OptionSetWriter(os.Stderr),
		progressbar.OptionSetWidth(30),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish())
}

// printCalibration prints the evidence, then a table of what each cost gives.
func printCalibration(w io.Writer, r *bcrypt.Calibration) {
	fmt.Fprint(w, r)
	if r.Cost == 0 {
		return
	}
	t := newTable(1, "cost", "time a hash", "hashes/s a core", "hashes/s the host", "guesses/s of an attacker")
	row := func(cost int, d time.Duration) {
		host := r.Rate * math.Exp2(float64(r.Cost-cost))
		mark := ""
		if cost == r.Cost {
			mark = "→ "
		}
		t.AppendRow(table.Row{
			fmt.Sprintf("%s%d", mark, cost), rounded(d),
			fmt.Sprintf("%.3g", host/float64(r.GOMAXPROCS)), fmt.Sprintf("%.3g", host),
			fmt.Sprintf("%.0f", attacker.GuessesPerSecond*math.Exp2(float64(attacker.Cost-cost))),
		})
	}
	for _, split := range r.Splits[max(0, len(r.Splits)-4):] {
		row(split.Cost, split.Time)
	}
	if r.Forecast > 0 {
		row(r.Cost+1, r.Forecast)
	}
	fmt.Fprintf(w, "\n%s\n\nAn attacker is %s\n(%s). Times are of a hash as measured; rates with all cores busy.\n",
		t.Render(), attacker.What, attacker.Source)
	fmt.Fprintf(w, "\n\thasher := &bcrypt.Hasher{Cost: %d, MaxWaiting: 100}\n", r.Cost)
}

// newTable returns a table with a header. Columns from the numbers-th on, counted from 1, are
// aligned to the right.
func newTable(numbers int, header ...any) table.Writer {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.AppendHeader(header)
	var aligned []table.ColumnConfig
	for i := numbers; i <= len(header); i++ {
		aligned = append(aligned, table.ColumnConfig{Number: i, Align: text.AlignRight, AlignHeader: text.AlignRight})
	}
	t.SetColumnConfigs(aligned)
	return t
}

// rounded returns d rounded to three digits.
func rounded(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit)
}
