package bcrypt

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Each kernel changes its lanes, and no other, as the one-lane core would.
func TestKernels(t *testing.T) {
	random := rand.New(rand.NewChaCha8([32]byte{}))
	fills := map[string]func() uint32{
		"random": random.Uint32,
		"zeros":  func() uint32 { return 0 },
		"ones":   func() uint32 { return 0xffffffff },
		"mixed":  func() uint32 { return []uint32{0, 0xffffffff, 0x80808080, random.Uint32()}[random.IntN(4)] },
	}
	for name, word := range fills {
		for width := 1; width <= maxLanes; width++ {
			t.Run(fmt.Sprintf("%s,width=%d", name, width), func(t *testing.T) {
				var lanes [maxLanes]lane
				for i := range lanes {
					for w := range lanes[i].state {
						lanes[i].state[w] = word()
					}
					for w := range 18 {
						lanes[i].keys[0][w], lanes[i].keys[1][w] = word(), word()
					}
				}
				want := lanes
				for range 3 {
					kernels[width](&lanes)
					for i := range width {
						want[i].iterate()
					}
				}
				require.True(t, want == lanes)
			})
		}
	}
}

// The number of lanes is the one that lanesPerCore gives reasons for.
func TestLanesPerCore(t *testing.T) {
	want := maxLanes
	if runtime.GOARCH == "386" {
		want = 2
	}
	require.Equal(t, want, cores.lanes)
}

// newJob returns a job as compute makes it.
func newJob(password string, cost int) *job {
	j := jobPool.New().(*job)
	j.setup([]byte(password), &[saltSize]byte{1}, plain)
	j.remaining, j.total, j.read = iterations(cost), iterations(cost), plain
	return j
}

// requireIdle fails unless nothing runs or waits in s.
func requireIdle(t *testing.T, s *scheduler) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Zero(t, s.leaders, "leaders")
	require.Zero(t, s.inLanes, "jobs in lanes")
	require.Zero(t, s.queue.length, "jobs in the queue")
	require.Nil(t, s.queue.first())
}

// operations is how many hashes of one iteration TestSchedulerStress adds to its own. A run
// of a million under the race detector is recorded in docs/testing.md.
var operations = flag.Int("operations", 2000, "hashes of one iteration in TestSchedulerStress")

// Under random arrivals, costs, cancellations, limits and numbers of processors, each caller
// gets the right hash or the error of its context, and nothing stays in the scheduler.
func TestSchedulerStress(t *testing.T) {
	const lowest, highest = 4, 9
	rounds, callers := 12, 24
	if testing.Short() {
		rounds, callers = 3, 12
	}
	passwords := []string{"", "U*U", "\xff\xff\xa3", "correct horse battery staple"}
	want := map[string][highest + 1][digestSize]byte{}
	for _, password := range passwords {
		var digests [highest + 1][digestSize]byte
		for cost := 0; cost <= highest; cost++ {
			digests[cost] = hashAlone([]byte(password), &[saltSize]byte{1}, cost, plain)
		}
		want[password] = digests
	}

	procs := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(procs)
	defer LimitCores(LimitCores(0))
	goroutines := runtime.NumGoroutine()
	var cancelledJobs, finished atomic.Int64
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(caller)))
			quick := *operations / callers // of cost 0, without a pause
			for round := range rounds + quick {
				if round >= quick {
					time.Sleep(time.Duration(r.IntN(3)) * time.Millisecond)
				}
				if caller == 0 && (round >= quick || round%16 == 0) {
					LimitCores(r.IntN(4))
					runtime.GOMAXPROCS(1 + r.IntN(4))
				}
				ctx, cancel := context.Background(), func() {}
				switch r.IntN(3) {
				case 0:
					ctx, cancel = context.WithCancel(ctx)
				case 1:
					ctx, cancel = context.WithTimeout(ctx, time.Duration(r.IntN(30))*time.Millisecond)
				}
				password, cost := passwords[r.IntN(len(passwords))], 0
				if round >= quick {
					cost = lowest + r.IntN(highest-lowest+1)
				}
				digest, err := compute(ctx, nil, []byte(password), &[saltSize]byte{1}, iterations(cost), plain)
				cancel()
				if err != nil {
					cancelledJobs.Add(1)
					if err != ctx.Err() || digest != [digestSize]byte{} {
						t.Errorf("error %v, context %v, digest %x", err, ctx.Err(), digest)
					}
				} else if finished.Add(1); digest != want[password][cost] {
					t.Errorf("a wrong digest at cost %d", cost)
				}
			}
		})
	}
	wg.Wait()
	require.Positive(t, finished.Load())
	t.Logf("%d done, %d cancelled", finished.Load(), cancelledJobs.Load())
	requireIdle(t, &cores)
	for range 100 { // for goroutines of AfterFunc
		if runtime.NumGoroutine() <= goroutines {
			break
		}
		time.Sleep(time.Millisecond)
	}
	require.LessOrEqual(t, runtime.NumGoroutine(), goroutines)
}

// A caller that fails in the middle of an iteration does not harm the others: they start
// over, under another leader, and get the right hash.
func TestSchedulerPanic(t *testing.T) {
	s := &scheduler{lanes: maxLanes, limit: 1}
	var panics atomic.Int32
	sane := kernels
	defer func() { kernels = sane }()
	var all sync.Once
	kernels[1] = func(lanes *[maxLanes]lane) {
		all.Do(func() { // the others are in the queue
			for come := false; !come; time.Sleep(time.Millisecond) {
				s.mu.Lock()
				come = s.queue.length == 4
				s.mu.Unlock()
			}
		})
		sane[1](lanes)
	}
	for width := 2; width <= maxLanes; width++ {
		kernels[width] = func(lanes *[maxLanes]lane) {
			if panics.Add(1) == 20 {
				lanes[0].state[7] ^= 1
				lanes[1].state[7] ^= 1
				panic("half done")
			}
			sane[width](lanes)
		}
	}

	var failed, right atomic.Int32
	var wg sync.WaitGroup
	for i := range 5 {
		wg.Go(func() {
			defer func() {
				if recover() != nil {
					failed.Add(1)
				}
			}()
			password := fmt.Sprint(i)
			j := newJob(password, 6)
			if err := s.run(context.Background(), j); err == nil && j.digest() == hashAlone([]byte(password), &[saltSize]byte{1}, 6, plain) {
				right.Add(1)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 1, failed.Load())
	require.EqualValues(t, 4, right.Load())
	requireIdle(t, s)

	// Its hash is dropped, and nobody waits for it to lead, although it is the longest.
	step := newStepper(t, 1, 3, 300, 20, 20)
	step.start(0, 1, 2)
	leader := step.callers[0]
	step.step(leader)
	step.step(leader)
	step.passOn(leader.leads, leader.job, running)
	leader.at, leader.leads = atEnd, nil
	step.check()
	require.Nil(t, leader.job.offer)
	require.Equal(t, cancelled, leader.job.state)
	step.finish(1)
	step.finish(2)
	requireIdle(t, step.scheduler)
}

// A service may be tested in a testing/synctest bubble while other tests of the process hash
// outside it.
func TestSchedulerBubbles(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	var outside sync.WaitGroup
	for range 3 * runtime.GOMAXPROCS(0) {
		outside.Go(func() {
			for ctx.Err() == nil {
				if _, err := GenerateFromPassword(nil, MinCost); err != nil {
					t.Error(err)
				}
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		for range 20 {
			for range 2 * runtime.GOMAXPROCS(0) {
				go func() {
					ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
					defer cancel()
					digest, err := compute(ctx, nil, []byte("password"), &[saltSize]byte{1}, iterations(MinCost), plain)
					if err != nil || digest != hashAlone([]byte("password"), &[saltSize]byte{1}, MinCost, plain) {
						t.Errorf("%x, %v", digest, err)
					}
				}()
			}
			time.Sleep(time.Second) // of the bubble
		}
	})
	cancel()
	outside.Wait()
	requireIdle(t, &cores)
}

// A caller whose hash is done runs soon, even if every processor has a leader: within a few
// times the time of its iterations. Without the leader's yield it waits 10 ms, a time slice.
func TestSchedulerWakeUp(t *testing.T) {
	if testing.Short() {
		t.Skip("it measures time, which the race detector and emulators distort")
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() { compute(ctx, nil, nil, new([saltSize]byte), iterations(20), plain) })
	}
	for deadline := time.Now().Add(10 * time.Second); cores.busy() < runtime.GOMAXPROCS(0) && time.Now().Before(deadline); {
		runtime.Gosched()
	}

	var alone, among []time.Duration
	for range 101 {
		start := time.Now()
		hashAlone(nil, new([saltSize]byte), MinCost, plain)
		alone = append(alone, time.Since(start))
		start = time.Now()
		if _, err := GenerateFromPassword(nil, MinCost); err != nil {
			t.Error(err)
		}
		among = append(among, time.Since(start))
	}
	cancel()
	wg.Wait()
	t.Logf("a hash of cost 4 takes %v alone, %v in another's lane (medians)", median(alone), median(among))
	require.Less(t, median(among), 4*median(alone))
	requireIdle(t, &cores)
}

// busy returns how many cores have a leader.
func (s *scheduler) busy() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leaders
}

// A stepper drives a scheduler without goroutines, one atomic step at a time. It computes no
// hashes; a word of the key says whose a lane is.
type stepper struct {
	*scheduler
	t       testing.TB
	callers []*stepCaller
}

type stepCaller struct {
	job   *job
	at    int   // where its goroutine is in run: one of the constants below
	leads *core // with atLeading and atPassOn
	left  jobState
	err   bool // ctx has ended
}

const (
	atStart = iota
	atSleep
	atLook // woken, or never asleep
	atLeading
	atPassOn
	atEnd
)

func newStepper(t testing.TB, cores, lanes int, left ...uint64) *stepper {
	if cores > 1 && runtime.GOARCH == "wasm" {
		t.Skip("wasm has one processor")
	}
	if runtime.GOMAXPROCS(0) < 4 { // or it limits the leaders
		procs := runtime.GOMAXPROCS(4)
		t.Cleanup(func() { runtime.GOMAXPROCS(procs) })
	}
	s := &stepper{scheduler: &scheduler{limit: cores, lanes: lanes}, t: t}
	for _, n := range left {
		s.extra(n)
	}
	return s
}

// extra adds a caller.
func (s *stepper) extra(left uint64) *stepCaller {
	j := jobPool.New().(*job)
	j.remaining, j.total = left, left
	s.callers = append(s.callers, &stepCaller{job: j})
	j.keys[0][0] = uint32(len(s.callers))
	return s.callers[len(s.callers)-1]
}

// enabled reports whether the caller's goroutine can run.
func (s *stepper) enabled(c *stepCaller) bool {
	return c.at != atEnd && (c.at != atSleep || !c.job.owed)
}

// step runs the caller's goroutine to the next place where it can be interrupted.
func (s *stepper) step(c *stepCaller) {
	switch c.at {
	case atStart:
		c.at = atLook
		if s.begin(c.job) {
			c.at = atSleep
		}
	case atSleep:
		if !c.job.asleep.TryLock() {
			s.t.Fatal("woken, but the mutex is locked")
		}
		c.at = atLook
	case atLook:
		if c.leads, c.job.offer = c.job.offer, nil; c.leads != nil {
			c.at = atLeading
		} else {
			if c.job.state != done && c.job.state != cancelled {
				s.t.Fatalf("woken for nothing: %v", s)
			}
			c.at = atEnd
		}
	case atLeading:
		if c.left = s.boundary(c.leads, c.job); c.left != running {
			c.at = atPassOn
			break
		}
		for _, j := range c.leads.jobs[:c.leads.width] {
			j.remaining--
		}
	case atPassOn:
		s.passOn(c.leads, c.job, c.left)
		c.leads = nil
		c.at = atLook
		if c.left == queued {
			c.at = atSleep
		}
	}
	s.check()
}

// check checks the invariants at the top of scheduler.go.
func (s *stepper) check() {
	must := func(ok bool, what string) {
		if !ok {
			s.t.Helper()
			s.t.Fatalf("broken: %s; %v", what, s)
		}
	}
	led := map[*core]int{}
	for _, c := range s.callers {
		if c.leads != nil {
			led[c.leads]++
		}
		must(c.at != atLeading || slices.Contains(c.leads.jobs[:], c.job), "a leader's job is in the core that it leads")
		if c.job.offer != nil {
			led[c.job.offer]++
		}
	}
	must(len(led) == s.leaders, "the cores that are led are those counted")
	place := map[*job]int{}
	inLanes := 0
	for c, leaders := range led {
		must(leaders == 1, "a core has one leader")
		inLanes += c.width
		for i, j := range c.jobs {
			hash := c.lanes[i].keys[0][0]
			if i >= c.width {
				must(j == nil && hash == 0, "a lane that is not in use is empty")
				continue
			}
			place[j]++
			must(j.state == running || j.state == cancelled, "a job in a lane is running or cancelled")
			must(hash != 0 && s.callers[hash-1].job == j && j.keys[0][0] == 0, "the hash is in its lane alone")
		}
	}
	must(s.inLanes == inLanes, "the jobs in lanes are those counted")
	waiting := 0
	for _, list := range s.queue.lists {
		for j := list.first; j != nil; j = j.next {
			place[j]++
			waiting++
			must(j.state == queued && j.owed && j.keys[0][0] != 0, "a job in the queue is queued, its caller owed a wake-up")
		}
	}
	must(s.queue.length == waiting, "the jobs in the queue are those counted")
	must(waiting == 0 || s.leaders > 0, "somebody leads while jobs wait")
	for _, c := range s.callers {
		switch c.job.state {
		case running, queued:
			must(place[c.job] == 1, "a job is in one place")
		case done:
			must(c.job.remaining == 0 && c.job.keys[0][0] != 0, "a job that is done has its hash")
		}
	}
}

// All interleavings of a few callers, of cancellations, and of a limit that falls and rises:
// from every state that can be reached, every caller comes to an end.
func TestSchedulerModel(t *testing.T) {
	models := []struct {
		name         string
		cores, lanes int
		left         []uint64
		cancel       int  // callers that are cancelled, at any time
		limits       bool // the limit changes to 1 and 2 at any time
	}{
		{"one core, two lanes", 1, 2, []uint64{1, 2, 2}, 3, false},
		{"two cores, two lanes", 2, 2, []uint64{2, 1, 2}, 2, false},
		{"four callers", 1, 2, []uint64{1, 1, 2, 1}, 1, false},
		{"two cores, changing limit", 2, 2, []uint64{2, 2, 1}, 0, true},
		{"long ones give way", 1, 2, []uint64{1, 17, 17}, 1, false},
	}
	switch {
	case runtime.GOARCH == "wasm":
		models = models[:1]
	case testing.Short():
		models = models[3:4]
	}
	for _, m := range models {
		t.Run(m.name, func(t *testing.T) {
			seen := map[string]bool{}
			ends := 0
			var explore func(path []int)
			// An action is the step of a caller, its cancellation, or a change of the limit.
			actions := 2*len(m.left) + 2
			explore = func(path []int) {
				s := newStepper(t, m.cores, m.lanes, m.left...)
				for _, a := range path {
					s.act(a)
				}
				key := s.String()
				if seen[key] {
					return
				}
				seen[key] = true
				live := false
				for a := range actions {
					n := len(m.left)
					switch {
					case a < n && s.enabled(s.callers[a]):
						live = true
					case a >= n && a < n+m.cancel && !s.callers[a-n].err && s.callers[a-n].at != atEnd:
					case a >= 2*n && m.limits && s.limit != a-2*n+1:
					default:
						continue
					}
					explore(append(path[:len(path):len(path)], a))
				}
				if live {
					return
				}
				ends++
				for i, c := range s.callers {
					require.Equal(t, atEnd, c.at, "caller %d is stuck after %v", i, path)
					require.True(t, c.job.state == done || c.err)
				}
				requireIdle(t, s.scheduler)
			}
			explore(nil)
			t.Logf("%d states, %d ends", len(seen), ends)
			require.Greater(t, len(seen), 100)
		})
	}
}

// act does the action with number a of TestSchedulerModel.
func (s *stepper) act(a int) {
	n := len(s.callers)
	switch {
	case a < n:
		s.step(s.callers[a])
	case a < 2*n:
		s.callers[a-n].err = true
		s.cancel(s.callers[a-n].job)
		s.check()
	default:
		s.setLimit(a - 2*n + 1)
	}
}

// String returns everything that the next steps depend on.
func (s *stepper) String() string {
	names := map[*core]int{}
	text := fmt.Sprint(s.limit, s.leaders)
	ids := map[*job]int{}
	for i, c := range s.callers {
		ids[c.job] = i
	}
	for _, c := range s.callers {
		j := c.job
		text += fmt.Sprintf("|%d %d %d %d %t %t %t", c.at, c.left, j.state, j.remaining, j.owed, j.passed, c.err)
		for _, k := range []*core{c.leads, j.offer} {
			if k == nil {
				text += " -"
				continue
			}
			if _, ok := names[k]; !ok {
				names[k] = len(names)
			}
			text += fmt.Sprintf(" core %d:", names[k])
			for _, in := range k.jobs[:k.width] {
				text += fmt.Sprint(ids[in], ",")
			}
		}
	}
	var order []int
	for _, list := range s.queue.lists {
		for j := list.first; j != nil; j = j.next {
			order = append(order, ids[j])
		}
	}
	slices.SortFunc(order, func(a, b int) int { return int(s.callers[a].job.number) - int(s.callers[b].job.number) })
	return text + fmt.Sprint(order)
}

// start lets callers begin, until they sleep or lead.
func (s *stepper) start(callers ...int) {
	for _, i := range callers {
		for c := s.callers[i]; c.at == atStart || c.at == atLook; {
			s.step(c)
		}
	}
}

// finish runs all callers, round by round, until the given one is at its end. It returns how
// many iterations the caller, or its last leader, ran until then.
func (s *stepper) finish(caller int) (rounds int) {
	for ; s.callers[caller].at != atEnd; rounds++ {
		for _, c := range s.callers {
			if s.enabled(c) {
				s.step(c)
			}
		}
	}
	return rounds
}

// Waiting callers enter lanes one at each boundary, oldest first, and get the kernel for
// their number.
func TestSchedulerWidth(t *testing.T) {
	s := newStepper(t, 1, maxLanes, 100, 100, 100, 100, 100, 100, 100)
	s.start(0, 1, 2)
	leader := s.callers[0]
	widths := []int{}
	for range 4 {
		s.step(leader)
		widths = append(widths, leader.leads.width)
	}
	require.Equal(t, []int{2, 3, 3, 3}, widths)
	s.start(3, 4, 5, 6)
	for range 4 {
		s.step(leader)
	}
	require.Equal(t, maxLanes, leader.leads.width)
	for i := range maxLanes {
		require.True(t, s.callers[i].job == leader.leads.jobs[i])
	}
	require.True(t, s.callers[5].job == s.queue.first())
	s.finish(6)
}

// Lanes spread evenly over leaders. A leader that the system has stopped does not keep others
// from taking jobs.
func TestSchedulerSpread(t *testing.T) {
	s := newStepper(t, 2, maxLanes, 100, 100, 100, 100, 100, 100)
	s.start(0, 1, 2, 3, 4, 5)
	a, b := s.callers[0], s.callers[1]
	for range 3 {
		s.step(a)
		s.step(b)
	}
	require.Equal(t, 3, a.leads.width)
	require.Equal(t, 3, b.leads.width)

	s = newStepper(t, 2, maxLanes, 100, 100, 100, 100, 100, 100)
	s.start(0, 1, 2, 3, 4, 5)
	a, b = s.callers[0], s.callers[1]
	for range 7 { // b does not run
		s.step(a)
	}
	require.Equal(t, 5, a.leads.width)
	require.Equal(t, 1, b.leads.width)

	// A leader with more lanes than the average passes over a newcomer once.
	c := s.extra(100)
	s.start(6)
	b.job.remaining = 50
	a.leads.jobs[4].remaining = 0
	s.step(a)
	require.Equal(t, 4, a.leads.width)
	require.Equal(t, queued, c.job.state)
	s.step(b)
	require.Equal(t, 2, b.leads.width)
	require.Equal(t, running, c.job.state)

	// An idle core gets half of the lanes, but not the leader's own.
	a.leads.jobs[0], a.leads.jobs[3] = a.leads.jobs[3], a.leads.jobs[0]
	a.leads.lanes[0], a.leads.lanes[3] = a.leads.lanes[3], a.leads.lanes[0]
	for _, j := range b.leads.jobs[:2] {
		j.remaining = 0
	}
	for b.at != atEnd {
		s.step(b)
	}
	require.Equal(t, 1, s.leaders)
	s.step(a)
	require.Equal(t, 2, a.leads.width)
	require.Equal(t, 2, s.leaders)
	for i := range s.callers {
		s.finish(i)
	}
	requireIdle(t, s.scheduler)
}

// The oldest job is the first to get a lane, whatever its cost. When a leader above the limit
// gives up its lanes, their jobs are again before younger ones.
func TestSchedulerOrder(t *testing.T) {
	s := newStepper(t, 1, maxLanes, 100, 30, 300, 90, 10)
	s.start(0, 1, 2, 3, 4)
	for i := range 4 {
		s.step(s.callers[0])
		require.True(t, s.callers[i+1].job == s.callers[0].leads.jobs[i+1])
	}

	s = newStepper(t, 2, 2, 1, 100, 90, 90, 90)
	s.start(0, 1, 2, 3)
	s.step(s.callers[0])
	s.step(s.callers[1])
	s.start(4)
	s.setLimit(1)
	for s.callers[0].at != atEnd {
		s.step(s.callers[0])
	}
	require.Equal(t, 1, s.leaders)
	require.True(t, s.callers[2].job == s.queue.first())

	// The longest hashes of all wait in the queue too.
	s = newStepper(t, 1, 1, 10, iterations(MaxCost), 2*(iterations(MaxCost)-iterations(MinCost)))
	s.start(0, 1, 2)
	require.True(t, s.callers[1].job == s.queue.first())

	// The caller of the longest remaining job becomes the leader.
	s = newStepper(t, 1, maxLanes, 3, 100, 300, 200)
	s.start(0, 1, 2, 3)
	for s.callers[0].at != atEnd {
		s.step(s.callers[0])
	}
	require.NotNil(t, s.callers[2].job.offer)
}

// A result that is ready is returned, even if the context has ended by then.
func TestSchedulerReadyBeforeCancel(t *testing.T) {
	s := newStepper(t, 1, maxLanes, 1)
	s.start(0)
	s.step(s.callers[0])
	s.cancel(s.callers[0].job)
	s.finish(0)
	require.Equal(t, done, s.callers[0].job.state)
}

// If the context ends during the last iteration, the hash is still returned. The job is not
// reused, because the context's goroutine may still cancel it.
func TestSchedulerLateCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	sane := kernels[1]
	defer func() { kernels[1] = sane }()
	turns := 0
	kernels[1] = func(lanes *[maxLanes]lane) {
		sane(lanes)
		if turns++; turns == 16 {
			cancel()
		}
	}
	j := newJob("password", 4)
	require.NoError(t, cores.run(ctx, j))
	require.Equal(t, hashAlone([]byte("password"), &[saltSize]byte{1}, 4, plain), j.digest())
	require.True(t, j.held)
}

// A hash of cost 8 among five of cost 15 on each core is done after its own 256 iterations,
// one boundary, and the time to wake up. So it is among many more. The long ones finish too.
func TestSchedulerStarvation(t *testing.T) {
	for _, long := range []int{5, 50} {
		left := slices.Repeat([]uint64{1 << 15}, long)
		s := newStepper(t, 1, maxLanes, append(left, 1<<8)...)
		for i := range long {
			s.start(i)
		}
		for range 20 {
			s.step(s.callers[0])
		}
		s.start(long)
		require.LessOrEqual(t, s.finish(long), 1<<8+5)
		if long == 5 {
			for i := range long {
				s.finish(i)
			}
			requireIdle(t, s.scheduler)
		}
	}

	// With short hashes without end, one lane still belongs to the long ones.
	s := newStepper(t, 1, maxLanes, slices.Concat(slices.Repeat([]uint64{1 << 15}, 5), slices.Repeat([]uint64{1 << 8}, 1000))...)
	s.start(0, 1, 2, 3, 4)
	for i := range 20 {
		s.start(5 + i)
	}
	next := 25
	longDone := 0
	for longDone == 0 && next < len(s.callers) {
		ended := 0
		for i, c := range s.callers {
			if c.at != atStart && s.enabled(c) {
				s.step(c)
			}
			if c.at == atEnd {
				if ended++; i < 5 {
					longDone++
				}
			}
		}
		for next < len(s.callers) && next-ended < 25 {
			s.start(next)
			next++
		}
	}
	require.Positive(t, longDone)
}

// The longest lane gives way to a job in the queue if it has more than eight times as much to
// do. The last such lane stays.
func TestSchedulerGiveWay(t *testing.T) {
	for _, c := range []struct {
		lanes []uint64
		line  uint64
		want  int // the lane that gives way, or -1
	}{
		{[]uint64{50, 808, 900}, 100, 2},
		{[]uint64{50, 900, 808}, 100, 1},
		{[]uint64{900, 50, 808}, 100, 0}, // the leader's own
		{[]uint64{50, 807, 900}, 100, -1},
		{[]uint64{807, 807, 807}, 100, -1},
		{[]uint64{5, 8, 1 << 31}, 1, -1},
	} {
		s := newStepper(t, 1, 3, 10, 10, 10, c.line)
		s.start(0, 1, 2)
		leader := s.callers[0]
		s.step(leader)
		s.step(leader)
		lanes := leader.leads.jobs
		for i, left := range c.lanes {
			lanes[i].remaining = left
		}
		s.start(3)
		core := leader.leads
		s.step(leader)
		want := lanes
		if c.want >= 0 {
			want[c.want], want[2] = want[2], s.callers[3].job
			require.True(t, s.queue.first() == lanes[c.want])
		}
		require.True(t, core.jobs == want, "%+v", c)
	}
}

// Limits that fall and rise under load hold once the leaders are done.
func TestSchedulerLimit(t *testing.T) {
	require.Equal(t, 0, LimitCores(-3))
	require.Equal(t, 0, LimitCores(1))
	require.Equal(t, 1, LimitCores(0))

	s := newStepper(t, 3, maxLanes, 10, 20, 30, 30, 30, 30)
	s.start(0, 1, 2, 3, 4, 5)
	require.Equal(t, 3, s.leaders)
	s.setLimit(1)
	s.finish(1)
	require.Equal(t, 1, s.leaders)
	s.setLimit(2)
	for range 2 {
		for _, c := range s.callers {
			if s.enabled(c) {
				s.step(c)
			}
		}
	}
	require.Equal(t, 2, s.leaders)
	for i := range s.callers {
		s.finish(i)
	}
	requireIdle(t, s.scheduler)
}
