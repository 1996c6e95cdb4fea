package bcrypt

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"math"
	"math/bits"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"
)

// Constants and errors have the types, values and messages of golang.org/x/crypto/bcrypt, so
// programs that compare or print them do not change.
func TestContract(t *testing.T) {
	var typed int = MinCost
	require.Equal(t, []int{4, 31, 10}, []int{typed, MaxCost, DefaultCost})
	for _, c := range []struct {
		err  error
		text string
	}{
		{ErrMismatchedHashAndPassword, "crypto/bcrypt: hashedPassword is not the hash of the given password"},
		{ErrHashTooShort, "crypto/bcrypt: hashedSecret too short to be a bcrypted password"},
		{ErrPasswordTooLong, "bcrypt: password length exceeds 72 bytes"},
		{HashVersionTooNewError('3'), "crypto/bcrypt: bcrypt algorithm version '3' requested is newer than current version '2'"},
		{InvalidHashPrefixError('%'), "crypto/bcrypt: bcrypt hashes must start with '$', but hashedSecret started with '%'"},
		{InvalidCostError(32), "crypto/bcrypt: cost 32 is outside allowed inclusive range 4..31"},
	} {
		require.EqualError(t, c.err, c.text)
	}
}

func TestGenerateFromPassword(t *testing.T) {
	long := bytes.Repeat([]byte("A"), 73)

	hash, err := GenerateFromPassword(long, 99)
	require.True(t, err == ErrPasswordTooLong, "the length comes first: %v", err)
	require.Nil(t, hash)
	hash, err = GenerateFromPassword(nil, 32)
	require.True(t, err == InvalidCostError(32), "%v", err)
	require.Nil(t, hash)

	for _, password := range [][]byte{nil, {}, {0}, []byte("a\x00b"), long[:71], long[:72]} {
		hash, err := GenerateFromPassword(password, MinCost)
		require.NoError(t, err)
		require.Len(t, hash, 60)
		require.Equal(t, "$2a$04$", string(hash[:7]))
		require.Contains(t, ".Oeu", string(hash[28]))
		require.NoError(t, strictly(string(hash)))
		require.NoError(t, CompareHashAndPassword(hash, password))
		require.Equal(t, ErrMismatchedHashAndPassword, CompareHashAndPassword(hash, append([]byte("x"), password[:len(password)/2]...)))
	}

	for _, cost := range []int{-7, 0, 3} {
		hash, err := GenerateFromPassword(nil, cost)
		require.NoError(t, err)
		require.Equal(t, "$2a$10$", string(hash[:7]), "cost %d", cost)
	}
}

// The order of checks is x/crypto's.
func TestCompareErrors(t *testing.T) {
	for _, c := range []struct {
		hash string
		err  error
	}{
		{"", ErrHashTooShort},
		{"%3a$99", ErrHashTooShort},
		{"%3a$99" + sample[6:], InvalidHashPrefixError('%')},
		{" " + sample, InvalidHashPrefixError(' ')},
		{"$3a$99" + sample[6:], HashVersionTooNewError('3')},
		{"$2b$32" + sample[6:], InvalidCostError(32)},
		{"$2b$00" + sample[6:], InvalidCostError(0)},
		{"$2b$03" + sample[6:28] + "!" + sample[29:], InvalidCostError(3)},
	} {
		err := CompareHashAndPassword([]byte(c.hash), []byte("U*U"))
		require.True(t, err == c.err, "%q: %v", c.hash, err)
		cost, err := Cost([]byte(c.hash))
		require.True(t, err == c.err, "%q: %v", c.hash, err)
		require.Zero(t, cost)
	}
	require.Error(t, CompareHashAndPassword(nil, nil))

	// Cost does not look at the salt.
	cost, err := Cost([]byte("$2b$31$!" + sample[8:]))
	require.NoError(t, err)
	require.Equal(t, 31, cost)
}

// A bad digest is a mismatch after the full work. Services use such hashes as decoys for
// unknown users, and an early error would reveal who is unknown.
func TestBadDigestTakesFullWork(t *testing.T) {
	for _, hash := range []string{
		sample[:59],
		sample[:59] + "X",
		sample[:40] + "_" + sample[41:],
		sample[:29] + strings.Repeat("\x00", 31),
		sample[:29] + "dummy_dummy_dummy_dummy_dummy_d",
	} {
		h, digestOK, err := parse([]byte(hash), false)
		require.NoError(t, err)
		require.False(t, digestOK, "%q", hash)
		require.Equal(t, 5, h.cost)
		require.Equal(t, ErrMismatchedHashAndPassword, CompareHashAndPassword([]byte(hash), []byte("U*U")))
	}
}

// Every bit of a digest is compared. Bouncy Castle (CVE-2020-28052) compared only a few
// positions.
func TestEveryDigestBit(t *testing.T) {
	h, _, err := parse([]byte(sample), true)
	require.NoError(t, err)
	for bit := range 8 * digestSize {
		flipped := h
		flipped.digest[bit/8] ^= 1 << (bit % 8)
		require.Equal(t, ErrMismatchedHashAndPassword, CompareHashAndPassword(flipped.appendTo(nil), []byte("U*U")), "bit %d", bit)
	}
}

// Every bit of the first 72 bytes of a password counts, and no bit after them does.
func TestEveryPasswordBit(t *testing.T) {
	password := bytes.Repeat([]byte("0123456789abcdef"), 5)[:72]
	hash, err := GenerateFromPassword(password, MinCost)
	require.NoError(t, err)
	for bit := range 8 * len(password) {
		wrong := bytes.Clone(password)
		wrong[bit/8] ^= 1 << (bit % 8)
		require.Equal(t, ErrMismatchedHashAndPassword, CompareHashAndPassword(hash, wrong), "bit %d", bit)
	}
	require.NoError(t, CompareHashAndPassword(hash, append(password, "anything"...)))
}

// Both readings of 2a are accepted, and only under 2a.
func TestAmbiguousPassword(t *testing.T) {
	const salt = "/OK.fbVrR/bpIqNJ5ianF."
	const openBSD = salt + "CE5elHaaO4EbggVDjb8P19RukzXSM3e"
	const cryptBlowfish = salt + "nqd1wy.pTMdcvrRWxyiGL2eMz.2a85."
	password := []byte("\xff\xff\xa3")
	for _, version := range []string{"2a", "2b", "2y", "2x"} {
		require.NoError(t, CompareHashAndPassword([]byte("$"+version+"$05$"+openBSD), password), version)
	}
	require.NoError(t, CompareHashAndPassword([]byte("$2a$05$"+cryptBlowfish), password))
	for _, version := range []string{"2b", "2y", "2x"} {
		require.Equal(t, ErrMismatchedHashAndPassword, CompareHashAndPassword([]byte("$"+version+"$05$"+cryptBlowfish), password), version)
	}
}

// A cost of 31 does not wrap around to no iterations: this is the digest after none.
func TestNoIterations(t *testing.T) {
	h, _, err := parse([]byte("$2a$31$CCCCCCCCCCCCCCCCCCCCC.tAQZUwjmPMowQX1bZVV05epNJt4uaLS"), true)
	require.NoError(t, err)
	var n lane
	n.setup([]byte("U*U"), &h.salt, plain)
	require.Equal(t, h.digest, n.digest())
	require.Equal(t, uint64(1)<<31, iterations(h.cost))
}

// withReader runs f with reader as the source of random bytes.
func withReader(r io.Reader, f func()) {
	old := rand.Reader
	rand.Reader = r
	defer func() { rand.Reader = old }()
	f()
}

// No salt, no hash.
func TestRandomSourceFails(t *testing.T) {
	broken := errors.New("no entropy")
	withReader(iotest.ErrReader(broken), func() {
		for _, cost := range []int{MinCost, MaxCost} { // either is allowed
			hash, err := GenerateFromPassword([]byte("password"), cost)
			require.True(t, err == broken)
			require.Nil(t, hash)
		}
	})
	withReader(strings.NewReader("fifteen bytes.."), func() {
		hash, err := GenerateFromPassword([]byte("password"), MinCost)
		require.Equal(t, io.ErrUnexpectedEOF, err)
		require.Nil(t, hash)
	})
	withReader(iotest.OneByteReader(bytes.NewReader(make([]byte, 16))), func() {
		hash, err := GenerateFromPassword([]byte("password"), MinCost)
		require.NoError(t, err)
		require.Equal(t, "$2a$04$......................", string(hash[:29]))
	})
}

// Salts are distinct. Half of their bits are set, within six standard deviations.
func TestSalts(t *testing.T) {
	n := 1000
	if testing.Short() {
		n = 100
	}
	seen := map[[saltSize]byte]bool{}
	ones := 0
	for range n {
		hash, err := GenerateFromPassword(nil, MinCost)
		require.NoError(t, err)
		h, _, err := parse(hash, true)
		require.NoError(t, err)
		require.False(t, seen[h.salt])
		seen[h.salt] = true
		for _, b := range h.salt {
			ones += bits.OnesCount8(b)
		}
	}
	total := float64(n * saltSize * 8)
	require.InDelta(t, total/2, ones, 6*math.Sqrt(total)/2)
}

// A build or machine that computes wrongly is noticed at the first call. No call then makes
// a hash or accepts a password.
func TestSelfTest(t *testing.T) {
	hash, err := GenerateFromPassword([]byte("password"), MinCost)
	require.NoError(t, err)

	saved := selfTest
	initialState[600] ^= 1 << 9
	selfTest = sync.OnceValue(checkKnownAnswers)
	defer func() {
		initialState[600] ^= 1 << 9
		selfTest = saved
		require.NoError(t, checkKnownAnswers())
	}()

	made, err := GenerateFromPassword([]byte("password"), MinCost)
	require.Equal(t, errSelfTest, err)
	require.Nil(t, made)
	require.Equal(t, errSelfTest, CompareHashAndPassword(hash, []byte("password")))
	require.Equal(t, errSelfTest, CompareHashAndPassword(hash, []byte("\xff\xff\xa3")))
	for _, cost := range []int{MinCost, MaxCost} {
		text, err := HashWithSalt([]byte("password"), cost, Version2b, [16]byte{})
		require.Equal(t, errSelfTest, err)
		require.Empty(t, text)
	}
	cost, err := Calibrate(1 << 40)
	require.Equal(t, errSelfTest, err)
	require.Zero(t, cost)
}

// The self-test checks each lane of each kernel.
func TestSelfTestOfKernels(t *testing.T) {
	sane := kernels
	defer func() { kernels = sane }()
	for width := 1; width <= maxLanes; width++ {
		for i := range width {
			kernels[width] = func(lanes *[maxLanes]lane) {
				sane[width](lanes)
				lanes[i].state[7] ^= 1
			}
			require.Equal(t, errSelfTest, checkKnownAnswers(), "kernel of width %d, lane %d", width, i)
		}
		kernels[width] = sane[width]
	}
	require.NoError(t, checkKnownAnswers())
}

// A context that ends during the second reading of a password ends the call.
func TestCancelBetweenReadings(t *testing.T) {
	require.NoError(t, selfTest())
	ctx, cancel := context.WithCancel(background)
	sane, done := kernels[1], 0
	defer func() { kernels[1] = sane }()
	kernels[1] = func(lanes *[maxLanes]lane) {
		if done++; done == 1<<5+1 {
			cancel()
			time.Sleep(10 * time.Millisecond) // for AfterFunc's goroutine, with 31 iterations remaining
		}
		sane(lanes)
		time.Sleep(time.Millisecond)
	}
	h := &Hasher{Cost: 5}
	err := h.Verify(ctx, "$2b$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW", []byte("\xff\xff\xa3"))
	require.Equal(t, context.Canceled, err)
	require.Less(t, done, 1<<6)
	require.EqualValues(t, 1, h.Stats().Cancelled)
}
