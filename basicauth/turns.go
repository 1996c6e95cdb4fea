package basicauth

import (
	"context"
	"slices"
	"sync"

	"example.com/bcrypt"
)

// This file shares the cores. A number of passwords are hashed at once; the other requests wait.
// Whose turn is next goes round by address, and within an address round by user name. So one
// address that sends a thousand passwords delays another by one turn, and behind a proxy that does
// not tell addresses apart, the same holds for names.

// turns is a queue of requests. The zero value lets none wait.
type turns struct {
	maxWaiting int

	mu        sync.Mutex
	running   int
	waiting   int
	addresses []*address // that have requests waiting, whose turn is next first
}

type address struct {
	key     string
	waiting int
	names   []*name // that have requests waiting, whose turn is next first
}

type name struct {
	key     string
	waiters []*waiter // oldest first
}

type waiter struct {
	ready chan struct{} // closed when it is the waiter's turn, or it is refused
	turn  bool          // it is the waiter's turn
}

// wait returns when it is the request's turn, and a function to call when that is over. It returns
// ErrBusy if the request does not fit in the queue, and ctx.Err() if ctx ends. most is how many may
// run at once.
func (t *turns) wait(ctx context.Context, addressKey, nameKey string, most int) (done func(), err error) {
	t.mu.Lock()
	if t.running < most {
		t.running++
		t.mu.Unlock()
		return t.done, nil
	}
	if t.waiting >= t.maxWaiting && !t.shed(addressKey) {
		t.mu.Unlock()
		return nil, bcrypt.ErrBusy
	}
	w := &waiter{ready: make(chan struct{})}
	t.add(addressKey, nameKey, w)
	t.mu.Unlock()

	select {
	case <-w.ready:
	case <-ctx.Done():
		t.mu.Lock()
		defer t.mu.Unlock()
		switch {
		case w.turn:
			t.pass()
		default:
			t.remove(addressKey, nameKey, w)
		}
		return nil, ctx.Err()
	}
	if !w.turn {
		return nil, bcrypt.ErrBusy
	}
	return t.done, nil
}

// done ends a turn.
func (t *turns) done() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pass()
}

// pass gives a turn that has ended to the next.
func (t *turns) pass() {
	if len(t.addresses) == 0 {
		t.running--
		return
	}
	a := t.addresses[0]
	t.addresses = t.addresses[1:]
	n := a.names[0]
	a.names = a.names[1:]
	w := n.waiters[0]
	n.waiters = n.waiters[1:]
	if len(n.waiters) > 0 {
		a.names = append(a.names, n)
	}
	if len(a.names) > 0 {
		t.addresses = append(t.addresses, a)
	}
	a.waiting--
	t.waiting--
	w.turn = true
	close(w.ready)
}

// add puts w at the end of its name's queue.
func (t *turns) add(addressKey, nameKey string, w *waiter) {
	i := slices.IndexFunc(t.addresses, func(a *address) bool { return a.key == addressKey })
	if i < 0 {
		i = len(t.addresses)
		t.addresses = append(t.addresses, &address{key: addressKey})
	}
	a := t.addresses[i]
	j := slices.IndexFunc(a.names, func(n *name) bool { return n.key == nameKey })
	if j < 0 {
		j = len(a.names)
		a.names = append(a.names, &name{key: nameKey})
	}
	a.names[j].waiters = append(a.names[j].waiters, w)
	a.waiting++
	t.waiting++
}

// remove takes w out of the queue, if it is still there.
func (t *turns) remove(addressKey, nameKey string, w *waiter) {
	i := slices.IndexFunc(t.addresses, func(a *address) bool { return a.key == addressKey })
	if i < 0 {
		return
	}
	a := t.addresses[i]
	j := slices.IndexFunc(a.names, func(n *name) bool { return n.key == nameKey })
	if j < 0 {
		return
	}
	n := a.names[j]
	k := slices.Index(n.waiters, w)
	if k < 0 {
		return
	}
	n.waiters = slices.Delete(n.waiters, k, k+1)
	a.waiting--
	t.waiting--
	if len(n.waiters) == 0 {
		a.names = slices.Delete(a.names, j, j+1)
	}
	if len(a.names) == 0 {
		t.addresses = slices.Delete(t.addresses, i, i+1)
	}
}

// shed makes room in a full queue: it refuses the newest request of the name that has the most in
// the address that has the most. It reports whether it did. It does not for an address that would
// then have the most itself.
func (t *turns) shed(addressKey string) bool {
	if len(t.addresses) == 0 {
		return false
	}
	a := slices.MaxFunc(t.addresses, func(x, y *address) int { return x.waiting - y.waiting })
	mine := 0
	for _, other := range t.addresses {
		if other.key == addressKey {
			mine = other.waiting
		}
	}
	if mine+1 >= a.waiting {
		return false
	}
	n := a.names[0]
	for _, other := range a.names {
		if len(other.waiters) >= len(n.waiters) {
			n = other
		}
	}
	w := n.waiters[len(n.waiters)-1]
	t.remove(a.key, n.key, w)
	close(w.ready)
	return true
}

func (t *turns) counts() (running, waiting int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.running, t.waiting
}
