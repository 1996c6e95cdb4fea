package bcrypt

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// maxConcurrency returns how many hashes the cores can have under way at once.
func maxConcurrency() int {
	return runtime.GOMAXPROCS(0)
}

// A machine is the real [host].
type machine struct {
	epoch time.Time
	lane  *lane
	own   uint64 // iterations of lane

	others atomic.Uint64 // iterations of the other hashes
	quit   atomic.Bool
	wg     sync.WaitGroup
}

func newMachine() *machine {
	return &machine{epoch: time.Now(), lane: lanes.Get().(*lane)}
}

// close ends all that the machine has under way.
func (m *machine) close() {
	m.occupy(0)
	m.lane.wipe()
	lanes.Put(m.lane)
}

func (m *machine) now() time.Duration { return time.Since(m.epoch) }

// occupy lets each hash but the first, which iterate runs, have a goroutine.
func (m *machine) occupy(hashes int) {
	m.quit.Store(true)
	m.wg.Wait()
	m.quit.Store(false)
	m.own = 0
	m.others.Store(0)
	for range hashes - 1 {
		m.wg.Go(func() {
			n := lanes.Get().(*lane)
			n.setup(nil, new([saltSize]byte), plain)
			for !m.quit.Load() {
				n.iterate()
				m.others.Add(1)
			}
			n.wipe()
			lanes.Put(n)
		})
	}
}

func (m *machine) setup() {
	m.lane.setup(nil, new([saltSize]byte), plain)
}

func (m *machine) iterate() {
	m.lane.iterate()
	m.own++
}

func (m *machine) done() uint64 { return m.own + m.others.Load() }

func (m *machine) usage() usage {
	return usage{at: m.now(), cpu: threadCPU(), throttled: throttledPeriods()}
}
