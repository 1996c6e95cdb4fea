package bcrypt

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// recordMade empties a pool and records what it makes until the test ends.
func recordMade[T any](t *testing.T, pool *sync.Pool) (made func() []T) {
	for range 2 { // a pool keeps two generations
		runtime.GC()
	}
	var mu sync.Mutex
	var all []T
	makeOne := pool.New
	pool.New = func() any {
		mu.Lock()
		defer mu.Unlock()
		one := makeOne()
		all = append(all, one.(T))
		return one
	}
	t.Cleanup(func() { pool.New = makeOne })
	return func() []T {
		mu.Lock()
		defer mu.Unlock()
		return all
	}
}

// Once nothing runs, no lane of a job or a core holds a key or a state. Before that, hashes of
// all readings ran, alone and among others, and some were cancelled in the queue or in lanes.
func TestNothingLeft(t *testing.T) {
	require.NoError(t, selfTest())
	requireIdle(t, &cores)
	jobs, made := recordMade[*job](t, &jobPool), recordMade[*core](t, &corePool)
	var wg sync.WaitGroup
	for caller := range 40 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(2, uint64(caller)))
			for range 5 {
				ctx, cancel := context.WithTimeout(background, time.Duration(1+r.IntN(40))*time.Millisecond)
				compute(ctx, nil, []byte("password\xff\xff\xa3"), &[saltSize]byte{1}, 1<<(4+r.IntN(4)), reading(r.IntN(4)))
				cancel()
			}
		})
	}
	wg.Wait()
	requireIdle(t, &cores)
	require.NotEmpty(t, jobs())
	require.NotEmpty(t, made())
	for _, j := range jobs() {
		require.True(t, j.lane == lane{}, "a job's lane is not wiped")
	}
	for _, c := range made() {
		for i := range c.lanes {
			require.True(t, c.lanes[i] == lane{}, "lane %d of a core is not wiped", i)
			require.Nil(t, c.jobs[i])
		}
	}
}

// wants are all texts that a *MalformedHashError may have.
var wants = []string{
	wantMajor, wantMinor, wantCost, wantSalt, wantDigest, wantEnd, wantPrehash, wantDollar, wantDigit, wantLength,
	wantCoded, wantWrapped, wantSingle, wantUnquoted, wantNoMark, wantNoBlank, wantNoURL, wantNoBase64, wantNoHex, wantUnshelled, wantWhole,
}

// FuzzErrorsAreSecretFree gives any hash and password to a Hasher. No error depends on a byte of
// either, however it is printed.
func FuzzErrorsAreSecretFree(f *testing.F) {
	for _, hash := range []string{
		"", "secret", sample, sample + "secret", "$2b$31" + sample[6:], "$2b$99" + sample[6:], "$3b$04" + sample[6:],
		"$2b$04$" + "\xff\xfe" + sample[9:], "$bcrypt-sha256$v=2,t=2b,r=4$secret$secret", "$bcrypt-sha256$v=2,t=2b,r=4$" + sample[7:29] + "$" + sample[29:],
		"$argon2id$v=19$m=65536,t=3,p=4$c2VjcmV0c2VjcmV0$secretsecretsecretsecretsecretsecretsecretsecret",
		"{CRYPT}" + sample, "{blf-crypt.hex}" + "24", "bcrypt$" + sample + " \n", "$wp" + sample, "$$2b$$05", "b2", "\ufeff" + sample, "%242b", "JDJi", `\x24326224`,
	} {
		f.Add(hash, []byte("password"))
		f.Add(hash, make([]byte, 73))
	}
	f.Fuzz(func(t *testing.T, hash string, password []byte) {
		for _, long := range []LongPasswords{RefuseLong, TruncateLong, PrehashLong} {
			h := &Hasher{Cost: MinCost, MaxCost: MinCost + 1, Long: long}
			_, hashErr := h.Hash(background, password)
			_, upgradeErr := h.VerifyAndUpgrade(background, hash, password)
			_, inspectErr := Inspect(hash)
			for _, err := range []error{hashErr, upgradeErr, h.Verify(cancelledContext(), hash, password), inspectErr} {
				if err == nil {
					continue
				}
				switch e := err.(type) {
				case *MalformedHashError: // two fields: %+v and %#v show no more
					require.Contains(t, wants, e.Want)
					require.Equal(t, fmt.Sprintf("bcrypt: malformed hash: want %s at offset %d", e.Want, e.Offset), e.Error())
				case *NotBcryptError:
					require.True(t, isSchemeName(e.Scheme), e.Scheme)
					require.Equal(t, "bcrypt: not a bcrypt hash: it looks like "+e.Scheme, e.Error())
				case *CostTooHighError:
					require.Equal(t, fmt.Sprintf("bcrypt: the hash has cost %d, above the limit of 5", e.Cost), e.Error())
				default:
					require.Contains(t, []error{ErrPasswordTooLong, ErrMismatchedHashAndPassword, context.Canceled}, err)
				}
			}
		}
	})
}
