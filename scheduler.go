package bcrypt

import (
	"context"
	"errors"
	"math/bits"
	"runtime"
	"sync"
)

// This file runs hashes on cores, several on each. There are no background goroutines:
// callers lend theirs.
//
//   - Who leads: a caller that finds a core free leads it. It runs iterations of all the
//     core's lanes until its own hash is done. Then it offers the core to the caller of a
//     hash that is still in a lane, and returns.
//   - Who waits: every other caller sleeps, with its job in the queue or in a lane of a core
//     that another caller leads.
//   - Who wakes whom: a leader wakes a caller whose job is done, and the caller that is to
//     lead next. A cancellation wakes the caller that it cancels.
//
// Between two iterations, at a boundary, jobs enter and leave lanes, whatever their costs.
//
// These invariants hold whenever mu is free:
//
//   - A job is in one place: with its caller (fresh, done, cancelled, refused), in the queue
//     (queued), or in one lane of one core (running).
//   - Each core counted in leaders has one leader: a goroutine in lead, or the caller of a
//     job in one of its lanes, which has been offered the core and woken.
//   - While the queue is not empty there is a leader. So somebody advances every job that is
//     in the queue or in a lane.
//   - A caller sleeps only while it is owed a wake-up. It is woken once: when its job is done
//     or cancelled, or to lead.
//   - The state of a hash is in the job while the job is with its caller or in the queue, and
//     in the lane while it is in a lane. The other place is zero.
//
// A leader never touches another caller's context. Contexts run foreign code, and belong to
// testing/synctest bubbles. A cancellation comes by context.AfterFunc instead. Callers sleep
// on a mutex, which works across bubbles; a channel would not.

// ErrBusy is returned by the methods of a [Hasher] when as many of its calls wait as its
// MaxWaiting allows. A web service answers it with status 503.
var ErrBusy = errors.New("bcrypt: too many calls are waiting")

// lanesPerCore returns how many lanes a core uses. 386 has eight registers, enough for two:
// on the machine that maxLanes names, nanoseconds a round and lane at 1, 2, 3 and 5 lanes
// are 6.95, 2.54, 2.76 and 3.38.
func lanesPerCore() int {
	if runtime.GOARCH == "386" {
		return 2
	}
	return maxLanes
}

// LimitCores sets how many cores hashing may keep busy in this process, so that the others
// are free for other work. 0 or less means GOMAXPROCS, which is also the most. It returns
// the previous setting, 0 if there was none. Lowering the limit takes effect as hashes in
// progress finish.
func LimitCores(n int) (previous int) {
	return cores.setLimit(max(n, 0))
}

var cores = scheduler{lanes: lanesPerCore()}

type scheduler struct {
	lanes int // of a core, at most maxLanes

	mu      sync.Mutex
	limit   int // of leaders; 0 means GOMAXPROCS
	leaders int // cores that have a leader
	inLanes int // jobs in lanes
	queue   queue
}

// A core is a set of lanes that run in lock-step. Only its leader runs them. Jobs enter and
// leave them under the scheduler's lock.
type core struct {
	lanes [maxLanes]lane
	jobs  [maxLanes]*job
	width int  // the first width lanes are in use
	woke  bool // somebody was woken at the latest boundary
}

var corePool = sync.Pool{New: func() any { return new(core) }}

// A job is one hash and the caller that waits for it.
type job struct {
	lane             // while the job is in no lane of a core
	remaining uint64 // iterations still to run
	total     uint64 // iterations in all, to start over after a panic
	read      reading
	call      *call // that the job belongs to, or nil

	state  jobState
	offer  *core      // that the caller is to lead
	owed   bool       // the caller is asleep or about to be; wake it exactly once
	asleep sync.Mutex // locked while the caller should sleep; Unlock wakes it
	passed bool       // a leader with many lanes has passed over the job once
	held   bool       // a cancellation may still be on its way: do not reuse the job

	number     uint64 // order of arrival in the queue
	next, prev *job
}

type jobState byte

const (
	fresh jobState = iota
	queued
	running
	done
	cancelled
	refused
)

// A call of a Hasher may need several jobs in turn: a second reading, make-up work. Only
// the first can be refused. A later refusal would waste the work, and reveal that there was
// more of it.
type call struct {
	*tally
	maxWaiting int
	begun      bool // a job of the call has been in a lane
}

// A tally counts the jobs of a Hasher, under the scheduler's lock.
type tally struct {
	running, waiting int
}

var jobPool = sync.Pool{New: func() any {
	j := new(job)
	j.asleep.Lock()
	return j
}}

func (s *scheduler) setLimit(n int) (previous int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	previous, s.limit = s.limit, n
	return previous
}

// coreLimit returns how many cores hashing may keep busy.
func (s *scheduler) coreLimit() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.maxLeaders()
}

// maxLeaders returns how many leaders there may be. It reads GOMAXPROCS each time, because
// that changes in containers.
func (s *scheduler) maxLeaders() int {
	n := runtime.GOMAXPROCS(0)
	if s.limit > 0 {
		n = min(n, s.limit)
	}
	return n
}

// run runs j, which is set up, to its end and returns nil. It returns ErrBusy at once if too
// many jobs of j's Hasher wait. It returns ctx.Err() if ctx ends first; a leader may then
// still hold j for one iteration.
func (s *scheduler) run(ctx context.Context, j *job) error {
	if ctx.Done() != nil {
		if err := ctx.Err(); err != nil {
			return err
		}
		stop := context.AfterFunc(ctx, func() { s.cancel(j) })
		defer func() { j.held = !stop() }()
	}
	for sleep := s.begin(j); ; {
		if sleep {
			j.asleep.Lock()
		}
		s.mu.Lock()
		c, state := j.offer, j.state
		j.offer = nil
		s.mu.Unlock()
		switch {
		case c != nil:
			sleep = s.lead(c, j)
		case state == done:
			return nil
		case state == refused:
			return ErrBusy
		default: // cancelled
			return ctx.Err()
		}
	}
}

// begin offers the caller of j an idle core. If there is none it queues j, and reports that
// the caller is to sleep.
func (s *scheduler) begin(j *job) (sleep bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case j.state == cancelled:
		return false
	case s.leaders < s.maxLeaders():
		s.leaders++
		j.offer = corePool.Get().(*core)
		s.enter(j.offer, j)
		return false
	case s.crowded(j.call):
		j.state = refused
		return false
	default:
		s.enqueue(j)
		return true
	}
}

// crowded reports whether a job of c would have to wait although as many jobs of its Hasher
// already wait as may. Jobs that will get a free lane at the next iteration do not count as
// waiting.
func (s *scheduler) crowded(c *call) bool {
	if c == nil || c.begun || c.maxWaiting == 0 {
		return false
	}
	free := s.leaders*s.lanes - s.inLanes
	return s.queue.length >= free && max(c.waiting-free, 0) >= max(c.maxWaiting, 0)
}

// cancel takes j out of the queue at once, or out of its lane at the next boundary.
func (s *scheduler) cancel(j *job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch j.state {
	case done, cancelled:
		return
	case queued:
		s.queue.remove(j)
	}
	j.state = cancelled
	s.wake(j)
}

// lead runs the lanes of c until own has left them, then passes c on. It reports whether
// own is back in the queue, and its caller to sleep.
func (s *scheduler) lead(c *core, own *job) (sleep bool) {
	state := running
	defer func() { s.passOn(c, own, state) }() // also if a panic or runtime.Goexit ends this
	for turn := 1; ; turn++ {
		if state = s.boundary(c, own); state != running {
			return state == queued
		}
		// Yield so that a caller just woken runs now, not after this goroutine's 10 ms
		// slice. On wasm, which has one thread and no preemption, yield every 32
		// iterations too. Yielding every time would halve the throughput.
		if c.woke || runtime.GOARCH == "wasm" && turn%32 == 1 {
			runtime.Gosched()
		}
		kernels[c.width](&c.lanes)
		for _, j := range c.jobs[:c.width] {
			j.remaining--
		}
	}
}

// boundary moves jobs out of and into the lanes of c, and returns the state of own.
func (s *scheduler) boundary(c *core, own *job) jobState {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.woke = false
	for i := c.width - 1; i >= 0; i-- {
		switch j := c.jobs[i]; {
		case j.remaining == 0 && (j == own || j.state == running): // own is ready, cancelled or not
			s.leave(c, i, done)
			c.woke = s.wake(j) || c.woke
		case j.state == cancelled:
			s.leave(c, i, cancelled)
		}
	}
	if own.state == running {
		s.fillCores(c, own)
		s.fillLanes(c)
	}
	return own.state
}

// fillCores gives work to idle cores: the head of the queue, or half of the lanes of c. An
// idle core is filled before a free lane.
func (s *scheduler) fillCores(c *core, own *job) {
	for n := s.maxLeaders(); s.leaders < n && (s.queue.length > 0 || c.width > 1); s.leaders++ {
		idle := corePool.Get().(*core)
		if j := s.queue.first(); j != nil {
			s.queue.remove(j)
			s.enter(idle, j)
		} else {
			for half := c.width / 2; idle.width < half; {
				i := c.width - 1
				if c.jobs[i] == own {
					i--
				}
				j := c.jobs[i]
				s.leave(c, i, queued)
				s.enter(idle, j)
			}
		}
		c.woke = s.offerTo(idle) || c.woke
	}
}

// fillLanes moves the head of the queue into a free lane of c. It moves one job at a
// boundary, so leaders that run alike fill up evenly. A leader with more lanes than the
// average passes over a job once, so that another leader can take it. It does so only once,
// because the system may have stopped the others.
//
// If no lane is free, a job in the queue may replace a much longer one. The longest job of
// c gives way if it has more than eight times as much to do as the shortest in the queue.
// So a hash of cost 8 does not wait seconds for one of cost 15, or days for one of cost 31,
// while jobs of similar cost keep their order. The last such job of a core stays, so long
// hashes come to an end too.
func (s *scheduler) fillLanes(c *core) {
	if c.width < s.lanes {
		j := s.queue.first()
		switch {
		case j == nil:
		case !j.passed && c.width*s.leaders > s.inLanes:
			j.passed = true
		default:
			s.queue.remove(j)
			s.enter(c, j)
		}
		return
	}
	j := s.queue.shortest()
	if j == nil {
		return
	}
	longer, index := 0, 0
	for i, other := range c.jobs[:c.width] {
		if other.remaining/8 > j.remaining {
			longer++
		}
		if other.remaining > c.jobs[index].remaining {
			index = i
		}
	}
	if longer < 2 {
		return
	}
	longest := c.jobs[index]
	s.leave(c, index, queued)
	s.enqueue(longest)
	s.queue.remove(j)
	s.enter(c, j)
}

// passOn finds a new leader for c. It gives c up if c has nothing to do, or if there are
// more leaders than the limit allows. state is running only if a panic or Goexit left a
// kernel half-way through an iteration; the other hashes then start over.
func (s *scheduler) passOn(c *core, own *job, state jobState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := c.width - 1; i >= 0; i-- {
		switch j := c.jobs[i]; {
		case j == own || j.state == cancelled:
			s.leave(c, i, cancelled)
		case state == running:
			c.lanes[i].start(j.read)
			j.remaining = j.total
		}
	}
	if s.leaders > s.maxLeaders() {
		for c.width > 0 {
			j := c.jobs[c.width-1]
			s.leave(c, c.width-1, queued)
			s.queue.add(j, j.number) // where it was
		}
	} else if j := s.queue.first(); j != nil && c.width == 0 {
		s.queue.remove(j)
		s.enter(c, j)
	}
	if c.width == 0 {
		s.leaders--
		corePool.Put(c)
		return
	}
	s.offerTo(c)
}

// offerTo offers c to the caller of its longest job, since that leader will last longest. It
// reports whether the caller was asleep.
func (s *scheduler) offerTo(c *core) bool {
	longest := c.jobs[0]
	for _, j := range c.jobs[:c.width] {
		if j.remaining > longest.remaining {
			longest = j
		}
	}
	longest.offer = c
	return s.wake(longest)
}

// enqueue puts j at the end of the queue. Its caller will sleep.
func (s *scheduler) enqueue(j *job) {
	j.state = queued
	j.owed = true
	s.queue.count++
	s.queue.add(j, s.queue.count)
}

// wake wakes the caller of j if it is owed that, and reports whether it was.
func (s *scheduler) wake(j *job) bool {
	owed := j.owed
	if owed {
		j.owed = false
		j.asleep.Unlock()
	}
	return owed
}

// enter moves j into the first free lane of c.
func (s *scheduler) enter(c *core, j *job) {
	c.lanes[c.width], c.jobs[c.width] = j.lane, j
	c.width++
	s.inLanes++
	j.lane.wipe()
	j.state = running
	if j.call != nil {
		j.call.begun = true
		j.call.running++
	}
}

// leave takes the job out of lane i, with its state unless it was cancelled, and moves the
// last lane into the gap.
func (s *scheduler) leave(c *core, i int, state jobState) {
	j := c.jobs[i]
	j.state = state
	if j.call != nil {
		j.call.running--
	}
	if state != cancelled {
		j.lane = c.lanes[i]
	}
	c.width--
	s.inLanes--
	c.lanes[i], c.jobs[i] = c.lanes[c.width], c.jobs[c.width]
	c.lanes[c.width].wipe()
	c.jobs[c.width] = nil
}

// A queue holds waiting jobs in one list per bit length of their remaining iterations. So
// the oldest and the shortest are found by looking at 33 heads.
type queue struct {
	count  uint64 // jobs numbered so far
	length int
	lists  [MaxCost + 2]struct{ first, last *job }
}

// add puts j where its number belongs, which is nearly always at the end.
func (q *queue) add(j *job, number uint64) {
	list := &q.lists[bits.Len64(j.remaining)]
	j.number = number
	j.prev, j.next = list.last, nil
	for j.prev != nil && j.prev.number > number {
		j.prev, j.next = j.prev.prev, j.prev
	}
	if j.prev == nil {
		list.first = j
	} else {
		j.prev.next = j
	}
	if j.next == nil {
		list.last = j
	} else {
		j.next.prev = j
	}
	q.length++
	if j.call != nil {
		j.call.waiting++
	}
}

func (q *queue) remove(j *job) {
	list := &q.lists[bits.Len64(j.remaining)]
	if j.prev == nil {
		list.first = j.next
	} else {
		j.prev.next = j.next
	}
	if j.next == nil {
		list.last = j.prev
	} else {
		j.next.prev = j.prev
	}
	j.prev, j.next = nil, nil
	q.length--
	if j.call != nil {
		j.call.waiting--
	}
}

// first returns the oldest job, the head of the queue, or nil.
func (q *queue) first() (first *job) {
	if q.length == 0 {
		return nil
	}
	for _, list := range q.lists {
		if j := list.first; j != nil && (first == nil || j.number < first.number) {
			first = j
		}
	}
	return first
}

// shortest returns the oldest of the jobs with the fewest iterations remaining, within a
// factor of two, or nil.
func (q *queue) shortest() *job {
	for _, list := range q.lists {
		if list.first != nil {
			return list.first
		}
	}
	return nil
}
