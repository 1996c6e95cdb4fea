package bcrypt

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"
)

var background = context.Background()

func TestHasherValidate(t *testing.T) {
	for _, c := range []struct {
		hasher *Hasher
		text   string
	}{
		{&Hasher{Cost: 3}, "crypto/bcrypt: cost 3 is outside allowed inclusive range 4..31"},
		{&Hasher{Cost: -1}, "crypto/bcrypt: cost -1 is outside allowed inclusive range 4..31"},
		{&Hasher{Cost: 32}, "crypto/bcrypt: cost 32 is outside allowed inclusive range 4..31"},
		{&Hasher{Version: Version2x}, "bcrypt: hasher: Version is 2x, want 2b, 2a or 2y"},
		{&Hasher{Version: Version2}, "bcrypt: hasher: Version is 2, want 2b, 2a or 2y"},
		{&Hasher{Version: 77}, "bcrypt: hasher: Version is Version(77), want 2b, 2a or 2y"},
		{&Hasher{Cost: 12, MaxCost: 11}, "bcrypt: hasher: MaxCost is 11, want 0, or from 12 (Cost) to 31"},
		{&Hasher{MaxCost: 32}, "bcrypt: hasher: MaxCost is 32, want 0, or from 10 (Cost) to 31"},
		{&Hasher{Long: 3}, "bcrypt: hasher: Long is LongPasswords(3), want RefuseLong, TruncateLong or PrehashLong"},
		{&Hasher{Long: -1}, "bcrypt: hasher: Long is LongPasswords(-1), want RefuseLong, TruncateLong or PrehashLong"},
		{&Hasher{Long: PrehashLong, Version: Version2y}, "bcrypt: hasher: Version is 2y, want 2b, because PrehashLong writes no other"},
	} {
		h := c.hasher
		require.EqualError(t, h.Validate(), c.text)
		hash, err := h.Hash(background, nil)
		require.EqualError(t, err, c.text)
		require.Empty(t, hash)
		require.EqualError(t, h.Verify(background, sample, nil), c.text)
		require.Zero(t, h.Stats())
	}
	for _, cost := range []int{0, 4, 16, 17, 31} {
		require.NoError(t, (&Hasher{Cost: cost}).Validate())
	}
	require.Equal(t, InvalidCostError(3), (&Hasher{Cost: 3}).Validate())
}

func TestHasherRoundTrip(t *testing.T) {
	long := []byte(strings.Repeat("x", 72) + "y")
	for _, c := range []struct {
		name   string
		hasher *Hasher
		prefix string
		length int
	}{
		{"zero value", &Hasher{}, "$2b$10$", 60},
		{"2a", &Hasher{Cost: 4, Version: Version2a}, "$2a$04$", 60},
		{"2y", &Hasher{Cost: 4, Version: Version2y}, "$2y$04$", 60},
		{"truncating", &Hasher{Cost: 4, Long: TruncateLong}, "$2b$04$", 60},
		{"pre-hashing", &Hasher{Cost: 4, Long: PrehashLong}, "$bcrypt-sha256$v=2,t=2b,r=4$", 82},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, password := range [][]byte{nil, []byte("U*U"), []byte("a\x00b"), []byte("\xff\xff\xa3"), long[:72]} {
				hash, err := c.hasher.Hash(background, password)
				require.NoError(t, err)
				require.Equal(t, c.prefix, hash[:len(c.prefix)])
				require.Len(t, hash, c.length)
				require.NoError(t, c.hasher.Verify(background, hash, password))
				require.Equal(t, ErrMismatchedHashAndPassword, c.hasher.Verify(background, hash, []byte("another")))
				require.False(t, c.hasher.NeedsRehash(hash))
				again, err := c.hasher.Hash(background, password)
				require.NoError(t, err)
				require.NotEqual(t, hash, again)
			}

			hash, err := c.hasher.Hash(background, long)
			switch c.hasher.Long {
			case RefuseLong:
				require.Equal(t, ErrPasswordTooLong, err)
				require.Empty(t, hash)
				for _, any := range []string{"", "x", sample, "$2b$31$" + sample[7:]} {
					require.Equal(t, ErrPasswordTooLong, c.hasher.Verify(background, any, long), any)
				}
			case TruncateLong:
				require.NoError(t, c.hasher.Verify(background, hash, long))
				require.NoError(t, c.hasher.Verify(background, hash, long[:72]))
			case PrehashLong:
				require.NoError(t, c.hasher.Verify(background, hash, long))
				require.Equal(t, ErrMismatchedHashAndPassword, c.hasher.Verify(background, hash, long[:72]))
			}
		})
	}
}

// A service can tell apart the errors of Verify that it answers differently. None holds a byte
// of what is stored.
func TestHasherVerifyErrors(t *testing.T) {
	h := &Hasher{Cost: 4, MaxCost: 12}
	for _, c := range []struct {
		hash        string
		err         error
		unsupported bool
	}{
		{"", ErrMismatchedHashAndPassword, false},
		{sample, ErrMismatchedHashAndPassword, false},
		{"$2b$13" + sample[6:], &CostTooHighError{Cost: 13, MaxCost: 12}, false},
		{"$bcrypt-sha256$v=2,t=2b,r=31$CCCCCCCCCCCCCCCCCCCCC.$sPpiByv3zNGdWU9n.xvn2I2zMRDQ5ay", &CostTooHighError{Cost: 31, MaxCost: 12}, false},
		{"secret", &MalformedHashError{6, "59 bytes or more"}, false},
		{strings.Repeat("secret", 10), &MalformedHashError{0, `"$"`}, false},
		{"$argon2id$v=19$m=65536,t=3,p=4$c29tZXNhbHQ$RdescudvJCsgt3ub+b1dWRWJTmaaJObG", &NotBcryptError{"argon2id"}, true},
		{"$1" + sample[2:], &MalformedHashError{1, wantMajor}, true},
		{"$2c" + sample[3:], &MalformedHashError{2, wantMinor}, true},
		{"$bcrypt-sha256$v=3,t=2b,r=5$CCCCCCCCCCCCCCCCCCCCC.$sPpiByv3zNGdWU9n.xvn2I2zMRDQ5ay", &MalformedHashError{15, wantPrehash}, true},
		{"$2b$32" + sample[6:], &MalformedHashError{4, wantCost}, false},
		{"$2$03$" + sample[7:], &MalformedHashError{3, wantCost}, false},
		{sample + "\nx", &MalformedHashError{60, wantEnd}, false},
		{sample[:59], &MalformedHashError{59, wantWhole}, false},
		{strings.Replace(sample, "C.E5", "C/E5", 1), &MalformedHashError{28, wantSalt}, false},
	} {
		err := h.Verify(background, c.hash, []byte("password"))
		require.Equal(t, c.err, err, "%q", c.hash)
		require.Equal(t, c.unsupported, errors.Is(err, ErrUnsupportedVersion), "%q", c.hash)
		require.NotContains(t, err.Error(), "secret")
		_, inspectErr := Inspect(c.hash)
		if malformed := (*MalformedHashError)(nil); errors.As(err, &malformed) || errors.Is(err, ErrNotBcrypt) {
			require.Equal(t, err, inspectErr)
			require.True(t, h.NeedsRehash(c.hash))
		}
	}
	require.EqualError(t, &CostTooHighError{Cost: 31, MaxCost: 16}, "bcrypt: the hash has cost 31, above the limit of 16")
	require.Equal(t, &CostTooHighError{Cost: 17, MaxCost: 16}, (&Hasher{}).Verify(background, "$2b$17"+sample[6:], nil))
	require.Error(t, (&Hasher{Cost: 18}).Verify(cancelledContext(), "$2b$18"+sample[6:], nil))
}

func cancelledContext() context.Context {
	ctx, cancel := context.WithCancel(background)
	cancel()
	return ctx
}

// The work of a failed Verify depends on the password and the policy alone. It is counted in
// iterations, which are its time.
func TestHasherVerifyWork(t *testing.T) {
	sane := kernels[1]
	defer func() { kernels[1] = sane }()
	ran := 0
	kernels[1] = func(lanes *[maxLanes]lane) {
		ran++
		sane(lanes)
	}
	h := &Hasher{Cost: 7, MaxCost: 9}
	const rest = "CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"
	for _, c := range []struct {
		name, hash string
		work       int
	}{
		{"no such user", "", 128},
		{"malformed", "x", 128},
		{"another scheme", "$6$rounds=5000$" + rest, 128},
		{"another scheme in a wrapper", "{CRYPT}$6$rounds=5000$" + rest, 128},
		{"hex digits", strings.Repeat("0f", 16), 128},
		{"doubled dollars", "$$2b$$07$$" + rest, 128},
		{"quoted", `"$2b$07$` + rest + `"`, 128},
		{"URL-encoded", "%242b%2407%24" + rest, 128},
		{"cut off", "$2b$07$" + rest[:50], 128},
		{"expanded by a shell", "b7.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW", 128},
		{"padded", "$2b$07$" + rest + "  \x00", 128},
		{"of this cost, wrapped", "{CRYPT}$2a$07$" + rest, 128},
		{"of lower cost, wrapped", "1|$2y$04$" + rest, 128},
		{"of lower cost, wrapped and pre-hashed", "$wp$2y$05$" + rest, 128},
		{"of this cost, wrapped and pre-hashed", "bcrypt_sha256$$2b$07$" + rest, 128},
		{"of this cost, in hex", "{BLF-CRYPT.hex}" + fmt.Sprintf("%x", "$2y$07$"+rest), 128},
		{"not in hex", "{BLF-CRYPT.hex}xyz", 128},
		{"an old version, wrapped", "{CRYPT}$2x$07$" + rest, 128},
		{"of this cost", "$2b$07$" + rest, 128},
		{"of this cost, 2a", "$2a$07$" + rest, 128},
		{"of this cost, 2x", "$2x$07$" + rest, 128},
		{"of this cost, 2", "$2$07$" + rest, 128},
		{"of lower cost", "$2b$04$" + rest, 128},
		{"of lower cost, pre-hashed", "$bcrypt-sha256$v=2,t=2b,r=5$CCCCCCCCCCCCCCCCCCCCC.$sPpiByv3zNGdWU9n.xvn2I2zMRDQ5ay", 128},
		{"of higher cost", "$2b$08$" + rest, 256},
		{"above the limit", "$2b$10$" + rest, 0},
	} {
		for password, factor := range map[string]int{"ordinary": 1, "\xff\xff\xa3": 2} {
			ran = 0
			require.Error(t, h.Verify(background, c.hash, []byte(password)))
			require.Equal(t, factor*c.work, ran, "%s, password %q", c.name, password)
		}
	}
	require.EqualValues(t, 2, h.Stats().AboveCost)
}

func TestHasherNeedsRehash(t *testing.T) {
	const rest = "CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"
	const prehashed = "$CCCCCCCCCCCCCCCCCCCCC.$sPpiByv3zNGdWU9n.xvn2I2zMRDQ5ay"
	for _, c := range []struct {
		hash           string
		plain, prehash bool // under RefuseLong, under PrehashLong
	}{
		{"$2b$12$" + rest, false, true},
		{"$2a$12$" + rest, false, true},
		{"$2y$13$" + rest, false, true},
		{"$2b$11$" + rest, true, true},
		{"$2x$12$" + rest, true, true},
		{"$2$12$" + rest, true, true},
		{"$bcrypt-sha256$v=2,t=2b,r=12" + prehashed, false, false},
		{"$bcrypt-sha256$v=2,t=2b,r=11" + prehashed, true, true},
		{"$bcrypt-sha256$2b,12" + prehashed, true, true},
		{"$2b$12$" + rest + "   ", false, true},
		{"$bcrypt-sha256$v=2,t=2b,r=12" + prehashed + "\r\n", false, false},
		{"{CRYPT}$2b$12$" + rest, true, true},
		{"$wp$2y$12$" + rest, true, true},
		{"", true, true},
		{"x", true, true},
	} {
		require.Equal(t, c.plain, (&Hasher{Cost: 12}).NeedsRehash(c.hash), c.hash)
		require.Equal(t, c.prehash, (&Hasher{Cost: 12, Long: PrehashLong}).NeedsRehash(c.hash), c.hash)
	}
}

func TestHasherVerifyAndUpgrade(t *testing.T) {
	old, err := (&Hasher{Cost: 4}).Hash(background, []byte("U*U"))
	require.NoError(t, err)
	h := &Hasher{Cost: 5}

	upgraded, err := h.VerifyAndUpgrade(background, old, []byte("U*U"))
	require.NoError(t, err)
	require.Equal(t, "$2b$05$", upgraded[:7])
	again, err := h.VerifyAndUpgrade(background, upgraded, []byte("U*U"))
	require.NoError(t, err)
	require.Empty(t, again)

	none, err := h.VerifyAndUpgrade(background, old, []byte("wrong"))
	require.Equal(t, ErrMismatchedHashAndPassword, err)
	require.Empty(t, none)

	// An upgrade that fails does not fail the login.
	withReader(iotest.ErrReader(errors.New("no entropy")), func() {
		none, err = h.VerifyAndUpgrade(background, old, []byte("U*U"))
		require.NoError(t, err)
		require.Empty(t, none)
	})

	// From a system that truncates to one that uses every byte of a password.
	long := []byte(strings.Repeat("x", 72) + "tail")
	truncated, err := (&Hasher{Cost: 5, Long: TruncateLong}).Hash(background, long)
	require.NoError(t, err)
	whole := &Hasher{Cost: 5, Long: PrehashLong}
	upgraded, err = whole.VerifyAndUpgrade(background, truncated, long)
	require.NoError(t, err)
	require.NoError(t, whole.Verify(background, upgraded, long))
	require.Equal(t, ErrMismatchedHashAndPassword, whole.Verify(background, upgraded, long[:72]))
}

// passlib's hashes of both versions verify under every policy that accepts the length, and
// ours are written like them.
func TestPrehash(t *testing.T) {
	for _, v := range readVectors[vector](t, "prehash.jsonl", 23) {
		for _, long := range []LongPasswords{RefuseLong, TruncateLong, PrehashLong} {
			h := &Hasher{Cost: 4, Long: long}
			err := h.Verify(background, v.Hash, v.Password)
			if long == RefuseLong && len(v.Password) > 72 {
				require.Equal(t, ErrPasswordTooLong, err)
				continue
			}
			require.NoError(t, err, v.Hash)
			require.Equal(t, ErrMismatchedHashAndPassword, h.Verify(background, v.Hash, []byte("wrong")))
		}
		r, err := readHash(v.Hash)
		require.NoError(t, err)
		require.Equal(t, v.Hash, string(r.appendTo(nil)))
		info, err := Inspect(v.Hash)
		require.NoError(t, err)
		require.Equal(t, HashInfo{Version: r.version, Cost: r.cost, Salt: r.salt, Form: r.form.name, Prehash: r.form.sha256}, info)
	}
}

// Only plain 2a hashes have a second reading.
func TestPrehashHasOneReading(t *testing.T) {
	password := []byte("\xff\xff\xa3")
	r := record{version: Version2a, form: sha256v1Form, cost: 4}
	var err error
	r.digest, err = compute(background, nil, password, &r.salt, 16, guarded)
	require.NoError(t, err)
	require.Equal(t, ErrMismatchedHashAndPassword, (&Hasher{Cost: 4}).Verify(background, string(r.appendTo(nil)), password))
	r.form = nil
	require.NoError(t, (&Hasher{Cost: 4}).Verify(background, string(r.appendTo(nil)), password))
}

// Of all texts that differ from a bcrypt-sha256 hash in one byte, only those that are hashes
// too are accepted.
func TestPrehashEveryByteEverywhere(t *testing.T) {
	const salt, digest = "CCCCCCCCCCCCCCCCCCCCC.", "sPpiByv3zNGdWU9n.xvn2I2zMRDQ5ay"
	for prefix, inPrefix := range map[string]int{
		"$bcrypt-sha256$v=2,t=2b,r=14$": 27 + 2 + 10,     // or 24, or 10 to 19
		"$bcrypt-sha256$v=2,t=2b,r=4$":  27 + 6,          // or 4 to 9
		"$bcrypt-sha256$2b,14$":         18 + 2 + 2 + 10, // 2a or 2b
	} {
		text := prefix + salt + "$" + digest
		read := 0
		for at := range len(text) {
			for b := range 256 {
				other := text[:at] + string([]byte{byte(b)}) + text[at+1:]
				r, err := readHash(other)
				if err == nil {
					require.Equal(t, other, string(r.appendTo(nil)))
					read++
					continue
				}
				require.IsType(t, &MalformedHashError{}, err)
			}
		}
		require.Equal(t, inPrefix+21*64+4+1+30*64+16, read, prefix)
		for n := range len(text) {
			_, err := readHash(text[:n])
			require.IsType(t, &MalformedHashError{}, err, "%d bytes", n)
		}
		_, err := readHash(text + "x")
		require.Equal(t, &MalformedHashError{len(text), wantEnd}, err)
	}
	for _, cost := range []string{"", "0", "3", "04", "32", "+4", "4 ", "310"} {
		_, err := readHash("$bcrypt-sha256$v=2,t=2b,r=" + cost + "$" + salt + "$" + digest)
		require.Equal(t, &MalformedHashError{26, wantCost}, err, cost)
	}
}

func TestInspect(t *testing.T) {
	for text, want := range map[string]HashInfo{
		sample:                 {Version: Version2b, Cost: 5, Form: FormBare},
		"$2$31$" + sample[7:]:  {Version: Version2, Cost: 31, Form: FormBare},
		"$2x$04$" + sample[7:]: {Version: Version2x, Cost: 4, Form: FormBare},
		// The lowest and the highest cost, which passlib writes without a leading zero.
		"$bcrypt-sha256$v=2,t=2b,r=4$" + sample[7:29] + "$" + sample[29:]:  {Version: Version2b, Cost: 4, Form: FormBcryptSHA256, Prehash: 2},
		"$bcrypt-sha256$v=2,t=2b,r=31$" + sample[7:29] + "$" + sample[29:]: {Version: Version2b, Cost: 31, Form: FormBcryptSHA256, Prehash: 2},
	} {
		got, err := Inspect(text)
		require.NoError(t, err)
		want.Salt = [16]byte{0x10, 0x41, 0x04, 0x10, 0x41, 0x04, 0x10, 0x41, 0x04, 0x10, 0x41, 0x04, 0x10, 0x41, 0x04, 0x10}
		require.Equal(t, want, got)
	}
	for text, offset := range map[string]int{"$2b$99" + sample[6:]: 4, "$2$32" + sample[6:]: 3} {
		_, err := Inspect(text)
		require.Equal(t, &MalformedHashError{Offset: offset, Want: wantCost}, err)
	}
	require.Equal(t, "2b 2a 2y 2x 2", fmt.Sprint(Version2b, " ", Version2a, " ", Version2y, " ", Version2x, " ", Version2))
	require.Equal(t, "Version(5)", Version(5).String())
	require.Equal(t, "RefuseLong TruncateLong PrehashLong", fmt.Sprint(RefuseLong, TruncateLong, PrehashLong))
}

func TestHashWithSalt(t *testing.T) {
	for _, v := range readVectors[vector](t, "kat.jsonl", 1683) {
		r, err := readHash(v.Hash)
		require.NoError(t, err)
		if r.cost > 4 || len(v.Password) > 72 || r.version > Version2y || v.Semantics != "all" {
			continue
		}
		got, err := HashWithSalt(v.Password, r.cost, r.version, r.salt)
		require.NoError(t, err)
		require.Equal(t, v.Hash, got)
	}
	for _, c := range []struct {
		length, cost int
		version      Version
		text         string
	}{
		{73, 99, Version2b, "bcrypt: password length exceeds 72 bytes"},
		{72, 3, Version2b, "crypto/bcrypt: cost 3 is outside allowed inclusive range 4..31"},
		{72, 32, Version2b, "crypto/bcrypt: cost 32 is outside allowed inclusive range 4..31"},
		{72, 4, Version2x, "bcrypt: version is 2x, want 2b, 2a or 2y"},
	} {
		got, err := HashWithSalt(make([]byte, c.length), c.cost, c.version, [16]byte{})
		require.EqualError(t, err, c.text)
		require.Empty(t, got)
	}
}

// occupy starts hashes of cost 20, which stay in lanes or in the queue until the test ends.
func occupy(t *testing.T, hashes int) {
	t.Helper()
	ctx, cancel := context.WithCancel(background)
	var wg sync.WaitGroup
	for range hashes {
		wg.Go(func() { compute(ctx, nil, nil, new([saltSize]byte), 1<<20, plain) })
	}
	for started := false; !started; time.Sleep(time.Millisecond) {
		cores.mu.Lock()
		started = cores.inLanes+cores.queue.length >= hashes
		cores.mu.Unlock()
	}
	t.Cleanup(func() {
		cancel()
		wg.Wait()
		requireIdle(t, &cores)
	})
}

func TestHasherMaxWaiting(t *testing.T) {
	occupy(t, maxConcurrency())
	const cost = 20 // as long as the others: it waits
	h := &Hasher{Cost: cost, MaxWaiting: 2}
	ctx, cancel := context.WithTimeout(background, 5*time.Minute) // a failure must not hang
	defer cancel()
	var wg sync.WaitGroup
	verify := func(ctx context.Context) {
		wg.Go(func() {
			if err := h.Verify(ctx, "", nil); err != ctx.Err() {
				t.Error(err)
			}
		})
	}
	waiting := func(want int) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); h.Stats().Waiting != want && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
		}
		require.Equal(t, want, h.Stats().Waiting)
	}
	one, cancelOne := context.WithCancel(ctx)
	verify(one)
	verify(ctx)
	waiting(2)
	require.Equal(t, ErrBusy, h.Verify(ctx, "", nil))
	hash, err := h.Hash(ctx, nil)
	require.Equal(t, ErrBusy, err)
	require.Empty(t, hash)
	require.Equal(t, ErrBusy, (&Hasher{Cost: cost, MaxWaiting: -1}).Verify(ctx, "", nil))

	cancelOne() // frees a place at once
	waiting(1)
	verify(ctx)
	waiting(2)
	require.Equal(t, ErrBusy, h.Verify(ctx, "", nil))

	cancel()
	wg.Wait()
	require.Equal(t, Stats{Refused: 3, Cancelled: 3}, h.Stats())
}

// A job waits if no lane is free for it. Jobs before it in the queue take lanes, whatever Hasher
// they are for.
func TestSchedulerCrowded(t *testing.T) {
	none, two := (&Hasher{MaxWaiting: -1}).call(), (&Hasher{MaxWaiting: 2}).call()
	s := newStepper(t, 1, maxLanes, 9, 9, 9, 9, 9, 9, 9)
	s.start(0, 1, 2) // one in a lane, four lanes free, two in the queue
	require.False(t, s.crowded(none))
	require.False(t, s.crowded(two))
	s.start(3, 4) // four in the queue
	require.True(t, s.crowded(none))
	require.False(t, s.crowded(two))
	s.start(5, 6)
	two.waiting = 5 // four of them will get the lanes
	require.False(t, s.crowded(two))
	two.waiting = 6
	require.True(t, s.crowded(two))
	require.False(t, s.crowded(&call{tally: two.tally, maxWaiting: 2, begun: true}))
	require.False(t, s.crowded((&Hasher{}).call()))
	require.False(t, s.crowded(nil))
}

// A call that has begun is not refused later: not its second reading, and not the make-up
// work for a hash of lower cost.
func TestHasherAdmittedOnce(t *testing.T) {
	h := &Hasher{MaxWaiting: -1}
	c := h.call()
	_, err := compute(background, c, nil, new([saltSize]byte), 16, plain)
	require.NoError(t, err)
	require.True(t, c.begun)

	occupy(t, 2*maxConcurrency())
	ctx, cancel := context.WithTimeout(background, 10*time.Second)
	defer cancel()
	_, err = compute(ctx, h.call(), nil, new([saltSize]byte), 1<<20, plain)
	require.Equal(t, ErrBusy, err)
	ctx, cancel = context.WithTimeout(background, 10*time.Millisecond)
	defer cancel()
	_, err = compute(ctx, c, nil, new([saltSize]byte), 1<<20, plain)
	require.Equal(t, context.DeadlineExceeded, err)
}

// A Hasher whose calls may not wait uses the lanes that are free.
func TestHasherNoneWait(t *testing.T) {
	h := &Hasher{Cost: 20, MaxWaiting: -1}
	ctx, cancel := context.WithCancel(background)
	var wg sync.WaitGroup
	for range maxConcurrency() {
		wg.Go(func() {
			if err := h.Verify(ctx, "", nil); err != context.Canceled {
				t.Error(err)
			}
		})
	}
	for deadline := time.Now().Add(20 * time.Second); h.Stats().Running != maxConcurrency() && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	require.Equal(t, Stats{Running: maxConcurrency()}, h.Stats())
	require.Equal(t, ErrBusy, h.Verify(ctx, "", nil))
	cancel()
	wg.Wait()
	require.Equal(t, Stats{Refused: 1, Cancelled: uint64(maxConcurrency())}, h.Stats())
	requireIdle(t, &cores)
}

func TestHasherStats(t *testing.T) {
	h := &Hasher{Cost: 4}
	hash, err := h.Hash(background, nil)
	require.NoError(t, err)
	require.NoError(t, h.Verify(background, hash, nil))
	require.Error(t, h.Verify(background, hash, []byte("x")))
	require.Error(t, h.Verify(background, "", nil))
	require.Error(t, h.Verify(background, "x", nil))
	require.Error(t, h.Verify(background, sample, nil))
	require.Equal(t, context.Canceled, h.Verify(cancelledContext(), hash, nil))
	require.Equal(t, ErrPasswordTooLong, h.Verify(background, hash, make([]byte, 73)))
	require.Equal(t, Stats{Done: 6, Cancelled: 1, AboveCost: 1}, h.Stats())
}

// A hash above Cost counts as such if it was begun, and not if the call was refused or
// cancelled before.
func TestHasherAboveCost(t *testing.T) {
	above := strings.Replace(sample, "05", "16", 1)
	h := &Hasher{Cost: 4, MaxWaiting: -1}
	require.Equal(t, context.Canceled, h.Verify(cancelledContext(), above, nil))
	require.Equal(t, Stats{Cancelled: 1}, h.Stats())

	ctx, cancel := context.WithTimeout(background, 20*time.Millisecond)
	defer cancel()
	require.Equal(t, context.DeadlineExceeded, h.Verify(ctx, above, nil))
	require.Equal(t, Stats{Cancelled: 2, AboveCost: 1}, h.Stats())

	occupy(t, maxConcurrency())
	require.Equal(t, ErrBusy, h.Verify(background, above, nil))
	require.Equal(t, Stats{Refused: 1, Cancelled: 2, AboveCost: 1}, h.Stats())
}

// Cancelled calls return soon and leave nothing in the scheduler, with four a core at a cost
// that takes seconds. The time is only printed, because the system decides who runs when.
func TestHasherCancel(t *testing.T) {
	h := &Hasher{Cost: 16}
	goroutines := runtime.NumGoroutine()
	var late []time.Duration
	for range 5 {
		var wg sync.WaitGroup
		var lock sync.Mutex
		deadline := time.Now().Add(50 * time.Millisecond)
		ctx, cancel := context.WithDeadline(background, deadline)
		for range 4 * runtime.GOMAXPROCS(0) {
			wg.Go(func() {
				err := h.Verify(ctx, "", nil)
				now := time.Now()
				lock.Lock()
				defer lock.Unlock()
				late = append(late, now.Sub(deadline))
				if err != context.DeadlineExceeded {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		cancel()
	}
	slices.Sort(late)
	t.Logf("returned %v after the end of the context at the median, %v at the most", late[len(late)/2], late[len(late)-1])
	requireIdle(t, &cores)
	require.Zero(t, h.Stats().Running+h.Stats().Waiting)
	for deadline := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > goroutines && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	require.LessOrEqual(t, runtime.NumGoroutine(), goroutines)
}

// With BCRYPT_TIMING set, the time of a refusal does not tell what is stored. Each is measured
// in turns with a wrong password for a known user; the ratio of the medians is near 1.
func TestHasherTiming(t *testing.T) {
	if os.Getenv("BCRYPT_TIMING") == "" {
		t.Skip("set BCRYPT_TIMING=1 on a quiet machine")
	}
	known := func(cost int, version Version) string {
		hash, err := HashWithSalt([]byte("right"), cost, version, [16]byte{1})
		require.NoError(t, err)
		return hash
	}
	for cost := 4; cost <= 10; cost++ {
		h := &Hasher{Cost: cost}
		cases := map[string]string{
			"no such user": "", "malformed": "x" + sample, "2a": known(cost, Version2a), "argon2id": "$argon2id$v=19$m=65536,t=3,p=4$c29t$RdescudvJCs",
			"wrapped": "{CRYPT}" + known(cost, Version2b), "padded": known(cost, Version2b) + "    ",
			"Django's": "bcrypt_sha256$" + known(cost, Version2b), "WordPress's": "$wp" + known(cost, Version2y),
		}
		if cost > 4 {
			cases["one lower"] = known(cost-1, Version2b)
			cases["lowest"] = known(4, Version2b)
		}
		for _, password := range []string{"wrong", "\xff\xff\xa3"} {
			reference := known(cost, Version2b)
			for name, hash := range cases {
				ratio := 0.0
				for try := 0; try < 3 && (ratio < 0.95 || ratio > 1.05); try++ { // machines have hiccups
					var with, without []time.Duration
					for range max(11, 1<<(10-cost)) {
						start := time.Now()
						h.Verify(background, hash, []byte(password))
						with = append(with, time.Since(start))
						start = time.Now()
						h.Verify(background, reference, []byte(password))
						without = append(without, time.Since(start))
					}
					ratio = float64(median(with)) / float64(median(without))
				}
				t.Logf("cost %d, password %q, %s: %.3f", cost, password, name, ratio)
				require.InDelta(t, 1, ratio, 0.05)
			}
		}
	}
}

// With BCRYPT_TIMING set, this computes Welch's t of two kinds of calls in random turns, as
// dudect does (Reparaz, Balasch and Verbauwhede, Dude, is my code constant time?, 2017). There
// a |t| above 10 is a difference. The digest is compared in constant time, and the decoy for
// an unknown user is as slow as a wrong password.
func TestConstantTime(t *testing.T) {
	if os.Getenv("BCRYPT_TIMING") == "" {
		t.Skip("set BCRYPT_TIMING=1 on a quiet machine")
	}
	right := record{version: Version2b} // of cost 0: one iteration
	var err error
	right.digest, err = right.compute(background, nil, []byte("password"))
	require.NoError(t, err)
	other := func(at int) *record {
		wrong := right
		wrong.digest[at] ^= 1
		return &wrong
	}
	verifyRecord := func(r *record) func() {
		return func() { r.verify(background, nil, []byte("password"), 0) }
	}
	h := &Hasher{Cost: MinCost}
	known, err := HashWithSalt([]byte("right"), MinCost, Version2b, [16]byte{1})
	require.NoError(t, err)
	verify := func(hash string) func() {
		return func() { h.Verify(background, hash, []byte("wrong")) }
	}
	for _, c := range []struct {
		name string
		n    int
		a, b func()
	}{
		{"first byte of the digest or last", 40_000, verifyRecord(other(0)), verifyRecord(other(digestSize - 1))},
		{"digest right or wrong", 40_000, verifyRecord(&right), verifyRecord(other(0))},
		{"user who does not exist or wrong password", 8_000, verify(""), verify(known)},
	} {
		score := welch(c.n, c.a, c.b)
		t.Logf("%s: t = %.1f", c.name, score)
		require.Less(t, math.Abs(score), 10.0, c.name)
	}

	// The method sees a difference of one part in fifty.
	score := welch(8_000, verify(known), func() {
		verify(known)()
		for end := time.Now().Add(20 * time.Microsecond); time.Now().Before(end); {
		}
	})
	t.Logf("20 µs more: t = %.1f", score)
	require.Greater(t, score, 10.0)
}

// welch runs a and b about n times each in random turns. It returns by how many standard
// errors the mean time of b is above that of a. The slowest tenth of all calls is left out,
// because the system interrupted those.
func welch(n int, a, b func()) float64 {
	var times [2][]float64
	var all []float64
	for range 2 * n {
		kind := rand.IntN(2)
		start := time.Now()
		[]func(){a, b}[kind]()
		took := float64(time.Since(start))
		times[kind], all = append(times[kind], took), append(all, took)
	}
	slices.Sort(all)
	limit := all[len(all)*9/10]
	var mean, squares [2]float64 // squares of standard errors
	for kind := range times {
		kept := slices.DeleteFunc(times[kind], func(x float64) bool { return x > limit })
		for _, x := range kept {
			mean[kind] += x / float64(len(kept))
		}
		for _, x := range kept {
			squares[kind] += (x - mean[kind]) * (x - mean[kind]) / float64(len(kept)) / float64(len(kept)-1)
		}
	}
	return (mean[1] - mean[0]) / math.Sqrt(squares[0]+squares[1])
}
