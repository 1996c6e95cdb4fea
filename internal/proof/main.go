// Proof calibrates and prints the evidence, for .ci/calibration. With -line it prints one line
// instead, which starts with the cost. With -hash it then hashes at the cost and says whether the
// hashes keep the limit: it exits with 1 if their median is above it by more than half. A busy
// machine changes from one second to the next, but a calibration that overlooks a quota is wrong
// by a factor of two to five.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"example.com/bcrypt"
)

func main() {
	limit := flag.Duration("max", 250*time.Millisecond, "the longest that a hash may take")
	line := flag.Bool("line", false, "print one line: the cost, and what it rests on")
	hash := flag.Bool("hash", false, "hash at the cost, and check that the hashes keep the limit")
	flag.Parse()
	if err := prove(*limit, *line, *hash); err != nil {
		fmt.Fprintln(os.Stderr, "proof:", err)
		os.Exit(1)
	}
}

func prove(limit time.Duration, line, hash bool) error {
	c := bcrypt.Calibrator{MaxDuration: limit, MinCost: bcrypt.MinCost}
	result, err := c.Run(context.Background())
	if err != nil {
		return err
	}
	if line {
		printLine(result)
	} else {
		fmt.Print(result)
	}
	if !hash {
		return nil
	}

	const n = 15
	var times []time.Duration
	for range n {
		start := time.Now()
		if _, err := bcrypt.GenerateFromPassword([]byte("password"), result.Cost); err != nil {
			return err
		}
		times = append(times, time.Since(start))
	}
	slices.Sort(times)
	median := times[n/2]
	fmt.Printf("in fact     %v, median of %d hashes (%v to %v)\n",
		median.Round(time.Millisecond), n, times[0].Round(time.Millisecond), times[n-1].Round(time.Millisecond))
	if median > limit*3/2 {
		return fmt.Errorf("a hash of cost %d takes %v, far above the limit of %v", result.Cost, median, limit)
	}
	return nil
}

// printLine prints the cost, its time in microseconds, and the figures behind it.
func printLine(r *bcrypt.Calibration) {
	var passes, warnings []string
	for _, p := range r.Passes {
		passes = append(passes, fmt.Sprintf("cost %d in %v, CPU %v, waited %v, CPUs %.0f %% busy",
			p.Cost, p.Elapsed.Round(time.Millisecond), p.CPU.Round(time.Millisecond), p.RunDelay.Round(time.Millisecond), 100*p.Busy))
	}
	for _, w := range r.Warnings {
		warnings = append(warnings, string(w.Code))
	}
	fmt.Printf("%d %d µs; wall clock now: %d; %v in all; passes: %s; warnings: %s\n", r.Cost, r.Median.Microseconds(), r.WallCost,
		r.Elapsed.Round(time.Millisecond), strings.Join(passes, " | "), strings.Join(warnings, " "))
}
