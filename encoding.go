package bcrypt

import "fmt"

// This file reads and writes the text of a hash:
//
//	$2b$12$SSSSSSSSSSSSSSSSSSSSSSDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDD
//
// a version, two digits of cost, 22 characters of salt and 31 of digest, 60 bytes;
// version 2 has no letter, so 59.

const (
	saltChars   = 22
	digestChars = 31
	hashLen     = 60
	minHashLen  = 59 // of version 2
)

// A Version is the first field of a hash, and prints as such: "2b".
type Version byte

const (
	Version2b Version = iota // OpenBSD since 2014
	Version2a                // OpenBSD since 1998; verified as 2b, and as crypt_blowfish's 2a
	Version2y                // crypt_blowfish since 1.1, PHP, htpasswd: the same as 2b
	Version2x                // crypt_blowfish, made by its sign extension bug; not written
	Version2                 // OpenBSD in 1997, without the terminating NUL; not written
)

func (v Version) String() string {
	if names := [...]string{"2b", "2a", "2y", "2x", "2"}; int(v) < len(names) {
		return names[v]
	}
	return fmt.Sprintf("Version(%d)", byte(v))
}

// reading returns how this version reads a password. The guarded reading of 2a is
// not named here: it is tried beside the plain one.
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

// A record is what a hash says.
type record struct {
	version Version
	prehash int // version of bcrypt-sha256, or 0
	cost    int
	salt    [saltSize]byte
	digest  [digestSize]byte
}

// What a MalformedHashError says that it wants, where more than one place does.
const (
	wantMajor   = `version "2"`
	wantMinor   = `"$" or one of the version letters a, b, x and y`
	wantPrehash = `"v=2,t=2b,r=", "2a," or "2b,"`
	wantCost    = "a cost from 4 to 31"
	wantSalt    = "a character of the salt"
	wantDigest  = "a character of the digest"
	wantEnd     = "the end of the hash"
)

// appendTo appends the text of the hash, in its one canonical spelling, to dst.
func (h *record) appendTo(dst []byte) []byte {
	switch h.prehash {
	case 0:
		dst = fmt.Appendf(dst, "$%s$%02d$", h.version, h.cost)
		dst = appendEncoded(dst, h.salt[:])
		return appendEncoded(dst, h.digest[:])
	case 1:
		dst = fmt.Appendf(dst, "%s%s,%d$", prehashPrefix, h.version, h.cost)
	default:
		dst = fmt.Appendf(dst, "%s%s%d$", prehashPrefix, prehashFields, h.cost)
	}
	dst = append(appendEncoded(dst, h.salt[:]), '$')
	return appendEncoded(dst, h.digest[:])
}

// parse reads a hash. If strict, text must be just as appendTo writes it. If not, the
// things are let pass that golang.org/x/crypto/bcrypt lets pass and that stored hashes
// have: bytes after the hash, and spare bits set in the last character of the salt.
// Then too a digest that is cut short, or has anything else wrong with it, is no error:
// digestOK is false, and the hash matches no password.
func parse(text []byte, strict bool) (h record, digestOK bool, err error) {
	h.version, h.cost, text, err = parsePrefix(text)
	if err != nil {
		return record{}, false, err
	}
	prefix := len("$$00$") + len(h.version.String())

	bad, spare := decode(h.salt[:], text[:saltChars])
	if bad < 0 && strict && spare {
		bad = saltChars - 1
	}
	if bad >= 0 {
		return record{}, false, &MalformedHashError{Offset: prefix + bad, Want: wantSalt}
	}

	text = text[saltChars:]
	bad, spare = decode(h.digest[:], text[:min(digestChars, len(text))])
	if bad < 0 && spare {
		bad = digestChars - 1
	}
	if !strict {
		return h, bad < 0, nil
	}
	if bad >= 0 {
		return record{}, false, &MalformedHashError{Offset: prefix + saltChars + bad, Want: wantDigest}
	}
	if len(text) > digestChars {
		return record{}, false, &MalformedHashError{Offset: prefix + saltChars + digestChars, Want: wantEnd}
	}
	return h, true, nil
}

// parsePrefix reads a hash up to its salt and returns the rest, of which there are at
// least 53 bytes less one. Its checks come in the order of golang.org/x/crypto/bcrypt.
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

// alphabet is bcrypt's: that of base64 in another order, and without padding.
const alphabet = "./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

const invalid = 0xff

// values has the six bits that each character stands for, or invalid.
var values = func() (v [256]byte) {
	for i := range v {
		v[i] = invalid
	}
	for i := range alphabet {
		v[alphabet[i]] = byte(i)
	}
	return v
}()

// appendEncoded appends src, six bits a character with the first bits first. Bits of
// the last character that src does not fill are zero.
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

// decode fills dst from src, the reverse of appendEncoded. It returns the index in src
// of the first character that is missing or outside the alphabet, or -1, and whether
// the bits that appendEncoded leaves zero have one set.
//
// encoding/base64 would not do: even its Strict mode skips CR and LF, so that one hash
// would have many spellings.
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
