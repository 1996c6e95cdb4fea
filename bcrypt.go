// Package bcrypt hashes and checks passwords with bcrypt, the algorithm of Provos and
// Mazières ([A Future-Adaptable Password Scheme], USENIX 1999).
//
// A service needs two things. [Calibrate] measures the machine at start-up and returns the
// highest safe cost. A [Hasher] is the service's policy: it hashes passwords, verifies
// them, and replaces hashes that have become too weak.
//
// The package also replaces golang.org/x/crypto/bcrypt. Change the import path, and
// [GenerateFromPassword], [CompareHashAndPassword] and [Cost] work as before, with the same
// types, error values and messages.
//
// # A login service
//
// At start-up, choose the cost. A slow machine must not keep the service down:
//
//	cost, err := bcrypt.Calibrate(250 * time.Millisecond)
//	if err != nil {
//		log.Printf("ALERT: password hashing: %v; using cost %d", err, bcrypt.SafeMinCost)
//		cost = bcrypt.SafeMinCost
//	}
//	hasher := &bcrypt.Hasher{Cost: cost, MaxWaiting: 100}
//
// At sign-up, store the hash, a text of 60 bytes:
//
//	hash, err := hasher.Hash(ctx, password)
//
// At login, look up the hash. For an unknown user pass "", which takes just as long. If
// newHash is not "", store it in place of hash:
//
//	newHash, err := hasher.VerifyAndUpgrade(ctx, hash, password)
//
// [ErrMismatchedHashAndPassword] is a wrong name or password (status 401), [ErrBusy] a full
// queue (503), [ErrPasswordTooLong] a password over 72 bytes (400). Log any other error.
//
// # Choosing a cost
//
// bcrypt runs the Blowfish key schedule 2^(cost+1) times over 4 KiB of state. Every run
// rewrites the state, so no work can be skipped or shared between two guesses. One more
// unit of cost doubles the time, for the service and for a thief of its database alike.
// [Calibrate] finds what the machine can afford. It never returns less than [SafeMinCost].
//
// # Limits
//
//   - bcrypt reads 72 bytes (not characters) of a password. A Hasher refuses longer ones,
//     truncates them, or hashes all of them: see [LongPasswords]. GenerateFromPassword
//     refuses them. CompareHashAndPassword compares the first 72 bytes.
//   - NUL bytes count. But bcrypt's key is the password and a NUL, repeated, so "a" and
//     "a\x00a" are the same password to every bcrypt that accepts NULs.
//   - Blowfish reads table entries that depend on the password. No bcrypt resists an
//     attacker who can watch the CPU's caches.
//   - A new system with no bcrypt hashes should prefer Argon2id ([RFC 9106]).
//
// # Versions
//
// A hash is a text of version, cost, salt and digest. Every version can be verified:
//
//   - 2b, 2y and 2a are one algorithm. A Hasher writes 2b, unless Version says otherwise.
//     GenerateFromPassword writes 2a, as x/crypto does.
//   - A few passwords with bytes 0xFF, which no UTF-8 has, have two 2a digests: OpenBSD's,
//     and crypt_blowfish's (also in libxcrypt, PHP, Ruby and Spring). Both match. Such a
//     password takes twice the time, whatever the hash.
//   - 2x is crypt_blowfish's from before version 1.1. It verifies with the sign extension
//     bug that it was made with (CVE-2011-2483).
//   - 2 is OpenBSD's of 1997. Its key does not end in a NUL.
//   - A Hasher also reads passlib's bcrypt-sha256, which it writes under [PrehashLong], and
//     the forms in which other systems store bcrypt hashes: see [Form].
//
// # Differences from golang.org/x/crypto/bcrypt
//
// x/crypto accepts texts that no bcrypt ever wrote. Here they are a [*MalformedHashError]:
//
//   - a major version below 2, or a version letter other than a, b, x and y
//   - a byte other than "$" after the version or after the cost
//   - a cost that is not two digits, such as "+5"
//   - a salt with a character outside the alphabet, CR and LF included
//
// Versions 2 and 2x, and crypt_blowfish's 2a, verify as above, where x/crypto reads all of
// them as 2b. All else is the same: bytes after the hash and spare bits in the salt are
// ignored, and a bad digest is a mismatch, found after the full work.
//
// # Concurrency and memory
//
// All functions may be called from any number of goroutines, also in [testing/synctest]
// bubbles. There are no background goroutines and there is nothing to close. One bcrypt
// leaves most of a core idle, so up to five hashes share a core, whatever their costs. A
// caller that finds a core free runs it, for itself and for those who join; the others
// sleep. CPU profiles therefore charge a core's hashes to one of its callers. [LimitCores]
// leaves cores to other work.
//
// No function changes or keeps its arguments. Keys and states are overwritten when a hash
// is done, or one iteration after it is cancelled. The first hash in a process checks the
// code against known answers. If one comes out wrong, every call returns an error.
//
// [A Future-Adaptable Password Scheme]: https://www.usenix.org/legacy/event/usenix99/provos/provos_html/
// [RFC 9106]: https://www.rfc-editor.org/rfc/rfc9106.html
package bcrypt

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"io"
	"sync"
)

// ErrMismatchedHashAndPassword is returned by [CompareHashAndPassword] and [Hasher.Verify]
// when the password is not the one that the hash was made from.
var ErrMismatchedHashAndPassword = errors.New("crypto/bcrypt: hashedPassword is not the hash of the given password")

// ErrPasswordTooLong is returned when a password to be hashed has more than 72 bytes, and
// by [Hasher.Verify] under [RefuseLong]. It says nothing about the user, since the length
// is checked before the hash. A web service answers it with status 400.
var ErrPasswordTooLong = errors.New("bcrypt: password length exceeds 72 bytes")

// GenerateFromPassword returns the hash of password at the given cost: 60 bytes that start
// with "$2a$". The salt is 16 bytes from [crypto/rand], so two calls return different
// hashes. A cost below [MinCost] means [DefaultCost], as in golang.org/x/crypto/bcrypt.
//
// It runs 2^(cost+1) Blowfish key schedules. At cost 10 that takes about 50 ms on one core
// of an Intel Xeon of 2023, and up to 1.4 times as long while the core runs other hashes.
//
// It returns [ErrPasswordTooLong] if password has more than 72 bytes, an
// [InvalidCostError] if cost is above [MaxCost], and the error of [crypto/rand.Reader] if
// reading the salt fails. With any error the hash is nil.
func GenerateFromPassword(password []byte, cost int) ([]byte, error) {
	if len(password) > maxPasswordLen {
		return nil, ErrPasswordTooLong
	}
	if cost < MinCost {
		cost = DefaultCost
	}
	if cost > MaxCost {
		return nil, InvalidCostError(cost)
	}
	r := record{version: Version2a, cost: cost}
	if _, err := io.ReadFull(rand.Reader, r.salt[:]); err != nil {
		return nil, err
	}
	var err error
	if r.digest, err = r.compute(context.Background(), nil, password); err != nil {
		return nil, err
	}
	return r.appendTo(make([]byte, 0, hashLen)), nil
}

// CompareHashAndPassword returns nil if password is the one that hashedPassword was made
// from, and [ErrMismatchedHashAndPassword] if not. Only the first 72 bytes of a longer
// password count. The digests are compared in constant time.
//
// It takes as long as making a hash of hashedPassword's cost, which may be days. If hashes
// come from elsewhere, check [Cost] first, or use a [Hasher].
//
// If hashedPassword is not a hash, it returns one of these at once: [ErrHashTooShort], an
// [InvalidHashPrefixError], a [HashVersionTooNewError], an [InvalidCostError], or a
// [*MalformedHashError].
func CompareHashAndPassword(hashedPassword, password []byte) error {
	r, digestOK, err := parse(hashedPassword, false)
	if err != nil {
		return err
	}
	match, err := r.verify(context.Background(), nil, password, 0)
	if err != nil {
		return err
	}
	if !match || !digestOK {
		return ErrMismatchedHashAndPassword
	}
	return nil
}

// Cost returns the cost of a hash. It reads only the prefix, and returns the errors that
// [CompareHashAndPassword] returns for that part.
func Cost(hashedPassword []byte) (int, error) {
	_, cost, _, err := parsePrefix(hashedPassword)
	return cost, err
}

// verify reports whether password has r's digest. If not, it has done at least the work of
// a hash of cost floor. How long verify takes depends on the password, r's cost and floor,
// and on nothing else:
//
//   - An ambiguous password gets both readings, whatever the hash. Otherwise its time would
//     tell who has a 2a hash.
//   - A mismatch with a hash below floor goes on to the work of floor, twice for an
//     ambiguous password. Otherwise its time would tell who has an old hash.
func (r *record) verify(ctx context.Context, c *call, password []byte, floor int) (match bool, err error) {
	digest, err := r.compute(ctx, c, password)
	if err != nil {
		return false, err
	}
	equal := subtle.ConstantTimeCompare(digest[:], r.digest[:])
	twice := ambiguous(password)
	if twice {
		digest, err = compute(ctx, c, password, &r.salt, iterations(r.cost), guarded)
		if err != nil {
			return false, err
		}
		if _, prehashed := r.key(nil); r.version == Version2a && !prehashed {
			equal |= subtle.ConstantTimeCompare(digest[:], r.digest[:])
		}
	}
	if equal == 0 && r.cost < floor {
		missing := iterations(floor) - iterations(r.cost)
		if twice {
			missing *= 2
		}
		_, err = compute(ctx, c, password, new([saltSize]byte), missing, plain)
	}
	return equal == 1, err
}

// compute returns the digest of password under r's version, cost and salt.
func (r *record) compute(ctx context.Context, c *call, password []byte) ([digestSize]byte, error) {
	if key, ok := r.key(password); ok {
		defer clear(key)
		password = key
	}
	return compute(ctx, c, password, &r.salt, iterations(r.cost), r.version.reading())
}

// compute is bcrypt(cost, salt, password), figure 3 of the paper, with 2^cost in place of
// cost. It returns ctx.Err() if ctx ends first, and ErrBusy if c may not wait.
func compute(ctx context.Context, c *call, password []byte, salt *[saltSize]byte, iterations uint64, rd reading) (digest [digestSize]byte, err error) {
	if err := selfTest(); err != nil {
		return digest, err
	}
	j := jobPool.Get().(*job)
	j.setup(password, salt, rd)
	j.remaining, j.total, j.read, j.call = iterations, iterations, rd, c
	if err = cores.run(ctx, j); err == nil {
		digest = j.digest()
	}
	j.wipe()
	if err == nil && !j.held {
		j.state, j.passed, j.call = fresh, false, nil
		jobPool.Put(j)
	}
	return digest, err
}

var errSelfTest = errors.New("bcrypt: self-test failed: this program or machine computes bcrypt wrongly")

// selfTest checks the code against known answers, once. A wrong hash would be stored, and
// noticed only when its user cannot log in. Compilers and processors have been the cause.
// crypt_blowfish runs such a test on every call.
var selfTest = sync.OnceValue(checkKnownAnswers)

// checkKnownAnswers lets each kernel hash the password of crypt_blowfish's self-test, with
// the same answers. Its bytes of 0x80 and above are what faulty bcrypts have misread. The
// cost is 0, which no hash has: one iteration.
func checkKnownAnswers() error {
	answers := [2]record{}
	for i, text := range []string{
		"$2b$04$abcdefghijklmnopqrstuui1D709vfamulimlGcq0qq3UvuUasvEa",
		"$2x$04$abcdefghijklmnopqrstuuVUrPmXD6q/nVSSp7pNDhCR9071IfIRe",
	} {
		answers[i], _, _ = parse([]byte(text), true) // a parse error leaves a zero answer, which no kernel gives
	}
	c := corePool.Get().(*core)
	defer corePool.Put(c)
	for width := 1; width <= maxLanes; width++ {
		for i := range width {
			answer := &answers[i%2]
			c.lanes[i].setup([]byte("8b \xd0\xc1\xd2\xcf\xcc\xd8"), &answer.salt, answer.version.reading())
		}
		kernels[width](&c.lanes)
		for i := range width {
			if c.lanes[i].digest() != answers[i%2].digest {
				return errSelfTest
			}
			c.lanes[i].wipe()
		}
	}
	return nil
}
