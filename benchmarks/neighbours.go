package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"example.com/bcrypt"
)

// beside keeps callers busy with hashes of one cost while f runs.
func beside(p peer, callers, cost int, f func()) {
	password := []byte("correct horse battery staple")
	hash, err := bcrypt.GenerateFromPassword(password, bcrypt.MinCost)
	if err != nil {
		panic(err)
	}
	copy(hash[4:6], fmt.Sprintf("%02d", cost)) // a mismatch takes as long
	var quit atomic.Bool
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for !quit.Load() {
				p.compare(hash, password)
			}
		})
	}
	time.Sleep(200 * time.Millisecond) // until all have begun
	f()
	quit.Store(true)
	wg.Wait()
}

func quantiles(times []time.Duration) string {
	slices.Sort(times)
	at := func(q float64) float64 { return times[int(q*float64(len(times)-1))].Seconds() * 1e3 }
	return fmt.Sprintf("%.2f\t%.2f\t%.2f", at(0.5), at(0.99), at(1))
}

// echo prints the time of a message to a TCP server in this process and back, while ten callers
// keep the cores busy. The message stands for the other work of a service.
func echo(rounds int) {
	if rounds == 0 {
		rounds = 5
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	go func() {
		conn, err := listener.Accept()
		check(err)
		io.Copy(conn, conn)
	}()
	conn, err := net.Dial("tcp", listener.Addr().String())
	check(err)
	message := make([]byte, 64)
	times := make([][]time.Duration, len(peers))
	for range rounds {
		for i, p := range peers {
			beside(p, 10, 10, func() {
				for range 100 {
					start := time.Now()
					_, err := conn.Write(message)
					check(err)
					_, err = io.ReadFull(conn, message)
					check(err)
					times[i] = append(times[i], time.Since(start))
				}
			})
		}
	}
	printQuantiles("echo beside 10 callers of cost 10", times)
}

// short prints how long a hash of cost 8 takes among five callers of cost 15 a core.
func short(rounds int) {
	if rounds == 0 {
		rounds = 3
	}
	password := []byte("correct horse battery staple")
	hash, err := bcrypt.GenerateFromPassword(password, 8)
	check(err)
	times := make([][]time.Duration, len(peers))
	for range rounds {
		for i, p := range peers {
			beside(p, 5*runtime.GOMAXPROCS(0), 15, func() {
				for range 10 {
					start := time.Now()
					p.compare(hash, password)
					times[i] = append(times[i], time.Since(start))
				}
			})
		}
	}
	printQuantiles("a hash of cost 8 among 5 a core of cost 15", times)
}

func printQuantiles(what string, times [][]time.Duration) {
	fmt.Println(what)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "implementation\tmedian ms\tp99 ms\tmost ms\t")
	for i, p := range peers {
		fmt.Fprintf(w, "%s\t%s\t\n", p.name, quantiles(times[i]))
	}
	w.Flush()
}

// john prints the hashes of cost 5 per second on one core: by eight callers, and by the benchmark
// of John the Ripper (Debian's john), the attacker's code for CPUs.
func john(rounds int) {
	if rounds == 0 {
		rounds = 5
	}
	runtime.GOMAXPROCS(1)
	hash, err := bcrypt.GenerateFromPassword(nil, 5)
	check(err)
	var ours, theirs []float64
	for range rounds {
		perSecond, _ := press(8, 3*time.Second, func() { peers[0].compare(hash, nil) })
		ours = append(ours, perSecond)

		cmd := exec.Command("john", "--test", "--format=bcrypt")
		cmd.Env = append(os.Environ(), "OMP_NUM_THREADS=1")
		out, err := cmd.CombinedOutput()
		check(err)
		match := regexp.MustCompile(`(\d+) c/s real`).FindSubmatch(out)
		if match == nil {
			check(fmt.Errorf("john printed no rate: %q", out))
		}
		rate, err := strconv.ParseFloat(string(match[1]), 64)
		check(err)
		theirs = append(theirs, rate)
	}
	slices.Sort(ours)
	slices.Sort(theirs)
	us, them := ours[rounds/2], theirs[rounds/2]
	fmt.Printf("cost 5 on one core: this %.0f hashes/s, john %.0f, ratio %.2f\n", us, them, us/them)
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "benchmarks:", err)
		os.Exit(1)
	}
}
