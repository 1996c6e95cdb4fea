package bcrypt

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// These are the vectors of testdata, whose README names their sources. They are JSON, to be read
// by eye. Passwords and hashes that are not text are hexadecimal.

type vector struct {
	Source       string
	ID           string
	Password     hexBytes `json:"password_hex"`
	Hash         string
	HashHex      hexBytes `json:"hash_hex"` // Hash to the byte, where there is one
	Kind         string
	Semantics    string
	StrictExpect string `json:"strict_expect"`
	Match        bool
	Note         string
	Observed     map[string]string // what other implementations said
}

type blowfishVector struct {
	Source, Note, Kind string
	Key                hexBytes `json:"key_hex"`
	Salt               hexBytes `json:"salt_hex"`
	Plain              hexBytes `json:"plain_hex"`
	Cipher             hexBytes `json:"cipher_hex"`
	Dup                bool
}

type hexBytes []byte

func (h *hexBytes) UnmarshalText(text []byte) (err error) {
	*h, err = hex.DecodeString(string(text))
	return err
}

// readVectors reads one JSON object a line. It fails on a field that V does not have, so that
// none is overlooked, and on a count other than want.
func readVectors[V any](t *testing.T, name string, want int) []V {
	t.Helper()
	f, err := os.Open("testdata/" + name)
	require.NoError(t, err)
	defer f.Close()
	var vectors []V
	for lines := bufio.NewScanner(f); lines.Scan(); {
		dec := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		dec.DisallowUnknownFields()
		var v V
		require.NoError(t, dec.Decode(&v), "%s line %d", name, len(vectors)+1)
		vectors = append(vectors, v)
	}
	require.Len(t, vectors, want, name)
	return vectors
}

// costLimit is the highest cost in tests of many hashes: the highest in the vectors, or 6 with
// -short, for slow or emulated machines and the race detector.
func costLimit() int {
	if testing.Short() {
		return 6
	}
	return MaxCost
}

// Every pair of 29 public sources verifies, whichever library wrote it, and its hash
// is in the canonical spelling.
func TestKnownAnswers(t *testing.T) {
	for i, v := range readVectors[vector](t, "kat.jsonl", 1683) {
		t.Run(fmt.Sprintf("%d,%s", i+1, v.Source), func(t *testing.T) {
			t.Parallel()
			h, digestOK, err := parse([]byte(v.Hash), true)
			require.NoError(t, err)
			require.True(t, digestOK)
			require.Equal(t, v.Hash, string(h.appendTo(nil)))
			if h.cost > costLimit() {
				return
			}

			require.NoError(t, CompareHashAndPassword([]byte(v.Hash), v.Password))

			if h.cost <= 5 && h.version != Version2x && len(v.Password) > 0 {
				wrong := bytes.Clone(v.Password)
				wrong[0] ^= 1
				require.ErrorIs(t, CompareHashAndPassword([]byte(v.Hash), wrong), ErrMismatchedHashAndPassword)
			}
		})
	}
}

const (
	match    = "match"
	mismatch = "mismatch"
	noHash   = "no hash" // not a hash
)

// decided lists the hashes for which this package differs from the record, and why. The strict
// reader is Hasher's.
var decided = map[string]struct{ dropIn, strict string }{
	// Bytes after the hash, such as padding and newlines, which x/crypto accepts.
	"$2b$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW\n":                                                           {match, noHash},
	"$2b$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW\r\n":                                                         {match, noHash},
	"$2b$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW\u0000":                                                       {match, noHash},
	"$2b$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW:0:0:x":                                                       {match, noHash},
	"$2b$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW$2b$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW": {match, noHash},
	"$2a$06$If6bvum7DFjUnE9p2uDeDu0YHzrHM6tf.iqN8.yx.jNN1ILEf7h0i9":                                                            {match, noHash},

	// Spare bits of the salt, which x/crypto accepts. passlib wrote them before 1.5.3.
	"$2b$05$CCCCCCCCCCCCCCCCCCCCC/E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW": {match, noHash},
	"$2b$05$CCCCCCCCCCCCCCCCCCCCCME5YPO9kmyuRGyh0XouQYb4YMJKvyOeW": {match, noHash},
	"$2a$04$oaQbBqq8JnSM1NHRPQGXORY4Vw3bdHKLIXTecPDRAcJ98cz1ilveO": {match, noHash},
	"$2a$04$yjDgE74RJkeqC0/1NheSScrvKeu9IbKDpcQf/Ox3qsrRS/Kw42qIS": {match, noHash},

	// Only the spelling of the digest's last character is wrong, because the record folded
	// its case.
	"$2b$05$ccccccccccccccccccccc.e5ypo9kmyurgyh0xouqyb4ymjkvyoew": {mismatch, noHash},

	// The readers of hashes use 72 bytes of a password. Refusing longer ones is a policy,
	// which is applied before them.
	"$2b$05$CCCCCCCCCCCCCCCCCCCCC.D7RDOYXakZhsFmh/LdqQNx0kQ424AFS": {match, match},

	// Version 2 is well formed, and read as OpenBSD meant it in 1997, without the NUL.
	// Newer parsers refuse it; Bouncy Castle reads it with the NUL, so all but the hash
	// of a password of 72 bytes and more differ.
	"$2$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW": {mismatch, mismatch},
	"$2$06$If6bvum7DFjUnE9p2uDeDu0YHzrHM6tf.iqN8.yx.jNN1ILEf7h0i": {mismatch, mismatch},
	"$2$12$DB3BUbYa/SsEL7kCOVji0OauTkPkB5Y1OeyfxJHM7jvMrbml5sgD2": {mismatch, mismatch},
	"$2$12$p.xODEbFcXUlHGbNxWZqAe6AA5FWupqXmN9tZea2ACDhwIx4EA2a6": {mismatch, mismatch},

	// passlib does not know 2x.
	"$2x$12$EXRkfkdmXnagzds2SSitu.MW9.gAVqa9eLS1//RYtYCmB1eLHg.9q": {mismatch, mismatch},
}

// What others refuse, the drop-in functions and the strict reader refuse too, except what decided
// lists.
func TestRefusals(t *testing.T) {
	vectors := readVectors[vector](t, "other.jsonl", 151)
	vectors = append(vectors, readVectors[vector](t, "strictness.jsonl", 119)...)
	seen := map[string]bool{}
	for i, v := range vectors {
		seen[v.Hash] = true
		want, ok := decided[v.Hash]
		// A few passwords beside the one that a hash is decided for are ordinary.
		if !ok || v.ID != "pw-73" && v.Hash == "$2b$05$CCCCCCCCCCCCCCCCCCCCC.D7RDOYXakZhsFmh/LdqQNx0kQ424AFS" {
			verdict := map[string]string{
				"wrong-password": mismatch, "malformed": noHash, "malformed-setting": noHash,
				"noncanonical": noHash, "nonstandard": match,
				"strictness match": match, "strictness nomatch": mismatch, "strictness reject": noHash,
			}[strings.TrimSpace(v.Kind+" "+v.StrictExpect)]
			require.NotEmpty(t, verdict, "record %d", i)
			want.dropIn, want.strict = verdict, verdict
		}
		t.Run(fmt.Sprintf("%d,%s%s", i+1, v.Kind, v.ID), func(t *testing.T) {
			t.Parallel()
			hash := latin1(v.Hash)
			if v.HashHex != nil {
				require.Equal(t, []byte(v.HashHex), hash)
			}
			if cost, err := Cost(hash); err == nil && cost > costLimit() {
				return
			}

			strict := noHash
			h, _, strictErr := parse(hash, true)
			if strictErr == nil {
				strict = mismatch
				ok, err := h.verify(context.Background(), nil, v.Password, 0)
				require.NoError(t, err)
				if ok {
					strict = match
				}
			}
			require.Equal(t, want.strict, strict)

			dropIn := noHash
			switch err := CompareHashAndPassword(hash, v.Password); err {
			case nil:
				dropIn = match
			case ErrMismatchedHashAndPassword:
				dropIn = mismatch
			}
			var malformed *MalformedHashError
			if dropIn == mismatch && errors.As(strictErr, &malformed) && malformed.Offset >= hashLen-digestChars-1 {
				dropIn = want.dropIn // spare bits of the salt are ignored, a bad digest is a mismatch
			}
			require.Equal(t, want.dropIn, dropIn)
		})
	}
	for hash := range decided {
		require.True(t, seen[hash], "no record has %s", hash)
	}
}

// latin1 returns the bytes of a text in which each character stands for one.
func latin1(text string) []byte {
	var b []byte
	for _, r := range text {
		b = append(b, byte(r))
	}
	return b
}

// The core makes the keys and blocks of Blowfish's own vectors, and the salted key
// expansion that bcrypt adds.
func TestBlowfish(t *testing.T) {
	for i, v := range readVectors[blowfishVector](t, "blowfish.jsonl", 146) {
		t.Run(fmt.Sprintf("%d,%s", i+1, v.Kind), func(t *testing.T) {
			n := lane{state: initialState}
			var key, salt [18]uint32
			for w := range key {
				key[w] = keyWord(v.Key, unterminated, w)
			}
			plain := v.Plain
			if v.Kind == "salted-expand" {
				plain = make([]byte, 8)
			}
			switch {
			case len(v.Salt) == 0:
				n.expandKey(&key)
			case saltSize%len(v.Salt) == 0:
				for w := range salt {
					salt[w] = keyWord(v.Salt, unterminated, w)
				}
				n.mix(&key)
				n.expandSalt(&salt)
			default:
				n.mix(&key)
				expandAnySalt(&n.state, v.Salt)
			}

			var got []byte
			for ; len(plain) > 0; plain = plain[8:] {
				var block [2]uint32
				n.encipher(block[:], binary.BigEndian.Uint32(plain), binary.BigEndian.Uint32(plain[4:]))
				got = binary.BigEndian.AppendUint32(got, block[0])
				got = binary.BigEndian.AppendUint32(got, block[1])
			}
			require.Equal(t, v.Cipher, hexBytes(got))
		})
	}
}

// expandAnySalt is expandSalt for salts of any length. bcrypt's have 16 bytes, but some vectors
// have other lengths.
func expandAnySalt(s *state, salt []byte) {
	var l, r uint32
	word := 0
	next := func() uint32 {
		var b [4]byte
		for i := range b {
			b[i] = salt[(4*word+i)%len(salt)]
		}
		word++
		return binary.BigEndian.Uint32(b[:])
	}
	for i := 0; i < len(s); i += 2 {
		l ^= next()
		r ^= next()
		l, r = s.encipher(s[i:i+2], l, r)
	}
}
