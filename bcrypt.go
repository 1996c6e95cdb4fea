// Package bcrypt hashes passwords with bcrypt, the algorithm of Provos and Mazières
// ([A Future-Adaptable Password Scheme], USENIX 1999), and chooses the cost for the
// machine that it runs on.
//
// A service needs two things: at its start [Calibrate], which returns the highest cost
// whose hash fits in a given time on this host, and then one [Hasher], the policy by which
// passwords are hashed, verified and hashed anew when the policy has grown.
//
// The package is also a replacement for golang.org/x/crypto/bcrypt: change the import
// path, and [GenerateFromPassword], [CompareHashAndPassword] and [Cost] keep their types,
// error values and messages. It needs nothing but the standard library.
//
// # A login service
//
// At its start it chooses the cost. A slow or busy host must neither keep it down nor
// weaken its hashes:
//
//	cost, err := bcrypt.Calibrate(250 * time.Millisecond)
//	if err != nil {
//		log.Printf("ALERT: password hashing: %v; going on at cost %d", err, bcrypt.SafeMinCost)
//		cost = bcrypt.SafeMinCost
//	}
//	hasher := &bcrypt.Hasher{Cost: cost, MaxWaiting: 100}
//
// At sign-up it stores the hash, a text of 60 bytes:
//
//	hash, err := hasher.Hash(ctx, password)
//
// At login it looks the hash up, "" if there is no such user, so that the time does not
// tell, and stores newHash in the place of hash unless it is "":
//
//	newHash, err := hasher.VerifyAndUpgrade(ctx, hash, password)
//
// [ErrMismatchedHashAndPassword] and [ErrPasswordTooLong] mean a wrong name or password,
// status 401; [ErrBusy] that too many wait, status 503; another error is for the log. The
// examples show each step whole, and examples/login in the repository is such a service.
//
// # Choosing a cost
//
// bcrypt runs the Blowfish key schedule 2^(cost+1) times over 4 KiB of state that each
// run rewrites, so no work can be left out, or shared between two guesses. One more
// unit of cost doubles the time, for the server and for whoever stole its database
// alike. [Calibrate] measures, and [Calibrator] does with more demands and evidence. The
// floor is [SafeMinCost].
//
// # Several hashes on a core
//
// One bcrypt leaves most of a core idle: each step waits for the one before. Whoever
// cracks passwords runs several at once on a core, and so does this package: calls that
// wait for the same core are run in lock-step, up to five, whatever their costs. A hash
// alone takes as long as ever; five together take 1.3 times as long, not five times. There
// are no goroutines in the background and nothing to close: a caller who finds a core free
// runs it, for others too while its own hash is under way, and the others sleep. So a CPU
// profile charges all hashes of a core to one of their callers, and a goroutine that is
// locked to a thread runs them there. [LimitCores] leaves cores to other work.
//
// # What bcrypt does not do
//
// bcrypt reads at most 72 bytes (not characters) of a password. A Hasher has a policy for
// longer ones, [LongPasswords]. GenerateFromPassword returns [ErrPasswordTooLong];
// CompareHashAndPassword compares the first 72 bytes, so that users whose hashes come from
// a library that truncates are not locked out.
//
// Passwords are bytes: they are neither decoded nor normalised, and a NUL in one counts
// like any other byte. But the key is the password and one NUL, repeated up to 72 bytes,
// so "a" and "a\x00a" are the same password, as are "" and "\x00", to every bcrypt
// that takes NULs at all.
//
// Which table entries Blowfish reads depends on the password, so no bcrypt resists an
// attacker who can watch the CPU's caches. A new system that is free to choose should
// prefer Argon2id ([RFC 9106]).
//
// # Versions
//
// A hash is text such as
//
//	$2b$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW
//
// which is version, cost, 22 characters of salt and 31 of digest. Hashes of all the
// versions that have been written can be verified:
//
//   - 2b, 2y and 2a are OpenBSD's, crypt_blowfish's and the older name of one
//     algorithm. A Hasher writes 2b unless told otherwise, GenerateFromPassword 2a, as
//     x/crypto does.
//   - For a few passwords with bytes 0xFF, which no UTF-8 has, crypt_blowfish and its
//     users (libxcrypt, PHP, Ruby, Spring) wrote another 2a digest than OpenBSD. Both
//     are accepted. Such a password takes twice the time whatever the hash, so that
//     the time tells nothing of the hash.
//   - 2x is what crypt_blowfish made before version 1.1, with the sign extension bug of
//     CVE-2011-2483: hashes tagged so are verified with the bug.
//   - 2 is OpenBSD's of 1997, without the NUL that ends the key.
//   - A Hasher also verifies passlib's bcrypt-sha256, and writes it under [PrehashLong].
//
// The wrap-around of password lengths at 256 that OpenBSD's 2a had before 2014 is not
// accepted: it would let 255 bytes pass for one.
//
// # Differences from golang.org/x/crypto/bcrypt
//
// x/crypto takes many things for hashes that no bcrypt ever wrote. Here these are a
// [*MalformedHashError]:
//
//   - a major version below 2, or a version letter other than a, b, x and y: it would
//     be a hash of an algorithm that nobody knows
//   - anything but "$" after the version and after the cost
//   - a cost that is not two digits, such as "+5", or "xx" for which x/crypto returns
//     an error of strconv that repeats the text
//   - a character of the salt outside the alphabet, for which x/crypto returns an error
//     of encoding/base64, or, when it is CR or LF, at times none: it then uses a
//     shorter salt
//
// Hashes of versions 2 and 2x, and the 2a hashes named above, are read as those who
// wrote them meant them. x/crypto reads all as 2b, and so refuses right passwords, and
// for 2x accepts hashes that carry the wrong tag.
//
// All else is kept, since tables of hashes rely on it: bytes after the hash are ignored,
// as are spare bits in the last character of the salt, and whatever is wrong inside the
// digest is a mismatch, found after the full work.
//
// # Concurrency and memory
//
// All functions may be called from any number of goroutines at once, in bubbles of
// [testing/synctest] too. They neither change nor keep their arguments. Keys and the state
// made from them are overwritten when a hash is done, and those of a cancelled call within
// an iteration; what the caller's own slices hold is the caller's to clear.
//
// The first call in a process that hashes checks the code against known answers, which
// takes about as long as a hash of cost 4. If that fails, because the build or the
// hardware computes wrongly, every call returns an error and none a hash.
//
// [A Future-Adaptable Password Scheme]: https://www.usenix.org/legacy/event/usenix99/provos/provos_html/
// [RFC 9106]: https://www.rfc-editor.org/rfc/rfc9106.html
package bcrypt

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"sync"
)

// The cost is the base-2 logarithm of the number of iterations.
const (
	MinCost     int = 4  // the lowest that a hash may have; too fast to protect a password
	MaxCost     int = 31 // the highest; days of work
	DefaultCost int = 10 // what GenerateFromPassword uses when it is given less than MinCost
)

// ErrMismatchedHashAndPassword is returned by [CompareHashAndPassword] when the hash
// is well formed and is not that of the password.
var ErrMismatchedHashAndPassword = errors.New("crypto/bcrypt: hashedPassword is not the hash of the given password")

// ErrHashTooShort is returned when a hash has fewer than 59 bytes.
var ErrHashTooShort = errors.New("crypto/bcrypt: hashedSecret too short to be a bcrypted password")

// ErrPasswordTooLong is returned by [GenerateFromPassword] when the password has more
// than 72 bytes.
var ErrPasswordTooLong = errors.New("bcrypt: password length exceeds 72 bytes")

// A HashVersionTooNewError is returned when the major version of a hash, which is the
// error's value, is above '2'.
type HashVersionTooNewError byte

func (v HashVersionTooNewError) Error() string {
	return fmt.Sprintf("crypto/bcrypt: bcrypt algorithm version '%c' requested is newer than current version '2'", byte(v))
}

// An InvalidHashPrefixError is returned when a hash starts with another byte than '$',
// which is the error's value.
type InvalidHashPrefixError byte

func (p InvalidHashPrefixError) Error() string {
	return fmt.Sprintf("crypto/bcrypt: bcrypt hashes must start with '$', but hashedSecret started with '%c'", byte(p))
}

// An InvalidCostError is returned when a cost is not between [MinCost] and [MaxCost].
// The cost is the error's value.
type InvalidCostError int

func (c InvalidCostError) Error() string {
	return fmt.Sprintf("crypto/bcrypt: cost %d is outside allowed inclusive range %d..%d", int(c), MinCost, MaxCost)
}

// A MalformedHashError says why a text is not a hash, in the cases for which
// golang.org/x/crypto/bcrypt has no error of its own. It holds no part of the text, so
// it is safe to log.
type MalformedHashError struct {
	Offset int    // of the first byte that is wrong, from 0
	Want   string // what belongs there, such as "a digit of the cost"
}

func (e *MalformedHashError) Error() string {
	return fmt.Sprintf("bcrypt: malformed hash: want %s at offset %d", e.Want, e.Offset)
}

// GenerateFromPassword returns the hash of password at the given cost: 60 bytes that
// start with "$2a$". The salt is 16 bytes from [crypto/rand], so two calls return
// different hashes. A cost below [MinCost] is taken to be [DefaultCost], as in
// golang.org/x/crypto/bcrypt.
//
// It takes 2^(cost+1) Blowfish key schedules: at cost 10, 65 ms on one core of an Intel
// Xeon of 2023, and up to 1.4 times that among others on the core.
//
// It returns [ErrPasswordTooLong] if password has more than 72 bytes, an
// [InvalidCostError] if cost is above [MaxCost], and the error of [crypto/rand.Reader]
// if that has one. With any error the hash is nil.
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
	h := record{version: Version2a, cost: cost}
	if _, err := io.ReadFull(rand.Reader, h.salt[:]); err != nil {
		return nil, err
	}
	var err error
	if h.digest, err = h.compute(context.Background(), nil, password); err != nil {
		return nil, err
	}
	return h.appendTo(make([]byte, 0, hashLen)), nil
}

// CompareHashAndPassword returns nil if password is the one that hashedPassword was
// made from, and [ErrMismatchedHashAndPassword] if it is not. Of a password longer than
// 72 bytes the first 72 count. The digests are compared in constant time.
//
// It takes as long as it takes to generate a hash of hashedPassword's cost, which may
// be days: if hashes come from elsewhere, look at [Cost] first, or use a [Hasher].
//
// If hashedPassword is not a hash, it returns one of these before any work:
// [ErrHashTooShort], an [InvalidHashPrefixError], a [HashVersionTooNewError], an
// [InvalidCostError], or a [*MalformedHashError].
func CompareHashAndPassword(hashedPassword, password []byte) error {
	h, digestOK, err := parse(hashedPassword, false)
	if err != nil {
		return err
	}
	match, err := h.matches(context.Background(), nil, password)
	if err != nil {
		return err
	}
	if !match || !digestOK {
		return ErrMismatchedHashAndPassword
	}
	return nil
}

// Cost returns the cost of a hash. It looks at what stands before the salt, and returns
// the errors that [CompareHashAndPassword] returns for that part.
func Cost(hashedPassword []byte) (int, error) {
	_, cost, _, err := parsePrefix(hashedPassword)
	return cost, err
}

// matches reports whether password has h's digest. How long it takes depends on the
// cost and, for the few ambiguous passwords, on the password: these take a second
// reading whatever the hash, or the time would tell who has a 2a hash.
func (h *record) matches(ctx context.Context, c *call, password []byte) (bool, error) {
	digest, err := h.compute(ctx, c, password)
	if err != nil {
		return false, err
	}
	match := subtle.ConstantTimeCompare(digest[:], h.digest[:])
	if ambiguous(password) {
		digest, err = compute(ctx, c, password, &h.salt, iterations(h.cost), guarded)
		if err != nil {
			return false, err
		}
		if h.version == Version2a && h.prehash == 0 {
			match |= subtle.ConstantTimeCompare(digest[:], h.digest[:])
		}
	}
	return match == 1, nil
}

// compute returns the digest of password as h asks for it.
func (h *record) compute(ctx context.Context, c *call, password []byte) ([digestSize]byte, error) {
	if h.prehash != 0 {
		password = h.prehashed(password)
		defer clear(password)
	}
	return compute(ctx, c, password, &h.salt, iterations(h.cost), h.version.reading())
}

// compute is bcrypt(cost, salt, password), figure 3 of the paper, with 2^cost for cost, on
// a core that is free for it. It returns ctx.Err() if ctx ends before, and ErrBusy if
// too many calls of the same Hasher wait.
func compute(ctx context.Context, c *call, password []byte, salt *[saltSize]byte, iterations uint64, rd reading) (digest [digestSize]byte, err error) {
	if err := selfTest(); err != nil {
		return digest, err
	}
	j := jobPool.Get().(*job)
	j.setup(password, salt, rd)
	j.left, j.total, j.read, j.call = iterations, iterations, rd, c
	if err = cores.run(ctx, j); err == nil {
		digest = j.digest()
		if c != nil {
			c.admitted = true
		}
	}
	j.wipe()
	if err == nil && !j.held {
		j.state, j.passed, j.call = fresh, false, nil
		jobPool.Put(j)
	}
	return digest, err
}

// iterations returns 2^cost. At cost 31 that does not fit in an int of 32 bits.
func iterations(cost int) uint64 {
	return 1 << cost
}

var errSelfTest = errors.New("bcrypt: self-test failed: this program or machine computes bcrypt wrongly")

// selfTest checks the code against known answers, once. A wrong hash would be stored
// and found out when its user cannot log in, so it must never be returned; compilers
// and processors have been the cause. crypt_blowfish does the same on every call.
var selfTest = sync.OnceValue(checkKnownAnswers)

// checkKnownAnswers lets each kernel hash a password with bytes of 0x80 and above, which
// faulty bcrypts have read wrongly, at the cost of 0 that no hash has: one iteration. The
// password and the answers are those of crypt_blowfish's own self-test.
func checkKnownAnswers() error {
	answers := [2]record{}
	for i, text := range []string{
		"$2b$04$abcdefghijklmnopqrstuui1D709vfamulimlGcq0qq3UvuUasvEa",
		"$2x$04$abcdefghijklmnopqrstuuVUrPmXD6q/nVSSp7pNDhCR9071IfIRe",
	} {
		answers[i], _, _ = parse([]byte(text), true) // with an error no answer, and so a wrong one
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
