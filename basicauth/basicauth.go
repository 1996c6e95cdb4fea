// Package basicauth is HTTP Basic authentication (RFC 7617) with bcrypt hashes: a handler to put
// around another.
//
//	users, err := basicauth.OpenFile(".htpasswd") // made with htpasswd -B
//	…
//	auth := &basicauth.Auth{Users: users}
//	http.ListenAndServe("127.0.0.1:8080", auth.Handler(mux))
//
// # What it does
//
// A browser or a client sends name and password with each request. To hash the password each time
// would take a core for 50 ms and more, so right pairs are remembered for a while. A wrong password
// is never remembered. An unknown user costs what the costliest known one does, so the time does
// not tell who has an account.
//
// When more passwords come than the cores can hash, each address has its turn, and in it each user
// name. So whoever sends wrong passwords waits for their own hashes, and a client whose pair is
// remembered waits for none. What does not fit in the queue gets status 503, first of all from the
// address that has the most in it.
//
// Basic authentication sends the password in the clear: serve it over TLS.
//
// # What is remembered
//
// A remembered pair is an HMAC-SHA-256 of name, hash and password, under a key that is made at
// start and kept in memory only. Neither the password nor a plain digest of it is kept. But whoever
// can read the memory of the process has both key and HMAC, and can try passwords at the speed of
// HMAC and not of bcrypt, until the pair is forgotten. It is forgotten after Remember, when others
// need its place, and when the user's hash changes or goes. A negative Remember turns this off; then
// each request waits for a hash.
//
// The package overwrites its own copies of passwords. Those that net/http makes of a header stay
// until the garbage collector reuses their memory.
package basicauth

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"example.com/bcrypt"
)

// A Source is where an [Auth] gets its users: [*Users], which never change, or [*File].
type Source interface {
	// Current returns the users of this moment. It is called for each request.
	Current() *Users
}

// An Auth lets users through. Set the fields before the first use and do not change them
// afterwards. Its methods may be called from any number of goroutines at once.
type Auth struct {
	// Users are who may pass. It is required.
	Users Source

	// Realm names what is protected, in the browser's prompt. "" means "Restricted".
	Realm string

	// Remember is for how long a right pair of name and password is remembered. 0 means 5 minutes;
	// negative means not at all.
	Remember time.Duration

	// MaxRemembered is how many pairs are remembered, some 200 bytes each. 0 means 10,000.
	MaxRemembered int

	// MaxWaiting is how many requests may wait for a hash before some get status 503. 0 means 1,000;
	// negative means none may wait.
	MaxWaiting int

	// Address returns the client's address, by which turns are shared. nil means the host of
	// RemoteAddr, or the first 64 bits of an IPv6 address. Behind a proxy, return what the proxy
	// vouches for.
	Address func(*http.Request) string

	once    sync.Once
	memory  memory
	turns   turns
	flights flights
	stats   counters
}

// Stats counts the requests of an [Auth].
type Stats struct {
	Passed     uint64 `json:"passed"`     // let through
	Remembered uint64 `json:"remembered"` // of those, without a hash
	Refused    uint64 `json:"refused"`    // wrong name or password: 401
	Malformed  uint64 `json:"malformed"`  // no credentials, or none that can be read: 401
	Busy       uint64 `json:"busy"`       // too many were waiting: 503
	Cancelled  uint64 `json:"cancelled"`  // the client hung up while it waited
	Failed     uint64 `json:"failed"`     // 500: see the log
	Hashing    int    `json:"hashing"`    // passwords that are hashed now
	Waiting    int    `json:"waiting"`    // requests that wait for their turn now
	Pairs      int    `json:"pairs"`      // remembered now
}

type counters struct {
	passed, remembered, refused, malformed, busy, cancelled, failed atomic.Uint64
}

// Stats returns the present counts. It is cheap.
func (a *Auth) Stats() Stats {
	a.once.Do(a.init)
	s := Stats{
		Passed: a.stats.passed.Load(), Remembered: a.stats.remembered.Load(), Refused: a.stats.refused.Load(),
		Malformed: a.stats.malformed.Load(), Busy: a.stats.busy.Load(), Cancelled: a.stats.cancelled.Load(), Failed: a.stats.failed.Load(),
		Pairs: a.memory.len(),
	}
	s.Hashing, s.Waiting = a.turns.counts()
	return s
}

func (a *Auth) init() {
	a.memory.init(cmp.Or(a.Remember, 5*time.Minute), cmp.Or(a.MaxRemembered, 10_000))
	a.turns.maxWaiting = max(0, cmp.Or(a.MaxWaiting, 1_000))
}

type nameKey struct{}

// Name returns the name of the user who made the request, and whether there is one: in the context
// of each request that a Handler lets through.
func Name(ctx context.Context) (name string, ok bool) {
	name, ok = ctx.Value(nameKey{}).(string)
	return name, ok
}

// Handler returns a handler that calls next for requests of users with the right password, with
// any method, upgrades such as WebSocket's included. It answers others itself:
//
//   - 401 with WWW-Authenticate, for a wrong or missing name or password. Credentials that cannot
//     be read, or have more than 4 KiB, cost no hash.
//   - 503 with Retry-After, if too many wait.
//   - 500, if the program computes bcrypt wrongly.
func (a *Auth) Handler(next http.Handler) http.Handler {
	a.once.Do(a.init)
	challenge := `Basic realm="` + quote(cmp.Or(a.Realm, "Restricted")) + `", charset="UTF-8"`
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, err := a.authenticate(r)
		switch {
		case err == nil:
			a.stats.passed.Add(1)
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), nameKey{}, name)))
		case r.Context().Err() != nil:
			a.stats.cancelled.Add(1) // nobody is there to read an answer
		case errors.Is(err, bcrypt.ErrBusy):
			a.stats.busy.Add(1)
			w.Header().Set("Retry-After", "1")
			http.Error(w, "Too many requests are waiting. Try again in a second.", http.StatusServiceUnavailable)
		case errors.Is(err, errMalformed), errors.Is(err, bcrypt.ErrMismatchedHashAndPassword):
			if errors.Is(err, errMalformed) {
				a.stats.malformed.Add(1)
			} else {
				a.stats.refused.Add(1)
			}
			w.Header().Set("WWW-Authenticate", challenge)
			http.Error(w, "Wrong name or password.", http.StatusUnauthorized)
		default:
			a.stats.failed.Add(1)
			http.Error(w, "Something broke on our side.", http.StatusInternalServerError)
		}
	})
}

// quote returns text for a quoted-string of RFC 9110, without what it may not hold.
func quote(text string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\r", "", "\n", "").Replace(text)
}

// authenticate returns the name of the user who sent r.
func (a *Auth) authenticate(r *http.Request) (name string, err error) {
	header := r.Header["Authorization"]
	if len(header) != 1 {
		return "", errMalformed
	}
	name, password, err := credentials(header[0])
	if err != nil {
		return "", err
	}
	defer clear(password)
	address := clientAddress
	if a.Address != nil {
		address = a.Address
	}
	return name, a.check(r.Context(), address(r), name, password)
}

var errMalformed = errors.New("basicauth: no credentials that can be read")

// maxCredentials is the longest header that is read. bcrypt reads 72 bytes of a password.
const maxCredentials = 4 << 10

// credentials reads an Authorization header of RFC 7617. The password is the caller's to clear.
func credentials(header string) (name string, password []byte, err error) {
	scheme, encoded, ok := strings.Cut(header, " ")
	if !ok || len(header) > maxCredentials || !strings.EqualFold(scheme, "Basic") {
		return "", nil, errMalformed
	}
	decoded, err := base64.StdEncoding.Strict().DecodeString(strings.Trim(encoded, " "))
	if err != nil {
		return "", nil, errMalformed
	}
	for i, b := range decoded {
		if b == ':' {
			return string(decoded[:i]), decoded[i+1:], nil
		}
	}
	clear(decoded)
	return "", nil, errMalformed
}

// clientAddress returns the host of RemoteAddr. Whoever has one IPv6 address has 2^64 of them, so
// the last 64 bits do not count.
func clientAddress(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	if ip := net.ParseIP(host); ip != nil && ip.To4() == nil {
		return string(ip[:8])
	}
	return host
}

// check returns nil if password is the user's.
func (a *Auth) check(ctx context.Context, address, name string, password []byte) error {
	users := a.Users.Current()
	hash := users.hashes[name] // "" for an unknown user, who costs as much
	a.memory.use(users)
	pair := a.memory.pairOf(name, hash, password)
	if a.memory.has(pair) {
		a.stats.remembered.Add(1)
		return nil
	}
	return a.flights.do(ctx, pair, func() error {
		done, err := a.turns.wait(ctx, address, name, 5*runtime.GOMAXPROCS(0))
		if err != nil {
			return err
		}
		defer done()
		if err := users.hasher.Verify(ctx, hash, password); err != nil {
			return err
		}
		a.memory.add(pair, name, users)
		return nil
	})
}

// A flights runs what is asked for several times at once only once.
type flights struct {
	mu    sync.Mutex
	under map[pair]*flight
}

type flight struct {
	done chan struct{}
	err  error
}

// do returns the error of f, or of another call's f for the same pair that is running. If that call
// is cancelled or refused, the others try themselves.
func (g *flights) do(ctx context.Context, p pair, f func() error) error {
	for {
		g.mu.Lock()
		running := g.under[p]
		if running == nil {
			break
		}
		g.mu.Unlock()
		select {
		case <-running.done:
		case <-ctx.Done():
			return ctx.Err()
		}
		if running.err == nil || errors.Is(running.err, bcrypt.ErrMismatchedHashAndPassword) {
			return running.err
		}
	}
	mine := &flight{done: make(chan struct{}), err: errors.New("basicauth: the request that hashed has panicked")}
	if g.under == nil {
		g.under = map[pair]*flight{}
	}
	g.under[p] = mine
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		delete(g.under, p)
		g.mu.Unlock()
		close(mine.done)
	}()
	mine.err = f()
	return mine.err
}
