package bcrypt

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"
)

// This file is bcrypt-sha256, passlib's way to hash passwords of any length: bcrypt of a
// digest of the password, in base64 and so without a NUL. Version 2 keys the digest with
// the salt, so that a table of plain SHA-256 digests is of no use against it; version 1
// did not.
//
//	$bcrypt-sha256$v=2,t=2b,r=12$SSSSSSSSSSSSSSSSSSSSSS$DDDDDDDDDDDDDDDDDDDDDDDDDDDDDDD
//	$bcrypt-sha256$2b,12$SSSSSSSSSSSSSSSSSSSSSS$DDDDDDDDDDDDDDDDDDDDDDDDDDDDDDD

const (
	prehashPrefix = "$bcrypt-sha256$"
	prehashFields = "v=2,t=2b,r="
)

// prehashed returns what bcrypt is given in the place of password: 44 characters.
func (h *record) prehashed(password []byte) []byte {
	var sum [sha256.Size]byte
	if h.prehash == 1 {
		sum = sha256.Sum256(password)
	} else {
		mac := hmac.New(sha256.New, appendEncoded(nil, h.salt[:]))
		mac.Write(password)
		mac.Sum(sum[:0])
	}
	defer clear(sum[:])
	return base64.StdEncoding.AppendEncode(nil, sum[:])
}

// readHash reads a hash of any kind, strictly: the text must be just as appendTo writes
// it. Its only error is a *MalformedHashError, which, unlike those of x/crypto that parse
// returns, holds no byte of the text.
func readHash(text string) (record, error) {
	if strings.HasPrefix(text, prehashPrefix) {
		return readPrehashed(text)
	}
	h, _, err := parse([]byte(text), true)
	switch e := err.(type) {
	case HashVersionTooNewError:
		err = &MalformedHashError{Offset: 1, Want: wantMajor}
	case InvalidHashPrefixError:
		err = &MalformedHashError{Offset: 0, Want: `"$"`}
	case InvalidCostError:
		err = &MalformedHashError{Offset: strings.IndexByte(text[1:], '$') + 2, Want: wantCost}
	default:
		if e == ErrHashTooShort {
			err = &MalformedHashError{Offset: len(text), Want: "59 bytes or more"}
		}
	}
	return h, err
}

// readPrehashed reads a hash that has the prefix of bcrypt-sha256.
func readPrehashed(text string) (h record, err error) {
	malformed := func(rest, want string) (record, error) {
		return record{}, &MalformedHashError{Offset: len(text) - len(rest), Want: want}
	}
	rest := text[len(prehashPrefix):]
	var ok bool
	if rest, ok = strings.CutPrefix(rest, prehashFields); ok {
		h.prehash = 2
	} else if rest, ok = strings.CutPrefix(rest, "2b,"); ok {
		h.prehash = 1
	} else if rest, ok = strings.CutPrefix(rest, "2a,"); ok {
		h.prehash, h.version = 1, Version2a
	} else {
		return malformed(rest, wantPrehash)
	}

	digits := rest[:max(strings.IndexByte(rest, '$'), 0)]
	for cost := MinCost; cost <= MaxCost; cost++ {
		if digits == strconv.Itoa(cost) {
			h.cost = cost
		}
	}
	if h.cost == 0 {
		return malformed(rest, wantCost)
	}
	rest = rest[len(digits)+1:]

	for _, field := range []struct {
		dst   []byte
		chars int
		want  string
	}{
		{h.salt[:], saltChars, wantSalt},
		{h.digest[:], digestChars, wantDigest},
	} {
		chars := rest[:min(field.chars, len(rest))]
		bad, spare := decode(field.dst, []byte(chars))
		if bad < 0 && spare {
			bad = field.chars - 1
		}
		if bad >= 0 {
			return malformed(rest[bad:], field.want)
		}
		rest = rest[field.chars:]
		if field.chars == saltChars {
			if rest, ok = strings.CutPrefix(rest, "$"); !ok {
				return malformed(rest, `"$"`)
			}
		}
	}
	if rest != "" {
		return malformed(rest, wantEnd)
	}
	return h, nil
}
