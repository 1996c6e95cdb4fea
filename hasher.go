package bcrypt

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"strings"
)

// LongPasswords is what a [Hasher] does with a password of more than 72 bytes. bcrypt
// itself reads the first 72.
type LongPasswords int

const (
	// RefuseLong returns [ErrPasswordTooLong], both to hash and to verify. The length is
	// checked before the hash, so the error does not reveal who has an account.
	RefuseLong LongPasswords = iota

	// TruncateLong uses the first 72 bytes, as most bcrypts do. It is for systems that
	// have always truncated: their users keep their passwords.
	TruncateLong

	// PrehashLong writes passlib's bcrypt-sha256 (version 2) for passwords of any length,
	// so that every byte counts. A plain bcrypt hash still verifies by the first 72 bytes,
	// and NeedsRehash asks to replace it. That is the way out of TruncateLong.
	PrehashLong
)

func (l LongPasswords) String() string {
	if names := [...]string{"RefuseLong", "TruncateLong", "PrehashLong"}; l >= 0 && int(l) < len(names) {
		return names[l]
	}
	return fmt.Sprintf("LongPasswords(%d)", int(l))
}

// A CostTooHighError is returned by [Hasher.Verify], before any work, when a stored hash
// has a cost above the Hasher's MaxCost.
type CostTooHighError struct {
	Cost    int // of the hash
	MaxCost int // of the Hasher
}

func (e *CostTooHighError) Error() string {
	return fmt.Sprintf("bcrypt: the hash has cost %d, above the limit of %d", e.Cost, e.MaxCost)
}

// A Hasher is a service's policy for passwords. The zero value is ready to use. Set the
// fields before the first use; afterwards do not change them or copy the Hasher. Its
// methods may be called from any number of goroutines at once.
//
// # Time
//
// A call takes as long as one hash of Cost, about 2^Cost times 50 µs on an Intel Xeon of
// 2023, and up to 1.4 times as long while its core runs other hashes. When every core runs
// five, a call waits for its turn.
//
// A failed Verify takes the same time whatever is stored, so it does not reveal who has an
// account: an empty hash (no such user), a malformed hash and a hash of lower cost all get
// the work of Cost. Only a stored hash above Cost takes longer; Stats counts those.
//
// # Deadlines
//
// When its context ends, a call stops using the CPU within one iteration, some 100 µs, and
// returns ctx.Err(). A result that is ready by then is returned.
type Hasher struct {
	// Cost is the base-2 logarithm of the work, 4 to 31. 0 means DefaultCost. Calibrate
	// measures it.
	Cost int

	// Version is what Hash writes: Version2b (0), Version2a or Version2y.
	Version Version

	// MaxCost is the highest cost that Verify accepts in a stored hash. 0 means 16, or
	// Cost if that is higher.
	MaxCost int

	// Long is what becomes of a password over 72 bytes.
	Long LongPasswords

	// MaxWaiting is how many calls may queue for a core before Hash and Verify return
	// ErrBusy. 0 means no limit; negative means none may wait.
	MaxWaiting int

	tally tally
	stats Stats // under the scheduler's lock, as tally is
	_     noCopy
}

// noCopy makes go vet report copies.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

func (h *Hasher) cost() int    { return cmp.Or(h.Cost, DefaultCost) }
func (h *Hasher) maxCost() int { return cmp.Or(h.MaxCost, max(16, h.cost())) }
func (h *Hasher) call() *call  { return &call{tally: &h.tally, maxWaiting: h.MaxWaiting} }

// Validate returns an error if a field is out of range. Call it at start-up, so that a
// wrong configuration does not wait for the first login. Hash and Verify return the same
// error. A Cost outside 4 to 31 is an [InvalidCostError].
func (h *Hasher) Validate() error {
	switch {
	case h.cost() < MinCost || h.cost() > MaxCost:
		return InvalidCostError(h.Cost)
	case h.Version > Version2y:
		return fmt.Errorf("bcrypt: hasher: Version is %v, want 2b, 2a or 2y", h.Version)
	case h.maxCost() < h.cost() || h.maxCost() > MaxCost:
		return fmt.Errorf("bcrypt: hasher: MaxCost is %d, want 0, or from %d (Cost) to %d", h.MaxCost, h.cost(), MaxCost)
	case h.Long < RefuseLong || h.Long > PrehashLong:
		return fmt.Errorf("bcrypt: hasher: Long is %v, want RefuseLong, TruncateLong or PrehashLong", h.Long)
	case h.Long == PrehashLong && h.Version != Version2b:
		return fmt.Errorf("bcrypt: hasher: Version is %v, want 2b, because PrehashLong writes no other", h.Version)
	}
	return nil
}

// Hash returns the hash of password under the policy, with a salt of 16 bytes from
// [crypto/rand]. With any error it returns "", which no password matches.
//
// It returns [ErrPasswordTooLong] under RefuseLong, [ErrBusy], ctx.Err(), the error of
// Validate, and that of [crypto/rand.Reader] if reading the salt fails.
func (h *Hasher) Hash(ctx context.Context, password []byte) (string, error) {
	if err := h.admit(password); err != nil {
		return "", err
	}
	r := record{version: h.Version, cost: h.cost()}
	if h.Long == PrehashLong {
		r.form = sha256Form
	}
	if _, err := io.ReadFull(rand.Reader, r.salt[:]); err != nil {
		return "", err
	}
	var err error
	c := h.call()
	r.digest, err = r.compute(ctx, c, password)
	h.count(c, err, false)
	if err != nil {
		return "", err
	}
	return string(r.appendTo(nil)), nil
}

// Verify returns nil if password is the one that hash was made from. For a user who does
// not exist call it with an empty hash: that takes as long as any other. hash may be in any
// [Form], and padding may follow it; otherwise it is exactly what a bcrypt writes.
//
// RefuseLong refuses a password over 72 bytes before it looks at the hash, also for forms that
// digest the password first, or the error would reveal who has an account. For tables from
// Django or WordPress use PrehashLong or TruncateLong: then such a form takes a password of any
// length in full.
//
// It returns [ErrMismatchedHashAndPassword] for another password or an empty hash,
// [ErrPasswordTooLong] under RefuseLong, a [*NotBcryptError] for the hash of another scheme, a
// [*MalformedHashError] if hash is not a hash, a [*CostTooHighError], [ErrBusy], ctx.Err(),
// and the error of Validate. No error holds a byte of hash or password.
func (h *Hasher) Verify(ctx context.Context, hash string, password []byte) error {
	if err := h.admit(password); err != nil {
		return err
	}
	r, malformed := readHash(hash)
	if malformed != nil {
		r = record{cost: h.cost()} // a decoy
	}
	if r.cost > h.maxCost() {
		return &CostTooHighError{Cost: r.cost, MaxCost: h.maxCost()}
	}
	c := h.call()
	match, err := r.verify(ctx, c, password, h.cost())
	h.count(c, err, r.cost > h.cost())
	switch {
	case err != nil:
		return err
	case malformed != nil && hash != "":
		return malformed
	case malformed != nil || !match:
		return ErrMismatchedHashAndPassword
	}
	return nil
}

// VerifyAndUpgrade is what a login calls. It is Verify, and then, if the password is right
// and NeedsRehash says so, Hash. Store newHash in place of hash; if it is "", store
// nothing. A rehash that fails, because the cores are busy or ctx ends, does not fail the
// login. The next login tries again.
//
// Replace only the hash that was verified, or a password changed in the meantime is changed
// back:
//
//	UPDATE users SET hash = $newHash WHERE id = $id AND hash = $hash
//
// It returns the errors of Verify.
func (h *Hasher) VerifyAndUpgrade(ctx context.Context, hash string, password []byte) (newHash string, err error) {
	if err := h.Verify(ctx, hash, password); err != nil {
		return "", err
	}
	if h.NeedsRehash(hash) {
		newHash, _ = h.Hash(ctx, password)
	}
	return newHash, nil
}

// NeedsRehash reports whether hash is below the policy: it has a lower cost, it is version
// 2 or 2x, it is in another system's form or bcrypt-sha256's version 1, it is a bare hash
// under PrehashLong, or it is not a hash at all. A higher cost is not below, and neither is
// the difference between 2a, 2b and 2y. So hosts that have calibrated to different costs do
// not rewrite each other's hashes. Padding is no reason either: a CHAR(72) column would give
// it back.
func (h *Hasher) NeedsRehash(hash string) bool {
	r, err := readHash(hash)
	return err != nil || r.cost < h.cost() || r.version == Version2 || r.version == Version2x ||
		r.form != nil && r.form != sha256Form || r.form == nil && h.Long == PrehashLong
}

// Stats counts the calls of a [Hasher].
type Stats struct {
	Done      uint64 `json:"done"`       // calls that hashed to the end, with either answer
	Refused   uint64 `json:"refused"`    // calls that got ErrBusy
	Cancelled uint64 `json:"cancelled"`  // calls whose context ended first
	AboveCost uint64 `json:"above_cost"` // calls of Verify that hashed above Cost, which takes longer
	Running   int    `json:"running"`    // calls on a core now
	Waiting   int    `json:"waiting"`    // calls in the queue now
}

// Stats returns the present counts, all of one moment. It is cheap. A call that returns
// before any work is counted only if it gets ErrBusy or its context has ended.
func (h *Hasher) Stats() Stats {
	cores.mu.Lock()
	defer cores.mu.Unlock()
	stats := h.stats
	stats.Running, stats.Waiting = h.tally.running, h.tally.waiting
	return stats
}

// admit checks the policy and the length of the password, before any work.
func (h *Hasher) admit(password []byte) error {
	if err := h.Validate(); err != nil {
		return err
	}
	if h.Long == RefuseLong && len(password) > maxPasswordLen {
		return ErrPasswordTooLong
	}
	return nil
}

// count counts a call that ended with err. above says that it was for a hash above Cost,
// which counts if the hash was begun.
func (h *Hasher) count(c *call, err error, above bool) {
	cores.mu.Lock()
	defer cores.mu.Unlock()
	if above && c.begun {
		h.stats.AboveCost++
	}
	switch err {
	case nil:
		h.stats.Done++
	case ErrBusy:
		h.stats.Refused++
	case errSelfTest:
	default:
		h.stats.Cancelled++
	}
}

// HashInfo is what can be read from a hash without the password.
type HashInfo struct {
	Version Version
	Cost    int
	Salt    [16]byte
	Form    Form
	Prehash int // version of bcrypt-sha256, 1 or 2; 0 for the other forms
	Padding int // bytes after the hash: spaces, tabs, newlines and NULs
}

// Inspect reads a hash in any [Form], as [Hasher.Verify] does. It returns a [*NotBcryptError] for
// the hash of another scheme, and a [*MalformedHashError] for any other text. That of a hash
// that was damaged says how. It takes less than a microsecond.
func Inspect(hash string) (HashInfo, error) {
	r, err := readHash(hash)
	if err != nil {
		return HashInfo{}, err
	}
	info := HashInfo{Version: r.version, Cost: r.cost, Salt: r.salt, Form: FormBare, Prehash: r.sha256()}
	if r.form != nil {
		info.Form = r.form.name
	}
	info.Padding = len(hash) - len(strings.TrimRight(hash, padding))
	return info, nil
}

// HashWithSalt returns the hash of password with the given cost, version (Version2b,
// Version2a or Version2y) and salt. It is for protocols that fix the salt, such as queries
// for leaked passwords, and for known-answer tests.
//
// Do not store its hashes: use [Hasher.Hash]. With a salt that is reused or can be guessed,
// equal passwords have equal hashes, and an attacker can compute hashes in advance.
//
// It returns [ErrPasswordTooLong] for more than 72 bytes, and an [InvalidCostError] for a
// cost outside 4 to 31. With any error it returns "".
func HashWithSalt(password []byte, cost int, version Version, salt [16]byte) (string, error) {
	switch {
	case len(password) > maxPasswordLen:
		return "", ErrPasswordTooLong
	case cost < MinCost || cost > MaxCost:
		return "", InvalidCostError(cost)
	case version > Version2y:
		return "", fmt.Errorf("bcrypt: version is %v, want 2b, 2a or 2y", version)
	}
	r := record{version: version, cost: cost, salt: salt}
	var err error
	if r.digest, err = r.compute(context.Background(), nil, password); err != nil {
		return "", err
	}
	return string(r.appendTo(nil)), nil
}
