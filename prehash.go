package bcrypt

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
)

// These functions return what a system gives to bcrypt in place of password: a digest of it as
// text, so that every byte of a long password counts and no NUL is in the key.

// bcryptSHA256 is passlib's bcrypt-sha256, version 2: HMAC-SHA-256 in base64. The key of the HMAC
// is the salt's text, so a table of plain SHA-256 digests does not help an attacker.
func bcryptSHA256(r *record, password []byte) []byte {
	mac := hmac.New(sha256.New, appendEncoded(nil, r.salt[:]))
	mac.Write(password)
	return inBase64(mac.Sum(nil))
}

// bcryptSHA256v1 is passlib's bcrypt-sha256, version 1: SHA-256 in base64.
func bcryptSHA256v1(_ *record, password []byte) []byte {
	sum := sha256.Sum256(password)
	return inBase64(sum[:])
}

// djangoSHA256 is Django's BCryptSHA256PasswordHasher: SHA-256 in lower-case hex.
func djangoSHA256(_ *record, password []byte) []byte {
	sum := sha256.Sum256(password)
	defer clear(sum[:])
	return hex.AppendEncode(nil, sum[:])
}

// wordPress is WordPress's wp_hash_password since 6.8: HMAC-SHA-384 in base64 of the password as
// PHP's trim leaves it.
func wordPress(_ *record, password []byte) []byte {
	mac := hmac.New(sha512.New384, []byte("wp-sha384"))
	mac.Write(bytes.Trim(password, " \t\n\r\x00\x0b"))
	return inBase64(mac.Sum(nil))
}

// inBase64 returns sum in base64 and overwrites it.
func inBase64(sum []byte) []byte {
	defer clear(sum)
	return base64.StdEncoding.AppendEncode(nil, sum)
}
