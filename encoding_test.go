package bcrypt

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// sample is the hash that most tests here change: "U*U" at cost 5, from crypt_blowfish.
const sample = "$2b$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"

func strictly(hash string) error {
	_, _, err := parse([]byte(hash), true)
	return err
}

// A hash has one spelling. Of all texts that differ from a hash in one byte, the strict reader
// accepts only those that are other hashes.
func TestParseEveryByteEverywhere(t *testing.T) {
	want := func(at int) string {
		switch {
		case at == 0 || at == 3 || at == 6:
			return "$"
		case at == 1:
			return "2"
		case at == 2:
			return "abxy"
		case at == 4:
			return "012" // 05, 15, 25
		case at == 5:
			return "456789" // 04 to 09
		case at == 28: // four bits of the salt's 22nd character are spare
			return ".Oeu"
		case at == 59: // and two of the digest's 31st
			return ".CGKOSWaeimquy26"
		default:
			return "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
		}
	}
	for at := range len(sample) {
		for b := range 256 {
			hash := []byte(sample)
			hash[at] = byte(b)
			h, digestOK, err := parse(hash, true)
			if !strings.Contains(want(at), string(rune(b))) {
				require.Error(t, err, "%q", hash)
				continue
			}
			require.NoError(t, err, "%q", hash)
			require.True(t, digestOK)
			require.Equal(t, string(hash), string(h.appendTo(nil)))
		}
	}
}

// Of the 65,536 pairs of bytes, 28 are costs.
func TestParseEveryCost(t *testing.T) {
	costs := 0
	for hi := range 256 {
		for lo := range 256 {
			hash := []byte(sample)
			hash[4], hash[5] = byte(hi), byte(lo)
			cost, err := Cost(hash)
			if err == nil {
				costs++
				require.Equal(t, fmt.Sprintf("%02d", cost), string(hash[4:6]))
			}
			_, _, strictErr := parse(hash, true)
			require.Equal(t, err, strictErr)
		}
	}
	require.Equal(t, 28, costs)
}

// No part of a hash is a hash, and nothing may follow one. The drop-in functions ignore bytes
// after a hash, and report a hash without its last character as a mismatch.
func TestParseLengths(t *testing.T) {
	for n := range len(sample) {
		err := strictly(sample[:n])
		require.Error(t, err, "%d bytes", n)
		if n < 59 {
			require.Equal(t, ErrHashTooShort, err)
			require.Equal(t, ErrHashTooShort, CompareHashAndPassword([]byte(sample[:n]), []byte("U*U")))
		}
	}
	require.Equal(t, ErrMismatchedHashAndPassword, CompareHashAndPassword([]byte(sample[:59]), []byte("U*U")))
	for _, tail := range []string{"\n", " ", "\r\n", "\x00", "x", "extra", ":0:0:x", sample, strings.Repeat("x", 1024)} {
		require.Equal(t, &MalformedHashError{Offset: 60, Want: "the end of the hash"}, strictly(sample+tail))
		require.NoError(t, CompareHashAndPassword([]byte(sample+tail), []byte("U*U")))
	}

	version2 := "$2" + sample[3:]
	require.NoError(t, strictly(version2))
	require.Error(t, strictly(version2[:58]))
	require.Equal(t, &MalformedHashError{Offset: 59, Want: "the end of the hash"}, strictly(version2+"x"))
}

// A character of more than one byte panicked rust-bcrypt at field boundaries
// (RUSTSEC-2026-0199). Here it is refused at every position.
func TestParseMultibyte(t *testing.T) {
	for at := range 59 {
		hash := sample[:at] + "£" + sample[at+2:]
		require.Len(t, hash, 60)
		require.Error(t, strictly(hash))
		require.Error(t, CompareHashAndPassword([]byte(hash), []byte("U*U")))
	}
}

// Errors say where a hash is wrong and what belongs there.
func TestMalformedHashError(t *testing.T) {
	for _, c := range []struct {
		from, to string
		offset   int
		want     string
	}{
		{"$2b", "$1b", 1, `version "2"`},
		{"$2b", "$ b", 1, `version "2"`},
		{"$2b", "$2c", 2, `"$" or one of the version letters a, b, x and y`},
		{"$2b$", "$2bX", 3, `"$"`},
		{"$05$", "$+5$", 4, "a digit of the cost"},
		{"$05$", "$5x$", 5, "a digit of the cost"},
		{"$05$", "$05x", 6, `"$"`},
		{"$05$CCCC", "$05$CC\nC", 9, "a character of the salt"},
		{"C.E5", "C!E5", 28, "a character of the salt"},
		{"C.E5", "C/E5", 28, "a character of the salt"}, // spare bits
		{".E5YP", ".E5=P", 31, "a character of the digest"},
		{"OeW", "OeX", 59, "a character of the digest"}, // spare bits
	} {
		hash := strings.Replace(sample, c.from, c.to, 1)
		require.Len(t, hash, len(sample))
		err := strictly(hash)
		require.Equal(t, &MalformedHashError{Offset: c.offset, Want: c.want}, err, "%q", hash)
		require.EqualError(t, err, fmt.Sprintf("bcrypt: malformed hash: want %s at offset %d", c.want, c.offset))
	}
	version2 := "$2$05$CCCCCCCCCCCCCCCCCCCC!.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"
	require.Equal(t, &MalformedHashError{Offset: 26, Want: "a character of the salt"}, strictly(version2))
}

// checkError fails unless err is one of this package's, worded from its own constants
// and at most one byte of the hash, which x/crypto's two errors of the prefix quote.
func checkError(t *testing.T, err error) {
	t.Helper()
	var malformed *MalformedHashError
	var cost InvalidCostError
	var prefix InvalidHashPrefixError
	var version HashVersionTooNewError
	switch {
	case err == nil, err == ErrHashTooShort, err == ErrMismatchedHashAndPassword:
	case errors.As(err, &malformed):
		require.Contains(t, []string{
			`version "2"`, `"$" or one of the version letters a, b, x and y`, `"$"`, "a digit of the cost",
			"a character of the salt", "a character of the digest", "the end of the hash",
		}, malformed.Want)
		require.LessOrEqual(t, malformed.Offset, hashLen)
	case errors.As(err, &cost), errors.As(err, &prefix), errors.As(err, &version):
	default:
		t.Fatalf("an error from elsewhere: %T", err)
	}
}

// FuzzParse checks that reader and writer are inverses, so no two texts are one hash. The strict
// reader accepts nothing that the drop-in one refuses.
func FuzzParse(f *testing.F) {
	f.Add([]byte(sample))
	f.Add([]byte("$2$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"))
	f.Add([]byte("$2x$31$/OK.fbVrR/bpIqNJ5ianF.CE5elHaaO4EbggVDjb8P19RukzXSM3e\n"))
	f.Add([]byte("$2a$+5$CCCC\nCCCC\nCCCC\nCCCC\nC.0F6VaPDR/WXHJ1pWdz3.WjW.0sPlWuG"))
	f.Fuzz(func(t *testing.T, text []byte) {
		before := bytes.Clone(text)
		h, digestOK, err := parse(text, true)
		checkError(t, err)
		lenient, lenientOK, lenientErr := parse(text, false)
		checkError(t, lenientErr)
		if err == nil {
			require.True(t, digestOK && lenientOK)
			require.NoError(t, lenientErr)
			require.Equal(t, h, lenient)
			require.Equal(t, string(text), string(h.appendTo(nil)))
		}
		cost, costErr := Cost(text)
		checkError(t, costErr)
		if lenientErr == nil {
			require.NoError(t, costErr)
			require.Equal(t, lenient.cost, cost)
		}
		require.Equal(t, before, text)
	})
}
