package bcrypt

import "fmt"

// This file reads and writes the text of a hash. S is salt, D is digest:
//
//	$2b$12$SSSSSSSSSSSSSSSSSSSSSSDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDD
//	$bcrypt-sha256$v=2,t=2b,r=12$SSSSSSSSSSSSSSSSSSSSSS$DDDDDDDDDDDDDDDDDDDDDDDDDDDDDDD
//	$bcrypt-sha256$2b,12$SSSSSSSSSSSSSSSSSSSSSS$DDDDDDDDDDDDDDDDDDDDDDDDDDDDDDD
//
// A bare hash has 60 bytes, or 59 for version 2, which has no letter. forms.go reads the forms
// in which other systems store hashes.

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

// A Form is how a system stores bcrypt hashes. It prints as its name.
type Form string

const (
	FormBare           Form = "bare"             // $2b$12$…, as bcrypt writes it
	FormBcryptSHA256   Form = "bcrypt-sha256"    // $bcrypt-sha256$v=2,t=2b,r=12$…$…: passlib, and Hasher under PrehashLong
	FormBcryptSHA256v1 Form = "bcrypt-sha256-v1" // $bcrypt-sha256$2b,12$…$…: passlib before 1.7.3
	FormSpring         Form = "spring"           // {bcrypt}$2a$10$…: Spring Security's DelegatingPasswordEncoder
	FormLDAP           Form = "ldap"             // {CRYPT}$2b$12$…: OpenLDAP, 389 Directory Server, Dovecot
	FormDovecot        Form = "dovecot"          // {BLF-CRYPT}$2y$05$…, also in base64 or hex
	FormDjango         Form = "django"           // bcrypt$$2b$12$…: Django's BCryptPasswordHasher
	FormDjangoSHA256   Form = "django-sha256"    // bcrypt_sha256$$2b$12$…: Django's BCryptSHA256PasswordHasher
	FormWordPress      Form = "wordpress"        // $wp$2y$10$…: WordPress 6.8 and later
	FormNextcloud      Form = "nextcloud"        // 1|$2y$10$…: Nextcloud, ownCloud
)

// A record is a parsed hash.
type record struct {
	version Version
	form    *form // nil is the bare form
	cost    int
	salt    [saltSize]byte
	digest  [digestSize]byte
}

// A form is what a system makes of a bcrypt hash: what it stores around the hash, and what it
// gives to bcrypt in place of the password.
type form struct {
	name   Form
	prefix string                                  // of the stored text, before the hash
	sha256 int                                     // version of bcrypt-sha256, which spells its fields another way; or 0
	decode func(text string) ([]byte, error)       // of what follows the prefix; nil if that is plain text
	key    func(r *record, password []byte) []byte // what bcrypt is given; nil if that is the password
}

// sha256 returns r's version of bcrypt-sha256, or 0.
func (r *record) sha256() int {
	if r.form == nil {
		return 0
	}
	return r.form.sha256
}

// key returns what bcrypt is given in place of password, and true, or nil and false if that is
// the password itself.
func (r *record) key(password []byte) ([]byte, bool) {
	if r.form == nil || r.form.key == nil {
		return nil, false
	}
	return r.form.key(r, password), true
}

// What a MalformedHashError wants, where more than one place says so.
const (
	wantMajor   = `version "2"`
	wantMinor   = `"$" or one of the version letters a, b, x and y`
	wantPrehash = `"v=2,t=2b,r=", "2a," or "2b,"`
	wantLength  = "59 bytes or more"
	wantDollar  = `"$"`
	wantDigit   = "a digit of the cost"
	wantCost    = "a cost from 4 to 31"
	wantSalt    = "a character of the salt"
	wantDigest  = "a character of the digest"
	wantEnd     = "the end of the hash"
)

// Is makes errors.Is work for ErrUnsupportedVersion and ErrNotBcrypt.
func (e *MalformedHashError) Is(target error) bool {
	switch target {
	case ErrUnsupportedVersion:
		return e.Want == wantMajor || e.Want == wantMinor || e.Want == wantPrehash
	case ErrNotBcrypt:
		return e.Want == wantMajor || e.Want == wantLength || e.Offset == 0 && e.Want == wantDollar
	}
	return false
}

// appendTo appends the text of the hash to dst, in its one canonical spelling.
func (r *record) appendTo(dst []byte) []byte {
	switch r.sha256() {
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

// parse reads a bare hash. If strict, text must be exactly what appendTo writes. If not,
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
		return malformed(at, wantDollar)
	}
	for i := at + 1; i <= at+2; i++ {
		if text[i] < '0' || text[i] > '9' {
			return malformed(i, wantDigit)
		}
		cost = 10*cost + int(text[i]-'0')
	}
	if cost < MinCost || cost > MaxCost {
		return 0, 0, nil, InvalidCostError(cost)
	}
	if text[at+3] != '$' {
		return malformed(at+3, wantDollar)
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
