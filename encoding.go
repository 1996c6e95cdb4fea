package bcrypt

import (
	"fmt"
	"strconv"
	"strings"
)

// This file reads and writes the text of a hash. S is salt, D is digest:
//
//	$2b$12$SSSSSSSSSSSSSSSSSSSSSSDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDD
//	$bcrypt-sha256$v=2,t=2b,r=12$SSSSSSSSSSSSSSSSSSSSSS$DDDDDDDDDDDDDDDDDDDDDDDDDDDDDDD
//	$bcrypt-sha256$2b,12$SSSSSSSSSSSSSSSSSSSSSS$DDDDDDDDDDDDDDDDDDDDDDDDDDDDDDD
//
// A plain hash has 60 bytes, or 59 for version 2, which has no letter.

const (
	saltChars   = 22
	digestChars = 31
	hashLen     = 60
	minHashLen  = 59

	prehashPrefix = "$bcrypt-sha256$"
	prehashFields = "v=2,t=2b,r="
)

// A Version is the first field of a hash. It prints as that field: "2b".
type Version byte

const (
	Version2b Version = iota // OpenBSD since 2014
	Version2a                // OpenBSD since 1998; verifies as 2b and as crypt_blowfish's 2a
	Version2y                // crypt_blowfish since 1.1, PHP, htpasswd; the same as 2b
	Version2x                // crypt_blowfish before 1.1, with its sign extension bug; never written
	Version2                 // OpenBSD of 1997, without the terminating NUL; never written
)

func (v Version) String() string {
	if names := [...]string{"2b", "2a", "2y", "2x", "2"}; int(v) < len(names) {
		return names[v]
	}
	return fmt.Sprintf("Version(%d)", byte(v))
}

// reading returns how this version reads a password. For 2a that is the plain reading;
// verify tries the guarded one as well.
func (v Version) reading() reading {
	switch v {
	case Version2x:
		return signExtended
	case Version2:
		return unterminated
	default:
		return plain
	}
}

// A record is a parsed hash.
type record struct {
	version Version
	prehash int // version of bcrypt-sha256, or 0
	cost    int
	salt    [saltSize]byte
	digest  [digestSize]byte
}

// What a MalformedHashError wants, where more than one place says so.
const (
	wantMajor   = `version "2"`
	wantMinor   = `"$" or one of the version letters a, b, x and y`
	wantPrehash = `"v=2,t=2b,r=", "2a," or "2b,"`
	wantCost    = "a cost from 4 to 31"
	wantSalt    = "a character of the salt"
	wantDigest  = "a character of the digest"
	wantEnd     = "the end of the hash"
)

// Is makes errors.Is(e, ErrUnsupportedVersion) work.
func (e *MalformedHashError) Is(target error) bool {
	return target == ErrUnsupportedVersion && (e.Want == wantMajor || e.Want == wantMinor || e.Want == wantPrehash)
}

// appendTo appends the text of the hash to dst, in its one canonical spelling.
func (r *record) appendTo(dst []byte) []byte {
	switch r.prehash {
	case 0:
		dst = fmt.Appendf(dst, "$%s$%02d$", r.version, r.cost)
		dst = appendEncoded(dst, r.salt[:])
		return appendEncoded(dst, r.digest[:])
	case 1:
		dst = fmt.Appendf(dst, "%s%s,%d$", prehashPrefix, r.version, r.cost)
	default:
		dst = fmt.Appendf(dst, "%s%s%d$", prehashPrefix, prehashFields, r.cost)
	}
	dst = append(appendEncoded(dst, r.salt[:]), '$')
	return appendEncoded(dst, r.digest[:])
}

// readHash reads a plain hash or a bcrypt-sha256. It is strict: the text must be exactly
// what appendTo writes. Its only error is a *MalformedHashError, because the errors of
// x/crypto, which parse returns, hold bytes of the text.
func readHash(text string) (record, error) {
	if strings.HasPrefix(text, prehashPrefix) {
		return readPrehashed(text)
	}
	r, _, err := parse([]byte(text), true)
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
	return r, err
}

// readPrehashed reads a hash that has the prefix of bcrypt-sha256.
func readPrehashed(text string) (r record, err error) {
	malformed := func(rest, want string) (record, error) {
		return record{}, &MalformedHashError{Offset: len(text) - len(rest), Want: want}
	}
	rest := text[len(prehashPrefix):]
	var ok bool
	if rest, ok = strings.CutPrefix(rest, prehashFields); ok {
		r.prehash = 2
	} else if rest, ok = strings.CutPrefix(rest, "2b,"); ok {
		r.prehash = 1
	} else if rest, ok = strings.CutPrefix(rest, "2a,"); ok {
		r.prehash, r.version = 1, Version2a
	} else {
		return malformed(rest, wantPrehash)
	}

	digits := rest[:max(strings.IndexByte(rest, '$'), 0)]
	for cost := MinCost; cost <= MaxCost; cost++ {
		if digits == strconv.Itoa(cost) {
			r.cost = cost
		}
	}
	if r.cost == 0 {
		return malformed(rest, wantCost)
	}
	rest = rest[len(digits)+1:]

	for _, field := range []struct {
		dst   []byte
		chars int
		want  string
	}{
		{r.salt[:], saltChars, wantSalt},
		{r.digest[:], digestChars, wantDigest},
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
	return r, nil
}

// parse reads a plain hash. If strict, text must be exactly what appendTo writes. If not,
// parse accepts what x/crypto accepts and real tables contain: trailing bytes, and spare
// bits in the last character of the salt. A bad digest is then not an error: digestOK is
// false, and the hash matches no password.
func parse(text []byte, strict bool) (r record, digestOK bool, err error) {
	r.version, r.cost, text, err = parsePrefix(text)
	if err != nil {
		return record{}, false, err
	}
	prefix := len("$$00$") + len(r.version.String())

	bad, spare := decode(r.salt[:], text[:saltChars])
	if bad < 0 && strict && spare {
		bad = saltChars - 1
	}
	if bad >= 0 {
		return record{}, false, &MalformedHashError{Offset: prefix + bad, Want: wantSalt}
	}

	text = text[saltChars:]
	bad, spare = decode(r.digest[:], text[:min(digestChars, len(text))])
	if bad < 0 && spare {
		bad = digestChars - 1
	}
	if !strict {
		return r, bad < 0, nil
	}
	if bad >= 0 {
		return record{}, false, &MalformedHashError{Offset: prefix + saltChars + bad, Want: wantDigest}
	}
	if len(text) > digestChars {
		return record{}, false, &MalformedHashError{Offset: prefix + saltChars + digestChars, Want: wantEnd}
	}
	return r, true, nil
}

// parsePrefix reads a hash up to its salt and returns the rest, at least 52 bytes. Its
// checks are in the order of golang.org/x/crypto/bcrypt.
func parsePrefix(text []byte) (v Version, cost int, rest []byte, err error) {
	malformed := func(offset int, want string) (Version, int, []byte, error) {
		return 0, 0, nil, &MalformedHashError{Offset: offset, Want: want}
	}
	if len(text) < minHashLen {
		return 0, 0, nil, ErrHashTooShort
	}
	if text[0] != '$' {
		return 0, 0, nil, InvalidHashPrefixError(text[0])
	}
	if text[1] > '2' {
		return 0, 0, nil, HashVersionTooNewError(text[1])
	}
	if text[1] != '2' {
		return malformed(1, wantMajor)
	}
	at := 3
	switch text[2] {
	case 'a':
		v = Version2a
	case 'b':
		v = Version2b
	case 'x':
		v = Version2x
	case 'y':
		v = Version2y
	case '$':
		v, at = Version2, 2
	default:
		return malformed(2, wantMinor)
	}
	if text[at] != '$' {
		return malformed(at, `"$"`)
	}
	for i := at + 1; i <= at+2; i++ {
		if text[i] < '0' || text[i] > '9' {
			return malformed(i, "a digit of the cost")
		}
		cost = 10*cost + int(text[i]-'0')
	}
	if cost < MinCost || cost > MaxCost {
		return 0, 0, nil, InvalidCostError(cost)
	}
	if text[at+3] != '$' {
		return malformed(at+3, `"$"`)
	}
	return v, cost, text[at+4:], nil
}

// alphabet is bcrypt's base64: the usual characters in another order, without padding.
const alphabet = "./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

const invalid = 0xff

// values maps each character to its six bits, or to invalid.
var values = func() (v [256]byte) {
	for i := range v {
		v[i] = invalid
	}
	for i := range alphabet {
		v[alphabet[i]] = byte(i)
	}
	return v
}()

// appendEncoded appends src to dst, six bits a character, first bits first. The spare bits
// of the last character are zero.
func appendEncoded(dst, src []byte) []byte {
	var acc, bits uint
	for _, b := range src {
		acc, bits = acc<<8|uint(b), bits+8
		for bits >= 6 {
			bits -= 6
			dst = append(dst, alphabet[acc>>bits&0x3f])
		}
	}
	if bits > 0 {
		dst = append(dst, alphabet[acc<<(6-bits)&0x3f])
	}
	return dst
}

// decode fills dst from src, the reverse of appendEncoded. It returns the index in src of
// the first character that is missing or outside the alphabet, or -1. It also reports
// whether a spare bit is set.
//
// encoding/base64 would not do: even its Strict mode skips CR and LF, and one hash would
// have many spellings.
func decode(dst, src []byte) (bad int, spare bool) {
	var acc, bits uint
	i := 0
	for n := range dst {
		for ; bits < 8; i++ {
			if i == len(src) || values[src[i]] == invalid {
				return i, false
			}
			acc, bits = acc<<6|uint(values[src[i]]), bits+6
		}
		bits -= 8
		dst[n] = byte(acc >> bits)
	}
	return -1, acc&(1<<bits-1) != 0
}
