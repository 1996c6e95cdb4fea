// Command benchmarks measures package bcrypt side by side with its peers.
//
//	go run ./benchmarks alone
//	go run ./benchmarks -svg docs/ load   (throughput and waiting times, with pictures)
//	go run ./benchmarks echo              (other work in a saturated process)
//	go run ./benchmarks short             (a short hash among long ones)
//	go run ./benchmarks john              (against the attacker's code)
//	go run -tags libxcrypt ./benchmarks alone
//
// Machines are noisy and drift. So the implementations take turns in one process, and the ratio
// of their medians counts.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"text/tabwriter"
	"time"

	"example.com/bcrypt"
)

func main() {
	rounds := flag.Int("rounds", 0, "turns of each implementation (default 101 for alone, 3 for short, else 5)")
	svg := flag.String("svg", "", "with load: prefix of the names of two pictures to write, such as docs/")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: benchmarks [flags] alone|load|echo|short|john")
		flag.PrintDefaults()
	}
	flag.Parse()
	measure, ok := map[string]func(rounds int){
		"alone": alone,
		"load":  func(rounds int) { underLoad(rounds, *svg) },
		"echo":  echo,
		"short": short,
		"john":  john,
	}[flag.Arg(0)]
	if !ok || flag.NArg() != 1 || *rounds < 0 {
		flag.Usage()
		os.Exit(2)
	}
	fmt.Printf("%s, %s/%s, GOMAXPROCS %d\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0))
	measure(*rounds)
}

// alone prints the time of one hash at a time.
func alone(rounds int) {
	if rounds == 0 {
		rounds = 101
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "cost\timplementation\tmedian ms\tns a round\tof x-crypto\t")
	for _, cost := range []int{8, 10} {
		medians := aloneMedians(rounds, cost)
		for i, p := range peers {
			fmt.Fprintf(w, "%d\t%s\t%.2f\t%.2f\t%.3f\t\n", cost, p.name,
				medians[i].Seconds()*1e3,
				float64(medians[i].Nanoseconds())/blowfishRounds(cost),
				medians[i].Seconds()/medians[1].Seconds())
		}
	}
	w.Flush()
}

// aloneMedians runs the peers in turns and returns the median time of each.
func aloneMedians(rounds, cost int) []time.Duration {
	password := []byte("correct horse battery staple")
	hash, err := bcrypt.GenerateFromPassword(password, cost)
	if err != nil {
		check(err)
	}
	times := make([][]time.Duration, len(peers))
	for range rounds {
		for i, p := range peers {
			start := time.Now()
			if !p.compare(hash, password) {
				panic(p.name + " says mismatch")
			}
			times[i] = append(times[i], time.Since(start))
		}
	}
	medians := make([]time.Duration, len(peers))
	for i := range times {
		slices.Sort(times[i])
		medians[i] = times[i][rounds/2]
	}
	return medians
}

// blowfishRounds returns the number of rounds of a hash: 16 for each of 521 blocks, in
// 2^(cost+1)+1 key expansions.
func blowfishRounds(cost int) float64 {
	return float64(uint64(1)<<(cost+1)+1) * 521 * 16
}

// underLoad prints throughput and waiting times with all cores busy.
func underLoad(rounds int, svg string) {
	if rounds == 0 {
		rounds = 5
	}
	loads := measureLoads(rounds, []int{8, 10}, []int{1, 2, 4, 8, 32})
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "cost\tcallers a core\timplementation\thashes/s\tof x-crypto\tmedian ms\tof x-crypto\tp99 ms\tof x-crypto\t")
	for row := range loads[0] {
		for i, p := range peers {
			l, x := loads[i][row], loads[1][row]
			fmt.Fprintf(w, "%d\t%d\t%s\t%.1f\t%.2f\t%.1f\t%.2f\t%.1f\t%.2f\t\n", l.cost, l.callers, p.name,
				l.perSecond, l.perSecond/x.perSecond,
				l.median.Seconds()*1e3, l.median.Seconds()/x.median.Seconds(),
				l.p99.Seconds()*1e3, l.p99.Seconds()/x.p99.Seconds())
		}
	}
	w.Flush()
	if svg != "" {
		check(plotLoads(svg, 10, loads))
	}
}
