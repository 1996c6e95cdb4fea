//go:build libxcrypt

package oracle

import (
	"bytes"
	"testing"

	"example.com/bcrypt"
	"example.com/bcrypt/internal/libxcrypt"
)

// libxcrypt makes the same hash of each password and salt, byte for byte, in each version
// that this package writes. In 2a, ambiguous passwords have two digests: this package writes
// OpenBSD's and accepts both. 2x is not written here, so its hashes by libxcrypt are verified.
func TestLibxcrypt(t *testing.T) {
	for _, version := range []bcrypt.Version{bcrypt.Version2a, bcrypt.Version2b, bcrypt.Version2y, bcrypt.Version2x} {
		t.Run(version.String(), func(t *testing.T) {
			inParallel(*pairs, func(password []byte, salt [16]byte) {
				password = bytes.ReplaceAll(password, []byte{0}, []byte{1}) // C's strings have none
				made := version
				if version == bcrypt.Version2x {
					made = bcrypt.Version2b
				}
				ours, err := bcrypt.HashWithSalt(password, bcrypt.MinCost, made, salt)
				if err != nil {
					t.Errorf("%x: %v", password, err)
					return
				}
				theirs := libxcrypt.Crypt(password, "$"+version.String()+ours[3:29])
				same := ours == theirs
				if version == bcrypt.Version2x || version == bcrypt.Version2a && ambiguous(password) {
					same = bcrypt.CompareHashAndPassword([]byte(theirs), password) == nil
				}
				if !same {
					t.Errorf("%x: %s, libxcrypt %s", password, ours, theirs)
				}
			})
		})
	}
}
