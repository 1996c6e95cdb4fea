package bcrypt

import (
	"context"
	"math/bits"
	"runtime"
	"sync"
)

// This file runs hashes on cores, several on each. There is no goroutine in the
// background: callers lend theirs. The one who finds an idle core leads it: it runs
// iterations of all the core's lanes until its own hash is done. The others sleep, in a
// lane or in line. Between two iterations, at a boundary, hashes enter and leave lanes,
// whatever their costs.
//
// What always holds, with mu not held:
//
//   - A job is in just one place: with its caller (fresh, done, cancelled), in the line
//     (queued), or in one lane of one core (laned).
//   - A core that is counted in leaders has one leader: a goroutine in lead, or the caller
//     of a job in one of its lanes that has been offered it and woken.
//   - While the line is not empty there is a leader. So every job in line or in a lane
//     has somebody who brings it on.
//   - A caller sleeps only while it is owed a wake-up, and is woken once: when its job is
//     done or cancelled, or to lead.
//   - The state of a hash is in the job while it is with its caller or in line, and in the
//     lane while it is in a lane; the other place is zero.
//
// A leader never touches another caller's context: contexts run foreign code, and belong
// to bubbles of testing/synctest. Cancellation comes by context.AfterFunc. Callers sleep
// on a mutex, which works across bubbles; a channel would not.

// maxLanes is how many hashes a core can have under way at once. More gain nothing:
// measured on an Intel Xeon of 2023 (Emerald Rapids, 48 KiB of L1 data cache, one
// hardware thread a core to be seen), nanoseconds a round and lane at 1 to 8 lanes are
//
//	4.18  2.19  1.56  1.25  1.10  1.09  1.13  1.17
//
// since at five the core issues five instructions a cycle, and from six on lanes are
// spilled. Five lanes are 21 KiB. Two hardware threads that share an L1 of 32 KiB cannot
// both have five there: nothing has been measured on such a machine, but on this one there
// are spells in which five lanes take twice as long and one takes as long as ever, which
// is what a busy sibling thread would look like. Five are then still better than one.
const maxLanes = 5

// lanesPerCore returns how many lanes are used. With the eight registers of 386 two pay
// (2.54 ns a round and lane on the same machine, where one takes 6.95, three 2.76 and
// five 3.38).
func lanesPerCore() int {
	if runtime.GOARCH == "386" {
		return 2
	}
	return maxLanes
}

// LimitCores sets how many cores hashing may keep busy in this process, for services
// that want some left for other work; 0 or less means GOMAXPROCS, which is also the
// most. It returns the previous setting, 0 if there was none. A core above a lower limit
// is left when the hash is done whose caller runs it.
func LimitCores(n int) (previous int) {
	return cores.setLimit(max(n, 0))
}

var cores = scheduler{lanes: lanesPerCore()}

type scheduler struct {
	lanes int // of a core, at most maxLanes

	mu      sync.Mutex
	limit   int // of leaders; 0 means GOMAXPROCS
	leaders int // cores that are led
	laned   int // jobs in lanes
	line    line
}

// A core is some lanes that are run in lock-step. Its leader alone runs them; who has
// which lane changes under the scheduler's lock.
type core struct {
	lanes [maxLanes]lane
	jobs  [maxLanes]*job
	width int  // the first so many lanes are in use
	woke  bool // somebody was woken at the latest boundary
}

var corePool = sync.Pool{New: func() any { return new(core) }}

// A job is one hash and the caller who waits for it.
type job struct {
	lane         // while the job is in no lane of a core
	left  uint64 // iterations to do
	total uint64 // of so many
	read  reading
	call  *call // that it is for, or nil

	state  jobState
	offer  *core      // that the caller is to lead
	owed   bool       // the caller sleeps or will, and is owed a wake-up
	asleep sync.Mutex // locked, but between a wake-up and its end of sleep
	passed bool       // a leader with more lanes than others has left it to them once
	held   bool       // cancel may be called yet

	number     uint64 // in the line
	next, prev *job
}

type jobState byte

const (
	fresh jobState = iota
	queued
	laned
	done
	cancelled
	refused
)

// A call is one of a Hasher: one job, or several, one after another. Once the first is done,
// the others are not refused: work is not thrown away, and a refusal would tell that there
// were others.
type call struct {
	*Hasher
	admitted bool
}

// A tally counts the jobs of a Hasher, and its calls. It belongs to the scheduler's lock.
type tally struct {
	running, waiting int // jobs
	calls            Stats
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

// count returns how many cores hashing may keep busy.
func (s *scheduler) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most()
}

// most returns how many leaders there may be. GOMAXPROCS is read each time: it changes in
// containers.
func (s *scheduler) most() int {
	n := runtime.GOMAXPROCS(0)
	if s.limit > 0 {
		n = min(n, s.limit)
	}
	return n
}

// run brings j, which is set up, to its end, and returns nil. It returns ErrBusy at once if
// too many jobs of j's Hasher wait, or ctx.Err() if ctx ends, when a leader may still hold
// j for an iteration.
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

// begin offers the caller of j an idle core, or queues j and reports that the caller is
// to sleep.
func (s *scheduler) begin(j *job) (sleep bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case j.state == cancelled:
		return false
	case s.leaders < s.most():
		s.leaders++
		j.offer = corePool.Get().(*core)
		s.enter(j.offer, j)
		return false
	case s.crowded(j.call):
		j.state = refused
		return false
	default:
		s.queue(j)
		return true
	}
}

// crowded reports whether a job of c would have to wait while as many of its Hasher wait
// already as may. Those in line that there are free lanes for do not wait: they will be in
// one within an iteration.
func (s *scheduler) crowded(c *call) bool {
	if c == nil || c.admitted || c.MaxWaiting == 0 {
		return false
	}
	free := s.leaders*s.lanes - s.laned
	return s.line.length >= free && max(c.tally.waiting-free, 0) >= max(c.MaxWaiting, 0)
}

// cancel takes j from the line, or from its lane at the next boundary.
func (s *scheduler) cancel(j *job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch j.state {
	case done, cancelled:
		return
	case queued:
		s.line.remove(j)
	}
	j.state = cancelled
	s.wake(j)
}

// lead runs the lanes of c until own has left them, and passes c on. It reports whether
// own is back in the line, and its caller to sleep.
func (s *scheduler) lead(c *core, own *job) (sleep bool) {
	state := laned
	defer func() { s.passOn(c, own, state) }() // also if a panic or runtime.Goexit ends this
	for turn := 1; ; turn++ {
		if state = s.boundary(c, own); state != laned {
			return state == queued
		}
		// Whoever is woken gets this processor at once, and not at the end of a time
		// slice of 10 ms; where there is one thread and no preemption, once a hash and now
		// and then so does anybody. To yield each time would cost half the throughput.
		if c.woke || runtime.GOARCH == "wasm" && turn%32 == 1 {
			runtime.Gosched()
		}
		kernels[c.width](&c.lanes)
		for _, j := range c.jobs[:c.width] {
			j.left--
		}
	}
}

// boundary lets hashes leave and enter the lanes of c, and returns the state of own.
func (s *scheduler) boundary(c *core, own *job) jobState {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.woke = false
	for i := c.width - 1; i >= 0; i-- {
		switch j := c.jobs[i]; {
		case j.left == 0 && (j == own || j.state == laned): // own is ready, cancelled or not
			s.leave(c, i, done)
			c.woke = s.wake(j) || c.woke
		case j.state == cancelled:
			s.leave(c, i, cancelled)
		}
	}
	if own.state == laned {
		s.fillCores(c, own)
		s.fillLanes(c)
	}
	return own.state
}

// fillCores gives idle cores work: from the line, or half of the lanes of c. An idle core
// goes before a free lane.
func (s *scheduler) fillCores(c *core, own *job) {
	for n := s.most(); s.leaders < n && (s.line.length > 0 || c.width > 1); s.leaders++ {
		idle := corePool.Get().(*core)
		if j := s.line.first(); j != nil {
			s.line.remove(j)
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

// fillLanes lets a job of the line enter a free lane of c, the first one first. One at a
// boundary: so leaders that run alike fill up evenly. A leader who has more lanes than
// the average passes over a job once, so that others can take it; no more than once,
// since the system may have stopped them.
//
// If no lane is free, a job in line may take the place of a much longer one: the longest
// lane, if it has more than eight times as much to do as the shortest job in line. So a
// hash of cost 8 does not wait for the seconds of cost 15, or the days of 31, while jobs
// of like cost keep the order of the line. The last such lane of a core stays, so that
// long hashes come to an end too.
func (s *scheduler) fillLanes(c *core) {
	if c.width < s.lanes {
		j := s.line.first()
		switch {
		case j == nil:
		case !j.passed && c.width*s.leaders > s.laned:
			j.passed = true
		default:
			s.line.remove(j)
			s.enter(c, j)
		}
		return
	}
	j := s.line.shortest()
	if j == nil {
		return
	}
	much, longest := 0, 0
	for i, l := range c.jobs[:c.width] {
		if l.left/8 > j.left {
			much++
		}
		if l.left > c.jobs[longest].left {
			longest = i
		}
	}
	if much < 2 {
		return
	}
	l := c.jobs[longest]
	s.leave(c, longest, queued)
	s.queue(l)
	s.line.remove(j)
	s.enter(c, j)
}

// passOn finds c a new leader, or ends it: if there is nothing to do, or leaders are
// above the limit. The state of own is laned only if something went wrong in an iteration.
// That may be half done then, so the others start anew.
func (s *scheduler) passOn(c *core, own *job, state jobState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := c.width - 1; i >= 0; i-- {
		switch j := c.jobs[i]; {
		case j == own || j.state == cancelled:
			s.leave(c, i, cancelled)
		case state == laned:
			c.lanes[i].start(j.read)
			j.left = j.total
		}
	}
	if s.leaders > s.most() {
		for c.width > 0 {
			j := c.jobs[c.width-1]
			s.leave(c, c.width-1, queued)
			s.line.add(j, j.number) // where it was
		}
	} else if j := s.line.first(); j != nil && c.width == 0 {
		s.line.remove(j)
		s.enter(c, j)
	}
	if c.width == 0 {
		s.leaders--
		corePool.Put(c)
		return
	}
	s.offerTo(c)
}

// offerTo makes the caller with the longest job in c its leader: it will have to pass
// it on the latest. It reports whether the caller was asleep.
func (s *scheduler) offerTo(c *core) bool {
	longest := c.jobs[0]
	for _, j := range c.jobs[:c.width] {
		if j.left > longest.left {
			longest = j
		}
	}
	longest.offer = c
	return s.wake(longest)
}

// queue puts j at the end of the line. Its caller will sleep.
func (s *scheduler) queue(j *job) {
	j.state = queued
	j.owed = true
	s.line.count++
	s.line.add(j, s.line.count)
}

// wake wakes the caller of j if that is owed.
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
	s.laned++
	j.lane.wipe()
	j.state = laned
	if j.call != nil {
		j.call.tally.running++
	}
}

// leave moves the job in lane i of c out, or, if it was cancelled, forgets it, and lets
// the last lane take the place.
func (s *scheduler) leave(c *core, i int, state jobState) {
	j := c.jobs[i]
	j.state = state
	if j.call != nil {
		j.call.tally.running--
	}
	if state != cancelled {
		j.lane = c.lanes[i]
	}
	c.width--
	s.laned--
	c.lanes[i], c.jobs[i] = c.lanes[c.width], c.jobs[c.width]
	c.lanes[c.width].wipe()
	c.jobs[c.width] = nil
}

// A line is the jobs that wait, by how much they have to do: a list for each number of
// bits. Among lists of few, it is quick to find the first to have come and the shortest.
type line struct {
	count  uint64 // jobs numbered so far
	length int
	lists  [MaxCost + 2]struct{ first, last *job }
}

// add puts j where its number belongs: nearly always at the end.
func (l *line) add(j *job, number uint64) {
	list := &l.lists[bits.Len64(j.left)]
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
	l.length++
	if j.call != nil {
		j.call.tally.waiting++
	}
}

func (l *line) remove(j *job) {
	list := &l.lists[bits.Len64(j.left)]
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
	l.length--
	if j.call != nil {
		j.call.tally.waiting--
	}
}

// first returns the job that is at the head of the line, or nil.
func (l *line) first() (first *job) {
	if l.length == 0 {
		return nil
	}
	for _, list := range l.lists {
		if j := list.first; j != nil && (first == nil || j.number < first.number) {
			first = j
		}
	}
	return first
}

// shortest returns the first of those that have the fewest iterations to do, within a
// factor of two, or nil.
func (l *line) shortest() *job {
	for _, list := range l.lists {
		if list.first != nil {
			return list.first
		}
	}
	return nil
}
