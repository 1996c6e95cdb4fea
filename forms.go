package bcrypt

import (
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"strings"
)

// This file reads hashes as other systems store them, and says what it is that stands where a
// hash should. Each form, each other scheme and each kind of damage is a row of a table.

var (
	sha256Form   = &form{name: FormBcryptSHA256, sha256: 2, key: bcryptSHA256}
	sha256v1Form = &form{name: FormBcryptSHA256v1, sha256: 1, key: bcryptSHA256v1}
)

// wrappers are the forms that stand around a bare hash of version 2a, 2b or 2y. A prefix in
// braces may be in either case.
var wrappers = []*form{
	{name: FormSpring, prefix: "{bcrypt}"},
	{name: FormLDAP, prefix: "{CRYPT}"},
	{name: FormDovecot, prefix: "{BLF-CRYPT}"},
	{name: FormDovecot, prefix: "{BLF-CRYPT.b64}", decode: base64.StdEncoding.DecodeString},
	{name: FormDovecot, prefix: "{BLF-CRYPT.base64}", decode: base64.StdEncoding.DecodeString},
	{name: FormDovecot, prefix: "{BLF-CRYPT.hex}", decode: hex.DecodeString},
	{name: FormDjango, prefix: "bcrypt$"},
	{name: FormDjangoSHA256, prefix: "bcrypt_sha256$", key: djangoSHA256},
	{name: FormWordPress, prefix: "$wp", key: wordPress},
	{name: FormNextcloud, prefix: "1|"}, // 2| and 3| are argon2's, but are checked by the same call
	{name: FormNextcloud, prefix: "2|"},
	{name: FormNextcloud, prefix: "3|"},
}

// readHash reads a hash in any form. It is strict: but for the case of a prefix in braces, the
// hash has one spelling. Padding may follow it: spaces, tabs, newlines and NULs, as in a CHAR(72)
// column, a line of a file or a C buffer. Its errors are *NotBcryptError and *MalformedHashError,
// because those of x/crypto, which parse returns, hold bytes of the text.
func readHash(text string) (r record, err error) {
	body := strings.TrimRight(text, padding)
	if strings.HasPrefix(body, prehashPrefix) {
		return readSHA256(body)
	}
	for _, f := range wrappers {
		if hasPrefix(body, f.prefix) {
			return readWrapped(body, f)
		}
	}
	return readBare(body)
}

// padding is what may stand after a hash.
const padding = " \t\r\n\x00"

// hasPrefix reports whether text starts with prefix, in either case if that is in braces.
func hasPrefix(text, prefix string) bool {
	if prefix[0] == '{' && len(text) >= len(prefix) {
		return strings.EqualFold(text[:len(prefix)], prefix)
	}
	return strings.HasPrefix(text, prefix)
}

// readWrapped reads a hash that has the prefix of f.
func readWrapped(text string, f *form) (r record, err error) {
	inner, at := text[len(f.prefix):], len(f.prefix)
	if f.decode != nil {
		decoded, err := f.decode(inner)
		if err != nil || strings.ContainsAny(inner, "\r\n") { // which base64 skips
			return record{}, &MalformedHashError{Offset: at, Want: wantCoded}
		}
		inner = string(decoded)
	}
	if r, err = readBare(inner); err != nil {
		if m, ok := err.(*MalformedHashError); ok && f.decode == nil {
			m.Offset += at
		} else if ok {
			m.Offset = at // what is wrong is inside the coded text
		}
		return record{}, err
	}
	if r.version == Version2 || r.version == Version2x {
		return record{}, &MalformedHashError{Offset: at, Want: wantWrapped}
	}
	r.form = f
	return r, nil
}

// readBare reads a hash without anything around it.
func readBare(text string) (record, error) {
	r, _, err := parse([]byte(text), true)
	if err == nil {
		return r, nil
	}
	return record{}, explain(text, err)
}

// explain returns the error for a text of which parse says err.
func explain(text string, err error) error {
	if scheme := schemeOf(text); scheme != "" {
		return &NotBcryptError{scheme}
	}
	for _, d := range damages {
		if at := d.found(text); at >= 0 {
			return &MalformedHashError{Offset: at, Want: d.want}
		}
	}
	switch e := err.(type) {
	case HashVersionTooNewError:
		return &MalformedHashError{Offset: 1, Want: wantMajor}
	case InvalidHashPrefixError:
		return &MalformedHashError{Offset: 0, Want: wantDollar}
	case InvalidCostError:
		return &MalformedHashError{Offset: strings.IndexByte(text[1:], '$') + 2, Want: wantCost}
	default:
		if e == ErrHashTooShort {
			return &MalformedHashError{Offset: len(text), Want: wantLength}
		}
		return err
	}
}

// readSHA256 reads a hash that has the prefix of bcrypt-sha256.
func readSHA256(text string) (r record, err error) {
	malformed := func(rest, want string) (record, error) {
		return record{}, &MalformedHashError{Offset: len(text) - len(rest), Want: want}
	}
	rest := text[len(prehashPrefix):]
	var ok bool
	if rest, ok = strings.CutPrefix(rest, prehashFields); ok {
		r.form = sha256Form
	} else if rest, ok = strings.CutPrefix(rest, "2b,"); ok {
		r.form = sha256v1Form
	} else if rest, ok = strings.CutPrefix(rest, "2a,"); ok {
		r.form, r.version = sha256v1Form, Version2a
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
				return malformed(rest, wantDollar)
			}
		}
	}
	if rest != "" {
		return malformed(rest, wantEnd)
	}
	return r, nil
}

// schemes are what stands in the place of bcrypt hashes, by how it starts. A prefix in braces may
// be in either case.
var schemes = []struct{ prefix, name string }{
	{"$argon2id$", "argon2id"},
	{"$argon2i$", "argon2i"},
	{"$argon2d$", "argon2d"},
	{"$scrypt$", "scrypt"},
	{"$7$", "scrypt"},
	{"$y$", "yescrypt"},
	{"$gy$", "gost-yescrypt"},
	{"$1$", "MD5 crypt"},
	{"$5$", "SHA-256 crypt"},
	{"$6$", "SHA-512 crypt"},
	{"$apr1$", "MD5 crypt (Apache)"},
	{"$md5$", "MD5 crypt (Sun)"},
	{"$md5,", "MD5 crypt (Sun)"},
	{"$sha1$", "SHA-1 crypt"},
	{"$P$", "phpass"},
	{"$H$", "phpass"},
	{"$S$", "SHA-512 (Drupal)"},
	{"$pbkdf2-sha256$", "PBKDF2-SHA-256"},
	{"$pbkdf2-sha512$", "PBKDF2-SHA-512"},
	{"$pbkdf2$", "PBKDF2-SHA-1"},
	{"pbkdf2_sha256$", "PBKDF2-SHA-256 (Django)"},
	{"pbkdf2_sha1$", "PBKDF2-SHA-1 (Django)"},
	{"argon2$", "argon2 (Django)"},
	{"scrypt$", "scrypt (Django)"},
	{"md5$", "salted MD5 (Django)"},
	{"sha1$", "salted SHA-1 (Django)"},
	{"{SSHA}", "salted SHA-1 (LDAP)"},
	{"{SHA}", "SHA-1 (LDAP)"},
	{"{SSHA256}", "salted SHA-256 (LDAP)"},
	{"{SHA256}", "SHA-256 (LDAP)"},
	{"{SSHA512}", "salted SHA-512 (LDAP)"},
	{"{SHA512}", "SHA-512 (LDAP)"},
	{"{SMD5}", "salted MD5 (LDAP)"},
	{"{MD5}", "MD5 (LDAP)"},
	{"{PBKDF2", "PBKDF2 (LDAP)"},
	{"{noop}", "plain text (Spring)"},
	{"{PLAIN}", "plain text (Dovecot)"},
	{"{argon2", "argon2"},
	{"{scrypt", "scrypt"},
}

// digests are what so many hex digits may be.
var digests = map[int]string{
	32:  "32 hex digits, as of MD5",
	40:  "40 hex digits, as of SHA-1",
	64:  "64 hex digits, as of SHA-256",
	128: "128 hex digits, as of SHA-512",
}

// schemeOf returns the name of the scheme that text is a hash of, or "" if that is not known.
func schemeOf(text string) string {
	for _, s := range schemes {
		if hasPrefix(text, s.prefix) {
			return s.name
		}
	}
	if name, ok := digests[len(text)]; ok && isHex(text) {
		return name
	}
	return ""
}

func isHex(text string) bool {
	return strings.Trim(text, "0123456789abcdefABCDEF") == ""
}

// What a MalformedHashError wants where a hash was damaged on its way.
const (
	wantCoded     = "a hash in base64 or hex, as the prefix says"
	wantWrapped   = "version 2a, 2b or 2y after a prefix"
	wantSingle    = "single dollar signs: each is doubled, as in a Compose file,"
	wantUnquoted  = "no quotation mark before the hash"
	wantNoMark    = "no byte order mark before the hash"
	wantNoBlank   = "no blank before the hash"
	wantNoURL     = "a hash that is not URL-encoded"
	wantNoBase64  = "a hash that is not in base64"
	wantNoHex     = "a hash that is not in hex, as PostgreSQL prints a bytea,"
	wantUnshelled = "what a shell has expanded, $2b or $12 (put the hash in single quotation marks),"
	wantWhole     = "60 bytes: the hash is cut off, as by a column that is too narrow,"
)

// damages are what happens to hashes on their way. found returns where a text shows it, or -1.
var damages = []struct {
	want  string
	found func(text string) int
}{
	{wantSingle, startsWith("$$2")},
	{wantNoMark, startsWith("\ufeff")},
	{wantUnquoted, startsWith(`"$2`, "'$2", "`$2", "\"$$2", "'$$2")},
	{wantNoBlank, func(text string) int {
		if rest := strings.TrimLeft(text, padding); len(rest) < len(text) && strings.HasPrefix(rest, "$2") {
			return 0
		}
		return -1
	}},
	{wantNoURL, startsWith("%242")},
	{wantNoBase64, startsWith("JDJh", "JDJi", "JDJ5", "JDJ4")},
	{wantNoHex, func(text string) int {
		if digits := strings.TrimPrefix(text, `\x`); strings.HasPrefix(digits, "2432") && isHex(digits) {
			return 0
		}
		return -1
	}},
	{wantWhole, cutOff},
	{wantUnshelled, shellExpanded},
}

func startsWith(prefixes ...string) func(text string) int {
	return func(text string) int {
		for _, prefix := range prefixes {
			if strings.HasPrefix(text, prefix) {
				return 0
			}
		}
		return -1
	}
}

// cutOff returns the length of a text that is the start of a hash, or -1. A text is that if the
// rest of some hash makes it one.
func cutOff(text string) int {
	const rest = "$2b$10$......................" + "..............................."
	if len(text) < len("$2") || len(text) >= hashLen {
		return -1
	}
	for _, whole := range []string{rest, "$2$10" + rest[len("$2b$10"):]} {
		if len(text) < len(whole) {
			if _, _, err := parse([]byte(text+whole[len(text):]), true); err == nil {
				return len(text)
			}
		}
	}
	return -1
}

// shellExpanded returns where something is missing in a hash that stood in double quotation
// marks, or -1. The shell has put nothing in the place of $2, $1 or $NAME, so of $2b$12$SALT.REST
// "b2.REST", "b$12$…" or "$2b$$…" is left.
func shellExpanded(text string) int {
	letter := strings.TrimPrefix(text, "$2")
	if letter == "" || !strings.Contains("abxy", letter[:1]) {
		return -1
	}
	switch rest := letter[1:]; {
	case len(letter) < len(text) && strings.HasPrefix(rest, "$$"):
		return len(text) - len(rest) + 1
	case len(letter) < len(text):
		return -1
	case len(rest) >= 4 && rest[0] == '$' && rest[3] == '$':
		return 0
	case rest != "" && rest[0] >= '0' && rest[0] <= '9' && (rest[1:] == "" || rest[1] == '.' || rest[1] == '/'):
		return 0
	}
	return -1
}
