// Proof calibrates, hashes at the resulting cost, and says whether the hashes keep the limit.
// It exits with 1 if their median is above the limit by more than half. A busy machine changes
// from one second to the next, but a calibration that overlooks a quota is wrong by a factor of
// two to five. See .ci/calibration.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"time"

	"example.com/bcrypt"
)

func main() {
	limit := flag.Duration("max", 250*time.Millisecond, "the longest that a hash may take")
	flag.Parse()
	if err := prove(*limit); err != nil {
		fmt.Fprintln(os.Stderr, "proof:", err)
		os.Exit(1)
	}
}

func prove(limit time.Duration) error {
	c := bcrypt.Calibrator{MaxDuration: limit, MinCost: bcrypt.MinCost}
	result, err := c.Run(context.Background())
	if err != nil {
		return err
	}
	fmt.Print(result)

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
	fmt.Printf("in fact     %v, median of %d hashes (%v to %v)\n\n",
		median.Round(time.Millisecond), n, times[0].Round(time.Millisecond), times[n-1].Round(time.Millisecond))
	if median > limit*3/2 {
		return fmt.Errorf("a hash of cost %d takes %v, far above the limit of %v", result.Cost, median, limit)
	}
	return nil
}
