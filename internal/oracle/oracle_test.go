package oracle

import (
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"example.com/bcrypt"
	"github.com/stretchr/testify/require"
	xbcrypt "golang.org/x/crypto/bcrypt"
	//lint:ignore SA1019 it is deprecated as a cipher, not as a second opinion on one
	"golang.org/x/crypto/blowfish"
)

// randomPasswords yields n passwords of 0 to 72 bytes: bytes of all values, text, and
// bytes from the edges where signs, terminators and the two readings of 2a matter.
func randomPasswords(n int) func(yield func(int, []byte) bool) {
	random := rand.New(rand.NewChaCha8([32]byte{}))
	alphabets := []string{"", "abcdefghijklmnopqrstuvwxyz0123456789", "\x00\x01\x7f\x80\xa3\xfe\xff"}
	return func(yield func(int, []byte) bool) {
		for i := range n {
			password := make([]byte, random.IntN(73))
			alphabet := alphabets[random.IntN(len(alphabets))]
			for j := range password {
				if alphabet == "" {
					password[j] = byte(random.Uint32())
				} else {
					password[j] = alphabet[random.IntN(len(alphabet))]
				}
			}
			if !yield(i, password) {
				return
			}
		}
	}
}

// Each package verifies the hashes of the other, and neither accepts another password.
func TestBothWays(t *testing.T) {
	const n = 3000
	for i, password := range randomPasswords(n) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			ours, err := bcrypt.GenerateFromPassword(password, bcrypt.MinCost)
			require.NoError(t, err)
			require.NoError(t, xbcrypt.CompareHashAndPassword(ours, password), "%x", password)

			theirs, err := xbcrypt.GenerateFromPassword(password, xbcrypt.MinCost)
			require.NoError(t, err)
			require.NoError(t, bcrypt.CompareHashAndPassword(theirs, password), "%x", password)

			wrong := append([]byte{'x'}, password...)[:min(72, len(password)+1)]
			if string(wrong) != string(password) {
				require.Equal(t, bcrypt.ErrMismatchedHashAndPassword, bcrypt.CompareHashAndPassword(theirs, wrong))
				require.Equal(t, xbcrypt.ErrMismatchedHashAndPassword, xbcrypt.CompareHashAndPassword(ours, wrong))
			}
		})
	}
}

// pairs is how many hashes TestPairs compares, and TestLibxcrypt in each version.
// docs/testing.md has longer runs.
var pairs = flag.Int("pairs", 2000, "hashes to compare in TestPairs and TestLibxcrypt")

// inParallel calls f with random passwords and salts on all processors.
func inParallel(n int, f func(password []byte, salt [16]byte)) {
	var wg sync.WaitGroup
	work := make(chan []byte)
	for worker := range 8 * runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			salts := rand.NewChaCha8([32]byte{byte(worker), byte(worker >> 8), 2})
			for password := range work {
				var salt [16]byte
				salts.Read(salt[:])
				f(password, salt)
			}
		})
	}
	for _, password := range randomPasswords(n) {
		work <- password
	}
	close(work)
	wg.Wait()
}

// x/crypto verifies each hash that this package makes.
func TestPairs(t *testing.T) {
	inParallel(*pairs, func(password []byte, salt [16]byte) {
		hash, err := bcrypt.HashWithSalt(password, bcrypt.MinCost, bcrypt.Version2a, salt)
		if err != nil || xbcrypt.CompareHashAndPassword([]byte(hash), password) != nil {
			t.Errorf("%x, %x: %s, %v", password, salt, hash, err)
		}
	})
}

// The core makes the digest that x/crypto/blowfish makes of the same key and salt, also
// for the keys that versions 2x and 2 make of a password and x/crypto/bcrypt does not.
func TestBlowfish(t *testing.T) {
	encoding := base64.NewEncoding("./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789").WithPadding(base64.NoPadding)
	random := rand.NewChaCha8([32]byte{1})
	for _, password := range randomPasswords(300) {
		for version, key := range map[string][]byte{
			"2b": append(password[:len(password):len(password)], 0),
			"2x": signExtended(append(password[:len(password):len(password)], 0)),
			"2":  append([]byte{}, password...),
		} {
			if len(key) == 0 {
				continue // x/crypto/blowfish wants a key
			}
			salt := make([]byte, 16)
			random.Read(salt)

			c, err := blowfish.NewSaltedCipher(key, salt)
			require.NoError(t, err)
			for range 1 << 4 {
				blowfish.ExpandKey(key, c)
				blowfish.ExpandKey(salt, c)
			}
			text := []byte("OrpheanBeholderScryDoubt")
			for i := 0; i < len(text); i += 8 {
				for range 64 {
					c.Encrypt(text[i:], text[i:])
				}
			}

			hash := fmt.Sprintf("$%s$04$%s%s", version, encoding.EncodeToString(salt), encoding.EncodeToString(text[:23]))
			require.NoError(t, bcrypt.CompareHashAndPassword([]byte(hash), password), "%s %x", hash, password)
		}
	}
}

// signExtended returns the 72 bytes of key that crypt_blowfish before 1.1 made of a
// terminated password: in each word, a byte of 0x80 or more sets those before it.
func signExtended(terminated []byte) []byte {
	key := make([]byte, 72)
	for i := range key {
		key[i] = terminated[i%len(terminated)]
		if key[i] >= 0x80 {
			for j := i &^ 3; j < i; j++ {
				key[j] = 0xff
			}
		}
	}
	return key
}

// The error of a call is x/crypto's, to the letter, for any two arguments.
func TestSameErrors(t *testing.T) {
	const valid = "$2a$04$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"
	for _, hash := range []string{
		"", "$", "*0", "$2a$04$", valid[:58], valid[:59], valid, valid + "\n", " " + valid,
		"%3a$99" + valid[6:], "$3a$99" + valid[6:], "$2a$03" + valid[6:], "$2a$32" + valid[6:], "$2a$99" + valid[6:],
		valid[:28] + "/" + valid[29:], valid[:40] + "!" + valid[41:], valid[:59] + "X",
	} {
		for _, password := range []string{"", "U*U", string(make([]byte, 73))} {
			ours := bcrypt.CompareHashAndPassword([]byte(hash), []byte(password))
			theirs := xbcrypt.CompareHashAndPassword([]byte(hash), []byte(password))
			require.Equal(t, fmt.Sprint(theirs), fmt.Sprint(ours), "%q", hash)
		}
		ourCost, ours := bcrypt.Cost([]byte(hash))
		theirCost, theirs := xbcrypt.Cost([]byte(hash))
		require.Equal(t, fmt.Sprint(theirs), fmt.Sprint(ours), "%q", hash)
		require.Equal(t, theirCost, ourCost, "%q", hash)
	}
	for _, cost := range []int{32, 99, 1 << 30} {
		for _, length := range []int{0, 72, 73} {
			_, ours := bcrypt.GenerateFromPassword(make([]byte, length), cost)
			_, theirs := xbcrypt.GenerateFromPassword(make([]byte, length), cost)
			require.Equal(t, theirs.Error(), ours.Error())
		}
	}
}

// mayDiffer says why Compare may differ from x/crypto for a hash and a password, or returns "" if
// it may not. It is the whole list.
func mayDiffer(hash, password []byte, ours error) string {
	var malformed *bcrypt.MalformedHashError
	if errors.As(ours, &malformed) {
		return "x/crypto accepts what no bcrypt wrote, or leaks an error of strconv or encoding/base64"
	}
	if len(hash) < 59 {
		return ""
	}
	switch {
	case hash[2] == '$':
		return "version 2 has no NUL in the key"
	case hash[2] == 'x':
		return "version 2x has the sign extension bug"
	case hash[2] == 'a' && ambiguous(password):
		return "crypt_blowfish's other 2a digest is accepted"
	}
	return ""
}

// ambiguous reports whether crypt_blowfish gives a password another 2a digest: its
// sign-extended key is its key, although a byte of 0x80 or more has bytes before it.
func ambiguous(password []byte) bool {
	terminated := append(password[:len(password):len(password)], 0)
	key := signExtended(terminated)
	high := false
	for i := range key {
		if key[i] != terminated[i%len(terminated)] {
			return false
		}
		high = high || i%4 > 0 && key[i] >= 0x80
	}
	return high
}

// FuzzCompare holds Compare and Cost to x/crypto's, but for what mayDiffer lists.
func FuzzCompare(f *testing.F) {
	for _, hash := range []string{
		"$2a$04$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW",
		"$2b$04$abcdefghijklmnopqrstuuUIzecIiCguM2sPh1F7L9IS3zOtmg5Im\n",
		"$2$04$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW",
		"$2a$+4$CCCC\nCCCC\nCCCC\nCCCC\nC.0F6VaPDR/WXHJ1pWdz3.WjW.0sPlWuG",
		"$3a$04$%", "$2a$-4$", "",
	} {
		f.Add([]byte(hash), []byte("\xff\xa3345"))
		f.Add([]byte(hash), []byte("U*U"))
	}
	f.Fuzz(func(t *testing.T, hash, password []byte) {
		if cost, err := xbcrypt.Cost(hash); err == nil && cost > 5 {
			return
		}
		if cost, err := bcrypt.Cost(hash); err == nil && cost > 5 {
			t.Fatalf("a cost of %d that x/crypto does not see", cost)
		}
		ours := bcrypt.CompareHashAndPassword(hash, password)
		theirs := xbcrypt.CompareHashAndPassword(hash, password)
		if fmt.Sprint(ours) != fmt.Sprint(theirs) && mayDiffer(hash, password, ours) == "" {
			t.Errorf("Compare(%q, %q) = %v, x/crypto: %v", hash, password, ours, theirs)
		}
	})
}
