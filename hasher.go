package bcrypt

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
)

// LongPasswords is what a [Hasher] does with passwords of more than 72 bytes, of which
// bcrypt reads the first 72.
type LongPasswords int

const (
	// RefuseLong returns [ErrPasswordTooLong], when hashing and when verifying. The
	// length is looked at before the hash, so the error tells nothing of who exists.
	RefuseLong LongPasswords = iota

	// TruncateLong lets the first 72 bytes count, as most bcrypts do. It is there for
	// systems that have done so: their users keep their passwords.
	TruncateLong

	// PrehashLong writes passlib's bcrypt-sha256 (version 2), for passwords of any
	// length, so that all of a password counts. Of a plain bcrypt hash the first 72 bytes
	// are verified, and NeedsRehash asks to replace it: the way out of TruncateLong.
	PrehashLong
)

func (l LongPasswords) String() string {
	if names := [...]string{"RefuseLong", "TruncateLong", "PrehashLong"}; l >= 0 && int(l) < len(names) {
		return names[l]
	}
	return fmt.Sprintf("LongPasswords(%d)", int(l))
}

// ErrBusy is returned by the methods of a [Hasher] when as many of its calls wait as its
// MaxWaiting allows. A web service answers it with status 503.
var ErrBusy = errors.New("bcrypt: too many calls are waiting")

// ErrUnsupportedVersion matches, with [errors.Is], a [*MalformedHashError] that comes from
// a text that starts like a hash but of a version that this package does not know: what is
// stored may be the hash of another scheme.
var ErrUnsupportedVersion = errors.New("bcrypt: unsupported version")

// Is makes errors.Is(e, ErrUnsupportedVersion) work.
func (e *MalformedHashError) Is(target error) bool {
	return target == ErrUnsupportedVersion && (e.Want == wantMajor || e.Want == wantMinor || e.Want == wantPrehash)
}

// A CostTooHighError is returned by [Hasher.Verify], before any work, when the cost of the
// stored hash is above the Hasher's MaxCost.
type CostTooHighError struct {
	Cost    int // of the hash
	MaxCost int // of the Hasher
}

func (e *CostTooHighError) Error() string {
	return fmt.Sprintf("bcrypt: the hash has cost %d, above the limit of %d", e.Cost, e.MaxCost)
}

// A Hasher is a service's policy for passwords. The zero value is ready to use. Set the
// fields before the first use and do not change them, nor copy a Hasher, afterwards. Its
// methods may be called from any number of goroutines at once.
//
// # Time
//
// A call takes the time of one hash of Cost, some 2^Cost times 70 µs on a current server,
// and up to 1.4 times that among others on its core; and it waits for its turn when more
// calls come than the cores hold, five on each. How long Verify takes to say no depends
// on the password and the policy alone, not on what is stored, so that it does not tell
// who has an account: for an empty hash, which stands for a user who does not exist, and
// for a malformed one it does the work of a hash of Cost; for a hash of lower cost it
// goes on to that work. A stored hash above Cost takes longer; Stats counts those.
//
// # Deadlines
//
// A call whose context ends stops using a CPU within one iteration, some 100 µs, and
// returns ctx.Err(). A result that is ready by then is returned.
type Hasher struct {
	Cost       int           // 4 to 31; 0 means DefaultCost. See Calibrate
	Version    Version       // that Hash writes: Version2b (0), Version2a or Version2y
	MaxCost    int           // Verify refuses hashes above it; 0 means the larger of 16 and Cost
	Long       LongPasswords // what becomes of passwords over 72 bytes
	MaxWaiting int           // calls that may wait for a place on a core: one more gets ErrBusy at once; 0: no limit, negative: none

	tally tally
	_     noCopy
}

// noCopy makes go vet complain of copies.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

func (h *Hasher) cost() int    { return cmp.Or(h.Cost, DefaultCost) }
func (h *Hasher) maxCost() int { return cmp.Or(h.MaxCost, max(16, h.cost())) }

// Validate returns an error if the fields make no policy, so that a wrong configuration
// fails when the service starts and not at the first login; Hash and Verify return it too.
// A Cost outside 4 to 31 is an [InvalidCostError].
func (h *Hasher) Validate() error {
	switch {
	case h.cost() < MinCost || h.cost() > MaxCost:
		return InvalidCostError(h.Cost)
	case h.Version > Version2y:
		return fmt.Errorf("bcrypt: hasher: Version is %v, want 2b, 2a or 2y", h.Version)
	case h.maxCost() < h.cost() || h.maxCost() > MaxCost:
		return fmt.Errorf("bcrypt: hasher: MaxCost is %d, want 0 or Cost, which is %d, to %d", h.MaxCost, h.cost(), MaxCost)
	case h.Long < RefuseLong || h.Long > PrehashLong:
		return fmt.Errorf("bcrypt: hasher: Long is %v, want RefuseLong, TruncateLong or PrehashLong", h.Long)
	case h.Long == PrehashLong && h.Version != Version2b:
		return fmt.Errorf("bcrypt: hasher: Version is %v, want 2b, which bcrypt-sha256 is made with", h.Version)
	}
	return nil
}

// Hash returns the hash of password under the policy, with a salt of 16 bytes from
// [crypto/rand]. With any error it returns "", which Verify never matches.
//
// It returns [ErrPasswordTooLong] under RefuseLong, [ErrBusy], ctx.Err(), the error of
// Validate, and that of [crypto/rand.Reader] if it has one.
func (h *Hasher) Hash(ctx context.Context, password []byte) (string, error) {
	if err := h.admit(password); err != nil {
		return "", err
	}
	r := record{version: h.Version, cost: h.cost()}
	if h.Long == PrehashLong {
		r.prehash = 2
	}
	if _, err := io.ReadFull(rand.Reader, r.salt[:]); err != nil {
		return "", err
	}
	var err error
	r.digest, err = r.compute(ctx, &call{Hasher: h}, password)
	h.count(err, false)
	if err != nil {
		return "", err
	}
	return string(r.appendTo(nil)), nil
}

// Verify returns nil if password is the one that hash was made from. hash is strictly one
// of the texts that bcrypts write: no byte may follow it. For a user who does not exist
// call Verify with an empty hash: it takes as long as any other.
//
// It returns [ErrMismatchedHashAndPassword] for another password and for an empty hash;
// [ErrPasswordTooLong] under RefuseLong; a [*MalformedHashError] if hash is none, which
// matches [ErrUnsupportedVersion] if it looks like that of another scheme; a
// [*CostTooHighError]; [ErrBusy]; ctx.Err(); and the error of Validate. No error holds a
// byte of hash or password.
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
	c := &call{Hasher: h}
	match, err := r.matches(ctx, c, password)
	if err == nil && !match && r.cost < h.cost() {
		err = c.makeUp(ctx, password, iterations(h.cost())-iterations(r.cost))
	}
	h.count(err, r.cost > h.cost())
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

// VerifyAndUpgrade is what a login calls: Verify, and, if the password is right and
// NeedsRehash says so, Hash. newHash is to be stored in the place of hash; if it is "",
// store nothing. An upgrade that fails, since the cores are busy or ctx ends, does not fail
// the login: it will be tried at the next.
//
// Store newHash only where hash still stands, as in
//
//	UPDATE users SET hash = $newHash WHERE id = $id AND hash = $hash
//
// or a password that was changed meanwhile is changed back.
func (h *Hasher) VerifyAndUpgrade(ctx context.Context, hash string, password []byte) (newHash string, err error) {
	if err := h.Verify(ctx, hash, password); err != nil {
		return "", err
	}
	if h.NeedsRehash(hash) {
		newHash, _ = h.Hash(ctx, password)
	}
	return newHash, nil
}

// NeedsRehash reports whether hash is below the policy: of lower cost, of version 2 or 2x,
// of bcrypt-sha256's version 1, a plain hash under PrehashLong, or no hash at all. A higher
// cost and the difference between 2a, 2b and 2y are not below, so that hosts which have
// calibrated to different costs do not rewrite each other's hashes.
func (h *Hasher) NeedsRehash(hash string) bool {
	r, err := readHash(hash)
	return err != nil || r.cost < h.cost() || r.version == Version2 || r.version == Version2x ||
		r.prehash == 1 || r.prehash == 0 && h.Long == PrehashLong
}

// Stats is what the calls of a [Hasher] have come to, and what those under way do.
type Stats struct {
	Done      uint64 `json:"done"`       // calls that hashed to their end, whatever came out
	Refused   uint64 `json:"refused"`    // with ErrBusy
	Cancelled uint64 `json:"cancelled"`  // by their contexts
	AboveCost uint64 `json:"above_cost"` // calls of Verify for hashes above Cost, which take longer
	Running   int    `json:"running"`    // calls that are on a core
	Waiting   int    `json:"waiting"`    // calls that wait for a place on one
}

// Stats returns the present numbers, all of one moment. It is cheap. Calls that were
// refused before any work for another reason than ErrBusy are not counted.
func (h *Hasher) Stats() Stats {
	cores.mu.Lock()
	defer cores.mu.Unlock()
	stats := h.tally.calls
	stats.Running, stats.Waiting = h.tally.running, h.tally.waiting
	return stats
}

// admit checks what can be checked before any work.
func (h *Hasher) admit(password []byte) error {
	if err := h.Validate(); err != nil {
		return err
	}
	if h.Long == RefuseLong && len(password) > maxPasswordLen {
		return ErrPasswordTooLong
	}
	return nil
}

// makeUp does the work that a hash of lower cost has not taken: for passwords with two
// readings, twice.
func (c *call) makeUp(ctx context.Context, password []byte, missing uint64) error {
	if ambiguous(password) {
		missing *= 2
	}
	_, err := compute(ctx, c, password, new([saltSize]byte), missing, plain)
	return err
}

// count counts a call that ended with err, for a hash above Cost or not.
func (h *Hasher) count(err error, above bool) {
	cores.mu.Lock()
	defer cores.mu.Unlock()
	if above {
		h.tally.calls.AboveCost++
	}
	switch err {
	case nil:
		h.tally.calls.Done++
	case ErrBusy:
		h.tally.calls.Refused++
	case errSelfTest:
	default:
		h.tally.calls.Cancelled++
	}
}

// HashInfo is what a hash tells without the password.
type HashInfo struct {
	Version Version
	Cost    int
	Salt    [16]byte
	Prehash int // version of bcrypt-sha256, 1 or 2; 0 for plain bcrypt
}

// Inspect reads a hash as strictly as [Hasher.Verify]. It returns a [*MalformedHashError]
// if hash is none.
func Inspect(hash string) (HashInfo, error) {
	r, err := readHash(hash)
	if err != nil {
		return HashInfo{}, err
	}
	return HashInfo{Version: r.version, Cost: r.cost, Salt: r.salt, Prehash: r.prehash}, nil
}

// HashWithSalt is not for storing passwords: with a salt that is used twice, or can be
// guessed, equal passwords have equal hashes, and those can be computed ahead. Use
// [Hasher.Hash]. HashWithSalt is for protocols that fix the salt, such as SRP over a
// bcrypt hash and queries for leaked passwords, and for known-answer tests.
//
// It returns the hash of password of the cost and version, Version2b, Version2a or
// Version2y. It returns [ErrPasswordTooLong] for more than 72 bytes, and an
// [InvalidCostError] for a cost outside 4 to 31. With any error it returns "".
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
