package basicauth

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"example.com/bcrypt"
	"github.com/stretchr/testify/require"
)

// queue lets requests "address/name" wait in t, in this order, and returns a function that says in
// what order their turns have come.
func queue(t *testing.T, turns *turns, requests ...[2]string) (order func() []string) {
	t.Helper()
	var mu sync.Mutex
	var came []string
	for i, r := range requests {
		go func() {
			done, err := turns.wait(t.Context(), r[0], r[1], 1)
			mu.Lock()
			defer mu.Unlock()
			text := fmt.Sprintf("%s/%s#%d", r[0], r[1], i)
			if err != nil {
				text += " " + err.Error()
			}
			came = append(came, text)
			if err == nil {
				go done()
			}
		}()
		synctest.Wait()
	}
	return func() []string {
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(came)
	}
}

// Turns go round by address, and in an address by name, oldest first.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := &turns{maxWaiting: 100}
		hold, err := turns.wait(t.Context(), "x", "x", 1)
		require.NoError(t, err)
		order := queue(t, turns, [2]string{"a", "1"}, [2]string{"a", "1"}, [2]string{"a", "1"}, [2]string{"a", "2"}, [2]string{"b", "1"}, [2]string{"c", "1"}, [2]string{"b", "1"})
		require.Empty(t, order())
		running, waiting := turns.counts()
		require.Equal(t, [2]int{1, 7}, [2]int{running, waiting})
		hold()
		require.Equal(t, []string{"a/1#0", "b/1#4", "c/1#5", "a/2#3", "b/1#6", "a/1#1", "a/1#2"}, order())
		running, waiting = turns.counts()
		require.Equal(t, [2]int{0, 0}, [2]int{running, waiting})
		require.Empty(t, turns.addresses)
	})
}

// A full queue makes room for an address that has little in it, by refusing the newest request of
// the name and address that have the most. An address that has the most is refused itself.
func TestTurnsShed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := &turns{maxWaiting: 4}
		hold, err := turns.wait(t.Context(), "x", "x", 1)
		require.NoError(t, err)
		order := queue(t, turns, [2]string{"a", "1"}, [2]string{"a", "2"}, [2]string{"a", "2"}, [2]string{"a", "2"}, // full
			[2]string{"a", "3"}, [2]string{"b", "1"}, [2]string{"c", "1"}, [2]string{"d", "1"})
		require.Equal(t, []string{
			"a/3#4 bcrypt: too many calls are waiting",
			"a/2#3 bcrypt: too many calls are waiting",
			"a/2#2 bcrypt: too many calls are waiting",
			"a/2#1 bcrypt: too many calls are waiting",
		}, order())
		more := queue(t, turns, [2]string{"e", "1"}) // all have one: none gives way
		require.Equal(t, []string{"e/1#0 bcrypt: too many calls are waiting"}, more())
		hold()
		require.Equal(t, []string{"a/1#0", "b/1#5", "c/1#6", "d/1#7"}, order()[4:])
	})
	none := &turns{}
	done, err := none.wait(t.Context(), "a", "1", 1)
	require.NoError(t, err)
	_, err = none.wait(t.Context(), "b", "1", 1)
	require.Equal(t, bcrypt.ErrBusy, err)
	done()
	_, err = none.wait(t.Context(), "b", "1", 1)
	require.NoError(t, err)
}

// Random requests, cancellations and limits: everyone gets a turn or an error, no more run at once
// than may, and nothing stays in the queue.
func TestTurnsRandom(t *testing.T) {
	turns := &turns{maxWaiting: 20}
	var mu sync.Mutex
	running, got, refused, cancelled := 0, 0, 0, 0
	var wg sync.WaitGroup
	for caller := range 50 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(caller)))
			for range 200 {
				ctx, cancel := context.WithCancel(context.Background())
				if r.IntN(3) == 0 {
					go cancel()
				}
				done, err := turns.wait(ctx, fmt.Sprint(r.IntN(5)), fmt.Sprint(r.IntN(3)), 3)
				mu.Lock()
				switch err {
				case nil:
					got++
					running++
					if running > 3 {
						t.Error("too many run at once")
					}
				case context.Canceled:
					cancelled++
				case bcrypt.ErrBusy:
					refused++
				default:
					t.Error(err)
				}
				mu.Unlock()
				if err == nil {
					mu.Lock()
					running--
					mu.Unlock()
					done()
				}
				cancel()
			}
		})
	}
	wg.Wait()
	t.Log(got, "turns,", refused, "refused,", cancelled, "cancelled")
	require.Equal(t, 50*200, got+refused+cancelled)
	require.Positive(t, got)
	now, waiting := turns.counts()
	require.Zero(t, now+waiting)
	require.Empty(t, turns.addresses)
}
