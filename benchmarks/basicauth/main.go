// Command basicauth measures package basicauth beside other servers' Basic authentication, over real
// HTTP on the loopback interface, with the same users and hashes of the same cost:
//
//	go run ./benchmarks/basicauth
//
// Clients send right passwords as fast as they get answers: alone; then while others send wrong
// ones, open loop, at twice the rate that the cores can hash; and then 1,000 clients come at once to
// a server that has just started. Each client has an address of its own in 127.0.0.0/8.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"example.com/bcrypt"
)

var (
	cost     = flag.Int("cost", 10, "cost of all hashes")
	length   = flag.Duration("for", 10*time.Second, "how long each load lasts")
	atOnce   = flag.Int("at-once", 1000, "clients that come at once to a new server")
	longest  = flag.Duration("longest", 2*time.Minute, "when a client gives up")
	rounds   = flag.Int("rounds", 3, "how often each server has its turn; the table has the median round by p99")
	attack   = flag.Float64("attack", 0, "wrong passwords a second; 0 means twice what the cores can hash")
	scenario = flag.String("only", "", "one of alone, attack, start")
)

const users = 20

// names and passwords of user i.
func name(i int) string     { return fmt.Sprintf("user%d", i) }
func password(i int) string { return fmt.Sprintf("password %d", i) }

func main() {
	flag.Parse()
	dir, err := os.MkdirTemp("", "basicauth")
	check(err)
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "htpasswd")
	var text strings.Builder
	hashes := map[string]string{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range max(*atOnce, users) {
		wg.Go(func() {
			hash, err := bcrypt.GenerateFromPassword([]byte(password(i)), *cost)
			check(err)
			mu.Lock()
			defer mu.Unlock()
			hashes[name(i)] = string(hash)
			fmt.Fprintf(&text, "%s:%s\n", name(i), hash)
		})
	}
	wg.Wait()
	check(os.WriteFile(path, []byte(text.String()), 0o600))
	rate := *attack
	if rate == 0 {
		rate = 2 * capacity()
	}
	fmt.Printf("%s, GOMAXPROCS %d, cost %d, attack of %.0f wrong passwords a second\n", runtime.Version(), runtime.GOMAXPROCS(0), *cost, rate)

	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "load\tserver\tright answers/s\tp50 ms\tp99 ms\terrors\tall served after s")
	for _, load := range []struct {
		name string
		run  func(url string) result
	}{
		{"alone", func(url string) result { return valid(url, *length) }},
		{"attack", func(url string) result {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			var wg sync.WaitGroup
			wg.Go(func() { wrong(ctx, url, rate) })
			defer wg.Wait()
			defer cancel()
			return valid(url, *length)
		}},
		{"start", func(url string) result { return start(url, *atOnce) }},
	} {
		if *scenario != "" && *scenario != load.name {
			continue
		}
		results := map[string][]result{}
		for range *rounds {
			for _, p := range peers {
				url, stop := serve(p, path, hashes)
				results[p.name] = append(results[p.name], load.run(url))
				stop()
			}
		}
		for _, p := range peers {
			all := results[p.name]
			slices.SortFunc(all, func(a, b result) int { return int(a.p99 - b.p99) })
			r := all[len(all)/2]
			fmt.Fprintf(w, "%s\t%s\t%.1f\t%.1f\t%.1f\t%d\t%.1f\n", load.name, p.name, r.perSecond, r.p50.Seconds()*1e3, r.p99.Seconds()*1e3, r.errors, r.took.Seconds())
		}
	}
	w.Flush()
}

// capacity returns how many passwords this package hashes a second, with all lanes in use.
func capacity() float64 {
	c := bcrypt.Calibrator{MaxDuration: time.Minute, MinCost: *cost, MaxCost: *cost, MinRate: 1e-3}
	result, err := c.Run(context.Background())
	check(err)
	return result.Rate
}

// serve starts a server of a peer on a free port.
func serve(p peer, path string, hashes map[string]string) (url string, stop func()) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") })
	stop = p.serve(listener, path, hashes, hello)
	return "http://" + listener.Addr().String(), stop
}

type result struct {
	perSecond      float64
	p50, p99, took time.Duration
	errors         int
}

func summarize(times []time.Duration, errors int, took time.Duration) result {
	if len(times) == 0 {
		return result{errors: errors, took: took}
	}
	slices.Sort(times)
	return result{float64(len(times)) / took.Seconds(), times[len(times)/2], times[len(times)*99/100], took, errors}
}

// client returns a client with an address of its own, and its connections.
func client(i int) *http.Client {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, byte(1+i/65536), byte(i/256), byte(1+i%250))}}
	return &http.Client{Timeout: *longest, Transport: &http.Transport{DialContext: dialer.DialContext, MaxIdleConnsPerHost: 10_000}}
}

// ask sends one request and reports whether it was let through.
func ask(ctx context.Context, c *http.Client, url, name, password string) bool {
	r, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	check(err)
	r.SetBasicAuth(name, password)
	answer, err := c.Do(r)
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	io.Copy(io.Discard, answer.Body)
	return answer.StatusCode == http.StatusOK
}

// valid lets 20 users, each a client, send requests for d, one after another with 10 ms between.
func valid(url string, d time.Duration) result {
	var mu sync.Mutex
	var times []time.Duration
	errors := 0
	begin := time.Now()
	var wg sync.WaitGroup
	for i := range users {
		wg.Go(func() {
			c := client(i)
			for time.Since(begin) < d {
				start := time.Now()
				ok := ask(context.Background(), c, url, name(i), password(i))
				took := time.Since(start)
				mu.Lock()
				if ok {
					times = append(times, took)
				} else {
					errors++
				}
				mu.Unlock()
				time.Sleep(10 * time.Millisecond)
			}
			c.CloseIdleConnections()
		})
	}
	wg.Wait()
	return summarize(times, errors, time.Since(begin))
}

// wrong sends wrong passwords at a rate, for known and unknown users, from 50 addresses, whether or
// not they are answered.
func wrong(ctx context.Context, url string, rate float64) {
	clients := make([]*http.Client, 50)
	for i := range clients {
		clients[i] = client(10_000 + i)
		defer clients[i].CloseIdleConnections()
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	ticker := time.NewTicker(time.Duration(float64(time.Second) / rate))
	defer ticker.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		wg.Go(func() { ask(ctx, clients[i%len(clients)], url, name(i%(2*users)), fmt.Sprint("wrong", i)) })
	}
}

// start sends one request of each of n users at once.
func start(url string, n int) result {
	var mu sync.Mutex
	var times []time.Duration
	errors := 0
	begin := time.Now()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			c := client(i)
			defer c.CloseIdleConnections()
			ok := ask(context.Background(), c, url, name(i), password(i))
			took := time.Since(begin)
			mu.Lock()
			defer mu.Unlock()
			if ok {
				times = append(times, took)
			} else {
				errors++
			}
		})
	}
	wg.Wait()
	return summarize(times, errors, time.Since(begin))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
