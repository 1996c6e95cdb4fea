package bcrypt

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// isSchemeName reports whether a NotBcryptError may have the name.
func isSchemeName(name string) bool {
	for _, s := range schemes {
		if s.name == name {
			return true
		}
	}
	for _, d := range digests {
		if d == name {
			return true
		}
	}
	return false
}

// Hashes that other systems made, in their forms, verify under every policy that accepts the
// length. A form that digests the password takes all of a long one.
func TestForms(t *testing.T) {
	forms := map[Form]int{}
	for _, v := range readVectors[vector](t, "forms.jsonl", 160) {
		info, err := Inspect(v.Hash)
		require.NoError(t, err, v.Hash)
		forms[info.Form]++
		prehashed := info.Form == FormBcryptSHA256 || info.Form == FormBcryptSHA256v1 || info.Form == FormDjangoSHA256 || info.Form == FormWordPress
		for _, long := range []LongPasswords{RefuseLong, TruncateLong, PrehashLong} {
			h := &Hasher{Cost: 4, Long: long}
			if long == RefuseLong && len(v.Password) > 72 {
				require.Equal(t, ErrPasswordTooLong, h.Verify(background, v.Hash, v.Password))
				continue
			}
			for _, pad := range []string{"", " ", "\r\n", "\t\x00 \x00", strings.Repeat(" ", 195)} {
				require.NoError(t, h.Verify(background, v.Hash+pad, v.Password), v.Hash)
				padded, err := Inspect(v.Hash + pad)
				require.NoError(t, err)
				require.Equal(t, len(pad), padded.Padding)
				padded.Padding = 0
				require.Equal(t, info, padded)
			}
			require.Equal(t, ErrMismatchedHashAndPassword, h.Verify(background, v.Hash, []byte("wrong")))
			if len(v.Password) > 72 {
				changed := append([]byte{}, v.Password...)
				changed[72] ^= 1
				if prehashed {
					require.Equal(t, ErrMismatchedHashAndPassword, h.Verify(background, v.Hash, changed), v.Hash)
				} else {
					require.NoError(t, h.Verify(background, v.Hash, changed), v.Hash)
				}
			}
		}
		// The drop-in functions know no wrappers.
		if info.Form != FormBare {
			require.Error(t, CompareHashAndPassword([]byte(v.Hash), v.Password))
		}
	}
	require.Len(t, forms, 8) // all but the bare one and Spring's, which is a prefix
	for _, hash := range []string{"{bcrypt}" + sample, "{BCRYPT}" + sample, "2|" + sample, "3|" + sample, "{blf-crypt}" + sample, "{crypt}" + sample,
		"{BLF-CRYPT.base64}" + base64.StdEncoding.EncodeToString([]byte(sample))} {
		require.NoError(t, (&Hasher{Cost: 5}).Verify(background, hash, []byte("U*U")), hash)
	}
	info, err := Inspect("{bcrypt}" + sample)
	require.NoError(t, err)
	require.Equal(t, FormSpring, info.Form)
	info, err = Inspect(sample)
	require.NoError(t, err)
	require.Equal(t, FormBare, info.Form)
	require.EqualValues(t, "bare", info.Form)
}

// VerifyAndUpgrade writes the policy's own form, and keeps the password as it was typed.
func TestFormsUpgrade(t *testing.T) {
	for _, v := range readVectors[vector](t, "forms.jsonl", 160) {
		h := &Hasher{Cost: 4, Long: PrehashLong}
		upgraded, err := h.VerifyAndUpgrade(background, v.Hash, v.Password)
		require.NoError(t, err)
		if strings.HasPrefix(v.Hash, "$bcrypt-sha256$v=2") {
			require.Empty(t, upgraded)
			continue
		}
		require.True(t, strings.HasPrefix(upgraded, "$bcrypt-sha256$v=2,t=2b,r=4$"), upgraded)
		require.NoError(t, h.Verify(background, upgraded, v.Password))
	}
	upgraded, err := (&Hasher{Cost: 4}).VerifyAndUpgrade(background, "{CRYPT}"+sample, []byte("U*U"))
	require.NoError(t, err)
	require.Equal(t, "$2b$04$", upgraded[:7]) // though its cost is lower: a wrapper is below the policy
}

// PHP's trim takes six bytes off both ends, and no other.
func TestWordPressTrim(t *testing.T) {
	plain := string(wordPress(nil, []byte("x")))
	require.Len(t, plain, 64)
	for b := range 256 {
		trimmed := strings.IndexByte(" \t\n\r\x00\x0b", byte(b)) >= 0
		for _, password := range []string{string([]byte{byte(b), 'x'}), string([]byte{'x', byte(b)}), string([]byte{byte(b), byte(b), 'x', byte(b)})} {
			require.Equal(t, trimmed, string(wordPress(nil, []byte(password))) == plain, "%q", password)
		}
	}
	require.NotEqual(t, string(wordPress(nil, []byte("a b"))), string(wordPress(nil, []byte("ab"))))
	require.Equal(t, string(wordPress(nil, nil)), string(wordPress(nil, []byte(" \n\x00"))))
}

// Hashes of other schemes are named. They are no bcrypt hashes, whichever way one asks.
func TestNotBcrypt(t *testing.T) {
	rest := "c29tZXNhbHQ$RdescudvJCsgt3ub+b1dWRWJTmaaJObG"
	for text, scheme := range map[string]string{
		"$argon2id$v=19$m=65536,t=3,p=4$" + rest: "argon2id",
		"$argon2i$v=19$" + rest:                  "argon2i",
		"$argon2d$v=19$" + rest:                  "argon2d",
		"$scrypt$ln=16,r=8,p=1$" + rest:          "scrypt",
		"$7$CU..../....2Q9obwLhin8qvQl6sisAO/$":  "scrypt",
		"$y$j9T$" + rest:                         "yescrypt",
		"$gy$j9T$" + rest:                        "gost-yescrypt",
		"$1$abc$" + rest:                         "MD5 crypt",
		"$5$rounds=5000$" + rest:                 "SHA-256 crypt",
		"$6$abc$" + rest:                         "SHA-512 crypt",
		"{CRYPT}$6$abc$" + rest:                  "SHA-512 crypt",
		"{CRYPT}$argon2id$" + rest:               "argon2id",
		"2|$argon2i$v=19$" + rest:                "argon2i",
		"3|$argon2id$v=19$" + rest:               "argon2id",
		"$apr1$abc$" + rest:                      "MD5 crypt (Apache)",
		"$md5$abc$" + rest:                       "MD5 crypt (Sun)",
		"$md5,rounds=904$abc$" + rest:            "MD5 crypt (Sun)",
		"$sha1$40000$abc$" + rest:                "SHA-1 crypt",
		"$P$B12345678abcdefghijklmnopqrstu/":     "phpass",
		"$H$912345678abcdefghijklmnopqrstu/":     "phpass",
		"$S$D12345678abcdefghijklmnopqrstu/":     "SHA-512 (Drupal)",
		"$pbkdf2-sha256$29000$" + rest:           "PBKDF2-SHA-256",
		"$pbkdf2-sha512$29000$" + rest:           "PBKDF2-SHA-512",
		"$pbkdf2$29000$" + rest:                  "PBKDF2-SHA-1",
		"pbkdf2_sha256$260000$" + rest:           "PBKDF2-SHA-256 (Django)",
		"pbkdf2_sha1$260000$" + rest:             "PBKDF2-SHA-1 (Django)",
		"argon2$argon2id$v=19$" + rest:           "argon2 (Django)",
		"scrypt$16384$" + rest:                   "scrypt (Django)",
		"md5$abc$" + rest:                        "salted MD5 (Django)",
		"sha1$abc$" + rest:                       "salted SHA-1 (Django)",
		"{SSHA}" + rest:                          "salted SHA-1 (LDAP)",
		"{ssha}" + rest:                          "salted SHA-1 (LDAP)",
		"{SHA}" + rest:                           "SHA-1 (LDAP)",
		"{SSHA256}" + rest:                       "salted SHA-256 (LDAP)",
		"{SHA256}" + rest:                        "SHA-256 (LDAP)",
		"{SSHA512}" + rest:                       "salted SHA-512 (LDAP)",
		"{SHA512}" + rest:                        "SHA-512 (LDAP)",
		"{SMD5}" + rest:                          "salted MD5 (LDAP)",
		"{MD5}" + rest:                           "MD5 (LDAP)",
		"{PBKDF2-SHA256}" + rest:                 "PBKDF2 (LDAP)",
		"{noop}password":                         "plain text (Spring)",
		"{PLAIN}password":                        "plain text (Dovecot)",
		"{argon2}$argon2id$" + rest:              "argon2",
		"{scrypt}$e0801$" + rest:                 "scrypt",
		strings.Repeat("0F", 16):                 "32 hex digits, as of MD5",
		strings.Repeat("0f", 20) + " ":           "40 hex digits, as of SHA-1",
		strings.Repeat("24", 32):                 "64 hex digits, as of SHA-256",
		strings.Repeat("24", 64):                 "128 hex digits, as of SHA-512",
	} {
		_, err := Inspect(text)
		require.Equal(t, &NotBcryptError{scheme}, err, text)
		require.ErrorIs(t, err, ErrNotBcrypt)
		require.ErrorIs(t, err, ErrUnsupportedVersion)
		require.Equal(t, err, (&Hasher{Cost: 4}).Verify(background, text, nil))
	}
	require.Len(t, schemes, 39, "each has a text above")
	for _, text := range []string{"", "secret", strings.Repeat("secret", 20), "$3" + sample[2:], strings.Repeat("0g", 16)} {
		_, err := Inspect(text)
		require.ErrorIs(t, err, ErrNotBcrypt, text)
		require.ErrorAs(t, err, new(*MalformedHashError))
	}
	for _, text := range []string{"$2b$99" + sample[6:], sample[:59], "$2c" + sample[3:], "{CRYPT}$2b$99" + sample[6:], sample + "x"} {
		_, err := Inspect(text)
		require.Error(t, err)
		require.NotErrorIs(t, err, ErrNotBcrypt, text)
	}
	require.EqualError(t, &NotBcryptError{"argon2id"}, "bcrypt: not a bcrypt hash: it looks like argon2id")
}

// The error for a hash that was damaged on its way says what happened to it.
func TestDamagedHash(t *testing.T) {
	for _, c := range []struct {
		text   string
		offset int
		want   string
	}{
		{strings.ReplaceAll(sample, "$", "$$"), 0, wantSingle},
		{`"` + sample + `"`, 0, wantUnquoted},
		{"'" + sample + "'", 0, wantUnquoted},
		{"`" + sample, 0, wantUnquoted},
		{`"` + strings.ReplaceAll(sample, "$", "$$") + `"`, 0, wantUnquoted},
		{strings.ReplaceAll(sample, "$", "%24"), 0, wantNoURL},
		{base64.StdEncoding.EncodeToString([]byte(sample)), 0, wantNoBase64},
		{base64.StdEncoding.EncodeToString([]byte("$2b$12$abc")), 0, wantNoBase64},
		{base64.StdEncoding.EncodeToString([]byte("$2y$12$abc")), 0, wantNoBase64},
		{fmt.Sprintf(`\x%x`, sample), 0, wantNoHex},
		{fmt.Sprintf("%X", sample), 0, wantNoHex},
		{"\ufeff" + sample, 0, wantNoMark},
		{"  " + sample, 0, wantNoBlank},
		{"\n" + sample, 0, wantNoBlank},
		{sample[:50], 50, wantWhole},
		{sample[:55], 55, wantWhole},
		{sample[:59], 59, wantWhole},
		{sample[:7], 7, wantWhole},
		{"$2b$1", 5, wantWhole},
		{"$2", 2, wantWhole},
		{"$2$05$" + sample[7:30], 29, wantWhole},
		{"$2b$0!", 6, wantLength},
		{"{CRYPT}" + sample[:50], 57, wantWhole},
		{"1|" + sample[:50], 52, wantWhole},
		{"bcrypt$" + "\"" + sample, 7, wantUnquoted},
		{"b$12$" + sample[7:], 0, wantUnshelled},
		{"y$05$abc", 0, wantUnshelled},
		{"b2", 0, wantUnshelled},
		{"a0.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW", 0, wantUnshelled},
		{"b2/abc", 0, wantUnshelled},
		{"$2b$$" + sample[7:], 4, wantUnshelled},
		{"$2y$$", 4, wantUnshelled},
		{"bob", 3, wantLength},
		{"b", 1, wantLength},
		{"{CRYPT}" + sample + "x", 67, wantEnd},
		{"{CRYPT}$2x" + sample[3:], 7, wantWrapped},
		{"bcrypt$$2" + sample[3:], 7, wantWrapped},
		{"$wp$2b$99" + sample[6:], 7, wantCost},
		{"{BLF-CRYPT.b64}" + sample, 15, wantCoded},
		{"{BLF-CRYPT.b64}" + base64.StdEncoding.EncodeToString([]byte(sample))[:40] + "\n" + base64.StdEncoding.EncodeToString([]byte(sample))[40:], 15, wantCoded},
		{"{BLF-CRYPT.hex}24", 15, wantLength},
	} {
		_, err := Inspect(c.text)
		require.Equal(t, &MalformedHashError{c.offset, c.want}, err, "%q", c.text)
		require.True(t, (&Hasher{}).NeedsRehash(c.text))
	}
	require.EqualError(t, &MalformedHashError{50, wantWhole},
		"bcrypt: malformed hash: want 60 bytes: the hash is cut off, as by a column that is too narrow, at offset 50")
}

// FuzzForms: any text to Inspect gives a form or an error of this package that holds no byte of
// it, and what is read is the text that its form writes, but for padding and the case of a prefix.
func FuzzForms(f *testing.F) {
	for _, v := range []string{sample, "{CRYPT}" + sample + "  ", "$wp" + sample, "bcrypt_sha256$" + sample, "3|" + sample, "{BLF-CRYPT.hex}" + fmt.Sprintf("%x", sample),
		"{blf-crypt.B64}" + base64.StdEncoding.EncodeToString([]byte(sample)), "$bcrypt-sha256$2a,5$CCCCCCCCCCCCCCCCCCCCC.$sPpiByv3zNGdWU9n.xvn2I2zMRDQ5ay\n",
		"$$2b$$05", "b2", `"$2b$`, "\ufeff$2", "%242b", "JDJi", `\x243262`, "$6$x", "{SSHA}x", "$2b$$"} {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := readHash(text)
		info, inspectErr := Inspect(text)
		require.Equal(t, err, inspectErr)
		if err != nil {
			var malformed *MalformedHashError
			var foreign *NotBcryptError
			switch {
			case errors.As(err, &malformed):
				require.Contains(t, wants, malformed.Want)
				require.LessOrEqual(t, malformed.Offset, len(text))
			case errors.As(err, &foreign):
				require.True(t, isSchemeName(foreign.Scheme))
			default:
				t.Fatalf("an error from elsewhere: %T", err)
			}
			return
		}
		want := string(r.appendTo(nil))
		if r.form != nil && r.form.sha256 == 0 {
			switch r.form.prefix {
			case "{BLF-CRYPT.b64}", "{BLF-CRYPT.base64}":
				want = base64.StdEncoding.EncodeToString([]byte(want))
			case "{BLF-CRYPT.hex}":
				want = fmt.Sprintf("%x", want)
				text = strings.ToLower(text)
			}
			require.True(t, strings.EqualFold(text[:len(r.form.prefix)], r.form.prefix))
			text = text[len(r.form.prefix):]
		}
		require.Equal(t, want, text[:len(text)-info.Padding])
		require.Empty(t, strings.Trim(text[len(text)-info.Padding:], padding))
	})
}
