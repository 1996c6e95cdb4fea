package main

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"example.com/bcrypt"
)

// A load is the throughput and the waiting times of an implementation under a number of callers.
type load struct {
	cost, callers int     // callers per core
	perSecond     float64 // hashes, of the whole machine
	median, p99   time.Duration
}

// measureLoads runs the peers in turns of a second or more. Callers compare one hash after
// another. It returns the loads of each peer, as medians over the rounds.
func measureLoads(rounds int, costs, callersPerCore []int) [][]load {
	password := []byte("correct horse battery staple")
	loads := make([][]load, len(peers))
	for _, cost := range costs {
		hash, err := bcrypt.GenerateFromPassword(password, cost)
		check(err)
		lone := aloneMedians(3, cost)[1]
		for _, callers := range callersPerCore {
			turn := max(time.Second, 3*time.Duration(callers)*lone) // three waits of the slowest
			perSecond := make([][]float64, len(peers))
			waits := make([][]time.Duration, len(peers))
			for range rounds {
				for i, p := range peers {
					n, w := press(callers*runtime.GOMAXPROCS(0), turn, func() { p.compare(hash, password) })
					perSecond[i] = append(perSecond[i], n)
					waits[i] = append(waits[i], w...)
				}
			}
			for i := range peers {
				slices.Sort(perSecond[i])
				slices.Sort(waits[i])
				loads[i] = append(loads[i], load{
					cost: cost, callers: callers,
					perSecond: perSecond[i][len(perSecond[i])/2],
					median:    waits[i][len(waits[i])/2],
					p99:       waits[i][len(waits[i])*99/100],
				})
			}
		}
	}
	return loads
}

// press runs f in a loop on n goroutines, for d/2 to warm up and then for d. Over d it returns how
// many calls a second there were, and the time of each.
func press(n int, d time.Duration, f func()) (perSecond float64, waits []time.Duration) {
	var wg sync.WaitGroup
	var lock sync.Mutex
	var counting, quit atomic.Bool
	for range n {
		wg.Go(func() {
			var mine []time.Duration
			for !quit.Load() {
				start := time.Now()
				f()
				if counting.Load() {
					mine = append(mine, time.Since(start))
				}
			}
			lock.Lock()
			defer lock.Unlock()
			waits = append(waits, mine...)
		})
	}
	time.Sleep(d / 2)
	start := time.Now()
	counting.Store(true)
	time.Sleep(d)
	counting.Store(false)
	took := time.Since(start)
	quit.Store(true)
	wg.Wait()
	return float64(len(waits)) / took.Seconds(), waits
}
