package bcrypt

import (
	"errors"
	"fmt"
)

// These errors say what is wrong with a hash or a cost. Those of golang.org/x/crypto/bcrypt
// keep its values and messages.

// ErrHashTooShort is returned when a hash has fewer than 59 bytes.
var ErrHashTooShort = errors.New("crypto/bcrypt: hashedSecret too short to be a bcrypted password")

// A HashVersionTooNewError is returned when the major version of a hash is above '2'. The
// version is the error's value.
type HashVersionTooNewError byte

func (v HashVersionTooNewError) Error() string {
	return fmt.Sprintf("crypto/bcrypt: bcrypt algorithm version '%c' requested is newer than current version '2'", byte(v))
}

// An InvalidHashPrefixError is returned when a hash does not start with '$'. Its first byte
// is the error's value.
type InvalidHashPrefixError byte

func (p InvalidHashPrefixError) Error() string {
	return fmt.Sprintf("crypto/bcrypt: bcrypt hashes must start with '$', but hashedSecret started with '%c'", byte(p))
}

// An InvalidCostError is returned when a cost is not between [MinCost] and [MaxCost]. The
// cost is the error's value.
type InvalidCostError int

func (c InvalidCostError) Error() string {
	return fmt.Sprintf("crypto/bcrypt: cost %d is outside allowed inclusive range %d..%d", int(c), MinCost, MaxCost)
}

// A MalformedHashError says why a text is not a hash, where golang.org/x/crypto/bcrypt has
// no error of its own. It holds no byte of the text, so it is safe to log.
type MalformedHashError struct {
	Offset int    // of the first wrong byte, from 0
	Want   string // what belongs there, such as "a digit of the cost"
}

func (e *MalformedHashError) Error() string {
	return fmt.Sprintf("bcrypt: malformed hash: want %s at offset %d", e.Want, e.Offset)
}

// ErrUnsupportedVersion matches, with [errors.Is], a [*MalformedHashError] for a text that
// starts like a hash, but with a version that this package does not know, and every
// [*NotBcryptError].
var ErrUnsupportedVersion = errors.New("bcrypt: unsupported version")

// ErrNotBcrypt matches, with [errors.Is], the error for a text that is not a bcrypt hash, damaged
// or whole: every [*NotBcryptError], and a [*MalformedHashError] for a text that is like no hash
// this package knows.
var ErrNotBcrypt = errors.New("bcrypt: not a bcrypt hash")

// A NotBcryptError is returned by a [Hasher] and by [Inspect] for the hash of another scheme.
type NotBcryptError struct {
	Scheme string // its usual name, such as "argon2id" or "SHA-512 crypt"
}

func (e *NotBcryptError) Error() string {
	return "bcrypt: not a bcrypt hash: it looks like " + e.Scheme
}

// Is makes errors.Is work for ErrNotBcrypt and ErrUnsupportedVersion.
func (e *NotBcryptError) Is(target error) bool {
	return target == ErrNotBcrypt || target == ErrUnsupportedVersion
}
