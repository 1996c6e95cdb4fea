package bcrypt

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
)

// prehashed returns what bcrypt-sha256 gives to bcrypt in place of password: 44 characters
// of base64, with no NUL among them. bcrypt-sha256 is passlib's way to make all of a long
// password count. Its version 2 keys the digest with the salt, so a table of plain SHA-256
// digests does not help an attacker; version 1 did not.
func (r *record) prehashed(password []byte) []byte {
	var sum [sha256.Size]byte
	if r.prehash == 1 {
		sum = sha256.Sum256(password)
	} else {
		mac := hmac.New(sha256.New, appendEncoded(nil, r.salt[:]))
		mac.Write(password)
		mac.Sum(sum[:0])
	}
	defer clear(sum[:])
	return base64.StdEncoding.AppendEncode(nil, sum[:])
}
