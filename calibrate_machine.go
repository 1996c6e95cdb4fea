package bcrypt

import (
	"sync"
	"sync/atomic"
	"time"
)

// maxConcurrency returns how many hashes the cores can run at once.
func maxConcurrency() int {
	return cores.coreLimit() * cores.lanes
}

// A machine is the real [host]. It runs hashes of its own on each core and bypasses the
// scheduler. Hashes of other callers are scheduled as ever.
type machine struct {
	epoch time.Time
	core  *core  // this goroutine's
	own   uint64 // iterations of its lanes, all together

	others atomic.Uint64 // iterations of the other cores
	quit   atomic.Bool
	wg     sync.WaitGroup
}

func newMachine() *machine {
	return &machine{epoch: time.Now(), core: corePool.Get().(*core)}
}

// close stops the machine's hashes.
func (m *machine) close() {
	m.occupy(0)
	corePool.Put(m.core)
}

func (m *machine) now() time.Duration { return time.Since(m.epoch) }

// occupy spreads the hashes evenly over the cores. No core has more lanes than this
// goroutine's.
func (m *machine) occupy(hashes int) {
	m.quit.Store(true)
	m.wg.Wait()
	m.quit.Store(false)
	m.own = 0
	m.others.Store(0)

	n := min(cores.coreLimit(), hashes)
	vacate(m.core)
	for i := range n {
		width := (hashes + n - 1 - i) / n
		if i == 0 {
			fill(m.core, width)
			continue
		}
		m.wg.Go(func() {
			c := corePool.Get().(*core)
			fill(c, width)
			for !m.quit.Load() {
				kernels[width](&c.lanes)
				m.others.Add(uint64(width))
			}
			vacate(c)
			corePool.Put(c)
		})
	}
}

// fill sets up hashes in the first width lanes of c.
func fill(c *core, width int) {
	c.width = width
	for i := range width {
		c.lanes[i].setup(nil, new([saltSize]byte), plain)
	}
}

func vacate(c *core) {
	for i := range c.width {
		c.lanes[i].wipe()
	}
	c.width = 0
}

func (m *machine) setup() { fill(m.core, m.core.width) }

func (m *machine) iterate() {
	kernels[m.core.width](&m.core.lanes)
	m.own += uint64(m.core.width)
}

func (m *machine) done() uint64 { return m.own + m.others.Load() }

func (m *machine) thread() (cpu, delay time.Duration) { return threadCounters() }
func (m *machine) usage() usage                       { return readUsage() }
func (m *machine) quotas() []quota                    { return readQuotas() }
