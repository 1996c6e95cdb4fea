package basicauth

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"example.com/bcrypt"
)

// Users are names and hashes. They do not change.
type Users struct {
	hashes map[string]string
	hasher *bcrypt.Hasher
}

// A HashError says whose hash cannot be used, and why. errors.As finds the reason behind it, such as
// a [*bcrypt.NotBcryptError]. It holds no byte of the hash.
type HashError struct {
	Name string
	Line int // of the file, or 0
	Err  error
}

func (e *HashError) Error() string {
	where := fmt.Sprintf("user %q", e.Name)
	if e.Line > 0 {
		where = fmt.Sprintf("line %d, %s", e.Line, where)
	}
	return "basicauth: " + where + ": " + strings.TrimPrefix(e.Err.Error(), "bcrypt: ")
}

func (e *HashError) Unwrap() error { return e.Err }

// maxCost is the highest cost that a hash may have: each wrong guess for anybody costs as much.
const maxCost = 16

// NewUsers returns users with the hashes given, by name, in any form that a [bcrypt.Hasher] reads. It
// returns a [*HashError] for a hash that is not bcrypt, is damaged, or has a cost above 16.
func NewUsers(hashes map[string]string) (*Users, error) {
	u := &Users{hashes: map[string]string{}}
	for name, hash := range hashes {
		if err := u.add(name, hash); err != nil {
			return nil, &HashError{Name: name, Err: err}
		}
	}
	return u.ready(), nil
}

// add adds a user. The hash is checked.
func (u *Users) add(name, hash string) error {
	info, err := bcrypt.Inspect(hash)
	switch {
	case err != nil:
		return err
	case name == "" || strings.Contains(name, ":"):
		return errors.New("a name has at least one byte, and no colon")
	case info.Cost > maxCost:
		return &bcrypt.CostTooHighError{Cost: info.Cost, MaxCost: maxCost}
	}
	u.hashes[name] = hash
	return nil
}

// ready makes the policy by which these users are verified: whoever is unknown, or has a cheaper
// hash, costs as much as the costliest. Long passwords are compared by their first 72 bytes, as
// Apache does, or in full where a form digests them.
func (u *Users) ready() *Users {
	u.hasher = &bcrypt.Hasher{Cost: bcrypt.MinCost, MaxCost: maxCost, Long: bcrypt.TruncateLong}
	for _, hash := range u.hashes {
		if info, err := bcrypt.Inspect(hash); err == nil {
			u.hasher.Cost = max(u.hasher.Cost, info.Cost)
		}
	}
	return u
}

// Current returns u.
func (u *Users) Current() *Users { return u }

// Len returns the number of users.
func (u *Users) Len() int { return len(u.hashes) }

// A DuplicateError says that a name stands in a file twice. The first counts.
type DuplicateError struct {
	Name        string
	Line, First int
}

func (e *DuplicateError) Error() string {
	return fmt.Sprintf("basicauth: line %d: user %q is in line %d already, which counts", e.Line, e.Name, e.First)
}

// ReadUsers reads an htpasswd file, as htpasswd -B writes it: a name, a colon and a hash a line. A
// byte order mark, CR before LF, blank lines, and comments after # are passed over. What follows a
// second colon is ignored. It returns a [*HashError] for the first line that is not a name and a
// bcrypt hash, and a warning for each name that stands there twice.
func ReadUsers(in io.Reader) (u *Users, warnings []*DuplicateError, err error) {
	u = &Users{hashes: map[string]string{}}
	first := map[string]int{}
	lines := bufio.NewScanner(in)
	for number := 1; lines.Scan(); number++ {
		line := lines.Bytes()
		if number == 1 {
			line = bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		name, hash, ok := strings.Cut(string(line), ":")
		if !ok {
			return nil, nil, &HashError{Line: number, Err: errors.New("want a name, a colon and a hash")}
		}
		hash, _, _ = strings.Cut(hash, ":")
		if first[name] > 0 {
			warnings = append(warnings, &DuplicateError{Name: name, Line: number, First: first[name]})
			continue
		}
		if err := u.add(name, hash); err != nil {
			return nil, nil, &HashError{Name: name, Line: number, Err: err}
		}
		first[name] = number
	}
	if err := lines.Err(); err != nil {
		return nil, nil, fmt.Errorf("basicauth: line too long, or cannot be read: %w", err)
	}
	return u.ready(), warnings, nil
}

// A File is an htpasswd file that is read again when it changes, whether it is written in place or
// replaced by a rename. A change takes effect within some 2 s. What is wrong with a new version is
// reported, and the last good one stays in use.
type File struct {
	// Report, if not nil, is called with what is wrong with a new version, or with a
	// [*DuplicateError]. It is called during a request, so it must not block. nil means
	// [slog.Warn]. Set it before the first request.
	Report func(error)

	path    string
	current atomic.Pointer[Users]
	checked atomic.Int64 // when the file was last looked at, in nanoseconds since 1970

	mu   sync.Mutex  // for what follows
	used fs.FileInfo // of the version that was last read
	seen fs.FileInfo // of another version, which is read if it is still there at the next look
	bad  string      // what was last reported
}

// OpenFile reads an htpasswd file. See [ReadUsers] for what may be in it.
func OpenFile(path string) (*File, error) {
	f := &File{path: path}
	users, warnings, info, err := f.read()
	if err != nil {
		return nil, err
	}
	f.current.Store(users)
	if time.Since(info.ModTime()) > 2*interval { // or it may be written again in the same tick of its time
		f.used = info
	}
	f.checked.Store(time.Now().UnixNano())
	for _, w := range warnings {
		f.report(w)
	}
	return f, nil
}

// interval is how often a file is looked at, at most.
const interval = time.Second

// Current returns the users of the file. At most once a second it looks whether the file has another
// time or size, or is another one by that name.
func (f *File) Current() *Users {
	now := time.Now().UnixNano()
	if last := f.checked.Load(); now-last >= int64(interval) && f.checked.CompareAndSwap(last, now) {
		f.check()
	}
	return f.current.Load()
}

// check reads the file again if it has changed, and not since the last look: a program that writes
// the file in place truncates it first, and an empty file is one without users.
func (f *File) check() {
	f.mu.Lock()
	defer f.mu.Unlock()
	info, err := os.Stat(f.path)
	switch {
	case err != nil:
		f.report(fmt.Errorf("basicauth: %w", err))
		return
	case same(f.used, info):
		f.report(nil)
		return
	case !same(f.seen, info):
		f.seen = info
		return
	}
	users, warnings, info, err := f.read()
	if !same(f.seen, info) && err == nil {
		return // it was written meanwhile
	}
	f.used = f.seen
	f.report(err)
	if err == nil && !maps.Equal(f.current.Load().hashes, users.hashes) {
		f.current.Store(users)
		for _, w := range warnings {
			f.report(w)
		}
	}
}

// same reports whether two looks at a file saw one version of it.
func same(a, b fs.FileInfo) bool {
	return a != nil && b != nil && os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// read reads the file. info is from after it was read.
func (f *File) read() (users *Users, warnings []*DuplicateError, info fs.FileInfo, err error) {
	file, err := os.Open(f.path)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("basicauth: %w", err)
	}
	defer file.Close()
	if users, warnings, err = ReadUsers(file); err != nil {
		return nil, nil, nil, err
	}
	if info, err = file.Stat(); err != nil {
		return nil, nil, nil, fmt.Errorf("basicauth: %w", err)
	}
	return users, warnings, info, nil
}

// report tells of an error, once until there is another. nil means that all is well.
func (f *File) report(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	known := text == f.bad
	if !errors.As(err, new(*DuplicateError)) {
		f.bad = text
	}
	switch {
	case err == nil || known:
	case f.Report != nil:
		f.Report(err)
	default:
		slog.Warn("the users' file has a fault; the last good version is in use", "file", f.path, "err", err)
	}
}
