package bcrypt

import (
	"bytes"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Which passwords have two readings: bytes 0xFF in front of one of 0x80 or more hide
// that it was sign-extended, in every word alike.
func TestAmbiguous(t *testing.T) {
	for _, c := range []struct {
		password string
		want     bool
	}{
		{"\xff\xff\xa3", true},
		{"\xff\xa334\xff\xff\xff\xa3345", true}, // crypt_blowfish's test, repeated in words that all agree
		{"\xff\xff\xff\xa33\x01@", true},
		{"", false},
		{"U*U", false},
		{"\xa3", false},        // sign-extended, it changes a later word
		{"\xff\xa3345", false}, // and here the bytes before it in one
		{"pass\xff\xff", false},
	} {
		require.Equal(t, c.want, ambiguous([]byte(c.password)), "%q", c.password)
	}
}

// The count of iterations is right, and positive, for every cost where int has 32 bits.
// jBCrypt (CVE-2015-0886), Spring (CVE-2022-22976) and bcrypt-ruby (CVE-2026-33306)
// counted in 32 bits and ran no iteration at cost 31.
func TestIterations(t *testing.T) {
	require.Equal(t, uint64(16), iterations(4))
	require.Equal(t, uint64(2147483648), iterations(31))
}

// A lane holds nothing when a hash is done.
func TestWipe(t *testing.T) {
	n := new(lane)
	n.setup([]byte("password"), &[saltSize]byte{1}, plain)
	n.iterate()
	n.wipe()
	require.Equal(t, lane{}, *n)
}

// A caller's slices are neither written, up to their capacity, nor read once a call has
// returned. golang.org/x/crypto/bcrypt wrote past the end of the password before May 2017
// (golang/go#20425).
func TestArgumentsUntouched(t *testing.T) {
	memory := []byte("passw0rd123456")
	password := memory[:8]
	hash := []byte("$2a$10$LK9XRuhNxHHCvjX3tdkRKei1QiCDUKrJRhZv7WWZPuQGRUM92rOUa....")
	require.NoError(t, CompareHashAndPassword(hash[:60], password))
	require.Equal(t, "passw0rd123456", string(memory))
	require.Equal(t, "$2a$10$LK9XRuhNxHHCvjX3tdkRKei1QiCDUKrJRhZv7WWZPuQGRUM92rOUa....", string(hash))

	made, err := GenerateFromPassword(password, 4)
	require.NoError(t, err)
	require.Equal(t, "passw0rd123456", string(memory))
	kept := bytes.Clone(made)
	clear(memory)
	clear(hash)
	runtime.GC()
	require.Equal(t, kept, made)
	require.NoError(t, CompareHashAndPassword(made, []byte("passw0rd")))
}

// Goroutines do not get into each other's hashes, as in py-bcrypt before 0.3
// (CVE-2013-1895), whose callers shared a buffer.
func TestConcurrent(t *testing.T) {
	const goroutines = 64
	rounds := 20
	if testing.Short() {
		rounds = 2
	}
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := range rounds {
				password := []byte{byte(g), byte(i)}
				hash, err := GenerateFromPassword(password, MinCost)
				if err != nil {
					t.Error(err)
					return
				}
				if err := CompareHashAndPassword(hash, password); err != nil {
					t.Errorf("goroutine %d, round %d: %v", g, i, err)
				}
				if err := CompareHashAndPassword(hash, []byte{byte(g + 1), byte(i)}); err != ErrMismatchedHashAndPassword {
					t.Errorf("goroutine %d, round %d: another's password: %v", g, i, err)
				}
			}
		})
	}
	wg.Wait()
}
