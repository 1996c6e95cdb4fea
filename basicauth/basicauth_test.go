package basicauth

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.com/bcrypt"
	"github.com/stretchr/testify/require"
)

// hashOf returns a hash of cost 4, or another.
func hashOf(t testing.TB, password string, cost int) string {
	t.Helper()
	hash, err := bcrypt.HashWithSalt([]byte(password), cost, bcrypt.Version2y, [16]byte{1})
	require.NoError(t, err)
	return hash
}

// newAuth has the users ann and bob, whose passwords are their names.
func newAuth(t testing.TB) *Auth {
	t.Helper()
	users, err := NewUsers(map[string]string{"ann": hashOf(t, "ann", 4), "bob": hashOf(t, "bob", 4)})
	require.NoError(t, err)
	return &Auth{Users: users}
}

// ask sends a request with the header to a's handler, and returns the answer.
func ask(a *Auth, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", "/", nil)
	if len(header) > 0 {
		r.Header["Authorization"] = header
	}
	w := httptest.NewRecorder()
	a.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, ok := Name(r.Context())
		fmt.Fprint(w, name, ok)
	})).ServeHTTP(w, r)
	return w
}

func basic(name, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(name+":"+password))
}

func TestHandler(t *testing.T) {
	a := newAuth(t)
	a.Realm = `a "realm" \ of` + "\r\n mine"
	w := ask(a, basic("ann", "ann"))
	require.Equal(t, 200, w.Code)
	require.Equal(t, "anntrue", w.Body.String())
	for _, header := range []string{basic("ann", "bob"), basic("cleo", "ann"), basic("", ""), basic("ann", ""), basic("ANN", "ann")} {
		w = ask(a, header)
		require.Equal(t, 401, w.Code, header)
		require.Equal(t, `Basic realm="a \"realm\" \\ of mine", charset="UTF-8"`, w.Header().Get("WWW-Authenticate"))
	}
	require.Equal(t, Stats{Passed: 1, Refused: 5, Pairs: 1}, a.Stats())
	require.Equal(t, 200, ask(a, strings.Replace(basic("ann", "ann"), "Basic", "bASIC", 1)).Code)
	require.Equal(t, Stats{Passed: 2, Remembered: 1, Refused: 5, Pairs: 1}, a.Stats())
	_, ok := Name(context.Background())
	require.False(t, ok)
	require.Equal(t, `Basic realm="Restricted", charset="UTF-8"`, ask(newAuth(t)).Header().Get("WWW-Authenticate"))
}

// Headers that cannot be read are 401 and cost no hash, however long they are.
func TestMalformedHeaders(t *testing.T) {
	a := newAuth(t)
	good := basic("ann", "ann")
	headers := [][]string{
		{}, {""}, {"Basic"}, {"Basic "}, {"Basic !"}, {"Bearer " + good[6:]}, {good[6:]}, {good, good}, {good + "="}, {good[:len(good)-1]},
		{"Basic " + base64.StdEncoding.EncodeToString([]byte("no colon"))}, {"Basic\t" + good[6:]}, {good + " x"},
		{basic("ann", strings.Repeat("x", 1<<20))}, {strings.Repeat("Basic ", 1<<18)}, {"Basic " + strings.Repeat(" ", maxCredentials)},
	}
	for _, header := range headers {
		w := ask(a, header...)
		require.Equal(t, 401, w.Code, "%.40q", header)
		require.NotEmpty(t, w.Header().Get("WWW-Authenticate"))
	}
	require.Equal(t, Stats{Malformed: uint64(len(headers))}, a.Stats())
	require.Zero(t, a.Users.Current().hasher.Stats().Done)
	require.Equal(t, 200, ask(a, strings.Replace(good, " ", "   ", 1)).Code)
}

// A name may have any byte but a colon; a password any byte.
func TestEveryByte(t *testing.T) {
	for b := range 256 {
		name, password := "n"+string([]byte{byte(b)}), "p"+string([]byte{byte(b)})
		users, err := NewUsers(map[string]string{name: hashOf(t, password, 4)})
		if b == ':' {
			require.Error(t, err)
			continue
		}
		require.NoError(t, err)
		a := &Auth{Users: users}
		require.Equal(t, 200, ask(a, basic(name, password)).Code, b)
		require.Equal(t, 401, ask(a, basic(name, password+"x")).Code, b)
		require.Equal(t, 401, ask(a, basic(name+"x", password)).Code, b)
	}
	require.Equal(t, 200, ask(&Auth{Users: must(NewUsers(map[string]string{"ann": hashOf(t, "a:b:", 4)}))}, basic("ann", "a:b:")).Code)
}

func must(u *Users, err error) *Users {
	if err != nil {
		panic(err)
	}
	return u
}

// Any method and an upgrade pass alike: the handler does not stand between.
func TestMethodsAndUpgrades(t *testing.T) {
	a := newAuth(t)
	server := httptest.NewServer(a.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "websocket" {
			w.Header().Set("X-Method", r.Method)
			return
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nhello")
	})))
	defer server.Close()
	for _, method := range []string{"GET", "HEAD", "OPTIONS", "POST", "PATCH", "TRACE"} {
		r, err := http.NewRequest(method, server.URL, nil)
		require.NoError(t, err)
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.Equal(t, 401, answer.StatusCode, method)
		r.SetBasicAuth("ann", "ann")
		answer, err = http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.Equal(t, 200, answer.StatusCode)
		require.Equal(t, method, answer.Header.Get("X-Method"))
	}
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nAuthorization: %s\r\n\r\n", basic("bob", "bob"))
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	require.Equal(t, 101, answer.StatusCode)
}

// Whoever is unknown, or has a cheaper hash, costs what the costliest known user does.
func TestUnknownUsersCost(t *testing.T) {
	users := must(NewUsers(map[string]string{"cheap": hashOf(t, "x", 4), "costly": hashOf(t, "x", 7), "wrapped": "{CRYPT}" + hashOf(t, "x", 6)}))
	require.Equal(t, 7, users.hasher.Cost)
	require.Equal(t, 3, users.Len())
	require.Equal(t, bcrypt.MinCost, must(NewUsers(nil)).hasher.Cost)
	if os.Getenv("BCRYPT_TIMING") == "" {
		return
	}
	a := &Auth{Users: must(NewUsers(map[string]string{"cheap": hashOf(t, "x", 4), "costly": hashOf(t, "x", 9)})), Remember: -1}
	took := map[string][]time.Duration{}
	for i := range 41 {
		for _, name := range []string{"cheap", "costly", "unknown"} {
			start := time.Now()
			require.Equal(t, 401, ask(a, basic(name, fmt.Sprint("wrong", i))).Code)
			took[name] = append(took[name], time.Since(start))
		}
	}
	median := func(name string) float64 { slices.Sort(took[name]); return took[name][20].Seconds() }
	for _, name := range []string{"cheap", "unknown"} {
		ratio := median(name) / median("costly")
		t.Logf("%s: %.3f of the time of a costly user", name, ratio)
		require.InDelta(t, 1, ratio, 0.05, name)
	}
}

// hashed returns how many passwords a has hashed to the end.
func hashed(a *Auth) uint64 { return a.Users.Current().hasher.Stats().Done }

// A right pair is remembered for its time, and a wrong one never.
func TestRemember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAuth(t)
		a.Remember = time.Minute
		for range 3 {
			require.Equal(t, 200, ask(a, basic("ann", "ann")).Code)
		}
		require.EqualValues(t, 1, hashed(a))
		time.Sleep(time.Minute - 1)
		require.Equal(t, 200, ask(a, basic("ann", "ann")).Code)
		require.EqualValues(t, 1, hashed(a))
		time.Sleep(time.Nanosecond)
		require.Equal(t, 200, ask(a, basic("ann", "ann")).Code)
		require.EqualValues(t, 2, hashed(a))
		for range 3 {
			require.Equal(t, 401, ask(a, basic("ann", "wrong")).Code)
		}
		require.EqualValues(t, 5, hashed(a))
		require.Equal(t, 1, a.Stats().Pairs)
	})
	a := newAuth(t)
	a.Remember = -1
	for range 3 {
		require.Equal(t, 200, ask(a, basic("ann", "ann")).Code)
	}
	require.EqualValues(t, 3, hashed(a))
	require.Zero(t, a.Stats().Pairs)
}

// The oldest pair gives way to a new one, and 100,000 users take no more memory than fit.
func TestRememberLimit(t *testing.T) {
	a := newAuth(t)
	a.MaxRemembered = 1
	for _, name := range []string{"ann", "bob", "bob", "ann"} {
		require.Equal(t, 200, ask(a, basic(name, name)).Code)
	}
	require.EqualValues(t, 3, hashed(a))

	var m memory
	m.init(time.Hour, 1000)
	users := &Users{}
	m.use(users)
	heap := func() uint64 {
		var s runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&s)
		return s.HeapAlloc
	}
	fill := func(from int) {
		for i := from; i < from+50_000; i++ {
			name := fmt.Sprint("user", i)
			m.add(m.pairOf(name, "hash", []byte("password")), name, users)
		}
	}
	fill(0)
	before := heap()
	fill(50_000)
	require.Less(t, int64(heap())-int64(before), int64(1<<20))
	require.Equal(t, 1000, m.len())
	require.Len(t, m.pairs, m.oldest.Len())
	require.True(t, m.has(m.pairOf("user99999", "hash", []byte("password"))))
	require.False(t, m.has(m.pairOf("user0", "hash", []byte("password"))))
}

// No two of name, hash and password make one pair, and each process has a key of its own.
func TestPairs(t *testing.T) {
	var m, other memory
	m.init(time.Hour, 1)
	other.init(time.Hour, 1)
	seen := map[pair]bool{}
	for _, parts := range [][3]string{{"a", "b", "c"}, {"ab", "", "c"}, {"", "ab", "c"}, {"a", "bc", ""}, {"abc", "", ""}, {"", "", "abc"}, {"a", "b", "c\x00"}} {
		p := m.pairOf(parts[0], parts[1], []byte(parts[2]))
		require.False(t, seen[p])
		seen[p] = true
		require.NotEqual(t, p, other.pairOf(parts[0], parts[1], []byte(parts[2])))
	}
}

// Equal requests under way share one hash. If the one that hashes is cancelled, the others go on.
func TestJoinedRequests(t *testing.T) {
	users := must(NewUsers(map[string]string{"ann": hashOf(t, "ann", 9)}))
	a := &Auth{Users: users}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if w := ask(a, basic("ann", "ann")); w.Code != 200 {
				t.Error(w.Code)
			}
			if w := ask(a, basic("ann", "wrong")); w.Code != 401 {
				t.Error(w.Code)
			}
		})
	}
	wg.Wait()
	require.Less(t, hashed(a), uint64(15)) // one for ann, and few for the wrong one, which is not remembered

	var g flights
	ctx, cancel := context.WithCancel(context.Background())
	started := make(chan struct{})
	first := make(chan error)
	go func() {
		first <- g.do(ctx, pair{1}, func() error { close(started); <-ctx.Done(); return ctx.Err() })
	}()
	<-started
	second := make(chan error)
	go func() { second <- g.do(context.Background(), pair{1}, func() error { return nil }) }()
	third, stop := context.WithCancel(context.Background())
	stop()
	require.Equal(t, context.Canceled, g.do(third, pair{1}, nil))
	cancel()
	require.Equal(t, context.Canceled, <-first)
	require.NoError(t, <-second)
	require.Empty(t, g.under)
	require.Panics(t, func() { g.do(context.Background(), pair{1}, func() error { panic("x") }) })
	require.Empty(t, g.under)
}

// Too many waiting is 503 with Retry-After. A client that hangs up is counted, and one whose pair is
// remembered passes even then.
func TestBusy(t *testing.T) {
	a := newAuth(t)
	a.MaxWaiting = -1
	require.Equal(t, 200, ask(a, basic("ann", "ann")).Code)
	var held []func()
	for range 5 * runtime.GOMAXPROCS(0) {
		done, err := a.turns.wait(t.Context(), "x", "x", 5*runtime.GOMAXPROCS(0))
		require.NoError(t, err)
		held = append(held, done)
	}
	w := ask(a, basic("bob", "bob"))
	require.Equal(t, 503, w.Code)
	require.Equal(t, "1", w.Header().Get("Retry-After"))
	require.Equal(t, 200, ask(a, basic("ann", "ann")).Code)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := httptest.NewRequestWithContext(ctx, "GET", "/", nil)
	r.SetBasicAuth("bob", "bob")
	a.Handler(nil).ServeHTTP(httptest.NewRecorder(), r)
	require.Equal(t, Stats{Passed: 2, Remembered: 1, Busy: 1, Cancelled: 1, Hashing: len(held), Pairs: 1}, a.Stats())
	for _, done := range held {
		done()
	}
	require.Equal(t, 200, ask(a, basic("bob", "bob")).Code)
}

func TestClientAddress(t *testing.T) {
	for remote, want := range map[string]string{
		"192.0.2.7:1234": "192.0.2.7", "[2001:db8:1:2:3::4]:1": "\x20\x01\x0d\xb8\x00\x01\x00\x02", "[2001:db8:1:2:ffff::]:1": "\x20\x01\x0d\xb8\x00\x01\x00\x02",
		"[::ffff:192.0.2.7]:1": "::ffff:192.0.2.7", "@": "@", "": "",
	} {
		require.Equal(t, want, clientAddress(&http.Request{RemoteAddr: remote}), remote)
	}
	a := newAuth(t)
	var asked atomic.Int32
	a.Address = func(*http.Request) string { asked.Add(1); return "x" }
	require.Equal(t, 200, ask(a, basic("ann", "ann")).Code)
	require.EqualValues(t, 1, asked.Load())
}

func TestReadUsers(t *testing.T) {
	ann, bob := hashOf(t, "ann", 4), hashOf(t, "bob", 5)
	users, warnings, err := ReadUsers(strings.NewReader("\ufeff# comment\r\n\r\n  ann:" + ann + "\r\nbob:" + bob + ":more:fields  \nann:" + bob + "\n\n"))
	require.NoError(t, err)
	require.Equal(t, map[string]string{"ann": ann, "bob": bob}, users.hashes)
	require.Equal(t, []*DuplicateError{{"ann", 5, 3}}, warnings)
	require.EqualError(t, warnings[0], `basicauth: line 5: user "ann" is in line 3 already, which counts`)
	users, _, err = ReadUsers(strings.NewReader(""))
	require.NoError(t, err)
	require.Zero(t, users.Len())

	for text, want := range map[string]string{
		"ann:" + ann + "\nbob:$apr1$abc$def\n": `basicauth: line 2, user "bob": not a bcrypt hash: it looks like MD5 crypt (Apache)`,
		"bob:{SHA}abc":                         `basicauth: line 1, user "bob": not a bcrypt hash: it looks like SHA-1 (LDAP)`,
		"bob:" + bob[:50]:                      `basicauth: line 1, user "bob": malformed hash: want 60 bytes: the hash is cut off, as by a column that is too narrow, at offset 50`,
		"bob:secret":                           `basicauth: line 1, user "bob": malformed hash: want 59 bytes or more at offset 6`,
		"bob:":                                 `basicauth: line 1, user "bob": malformed hash: want 59 bytes or more at offset 0`,
		"bob":                                  `basicauth: line 1, user "": want a name, a colon and a hash`,
		":" + bob:                              `basicauth: line 1, user "": a name has at least one byte, and no colon`,
		"bob:$2b$17" + bob[6:]:                 `basicauth: line 1, user "bob": the hash has cost 17, above the limit of 16`,
		strings.Repeat("x", 1<<17):             `basicauth: line too long, or cannot be read: bufio.Scanner: token too long`,
	} {
		_, _, err := ReadUsers(strings.NewReader(text))
		require.EqualError(t, err, want)
	}
	_, _, err = ReadUsers(strings.NewReader("bob:$6$x$y"))
	var foreign *bcrypt.NotBcryptError
	require.ErrorAs(t, err, &foreign)
	_, err = NewUsers(map[string]string{"bob": "$6$x$y"})
	require.EqualError(t, err, `basicauth: user "bob": not a bcrypt hash: it looks like SHA-512 crypt`)
	_, _, err = ReadUsers(io.MultiReader(strings.NewReader("bob:"+bob+"\n"), errReader{}))
	require.ErrorContains(t, err, "disk on fire")
}

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, errors.New("disk on fire") }

// A file is read again when it changes, also by a rename; a bad or vanished one keeps the last good
// users, and is reported once.
func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "htpasswd")
	at := time.Now().Add(-time.Hour)
	age := func(path string) { // a version of a second later, and settled
		at = at.Add(time.Second)
		require.NoError(t, os.Chtimes(path, at, at))
	}
	write := func(text string) {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		age(path)
	}
	ann, bob := "ann:"+hashOf(t, "ann", 4)+"\n", "bob:"+hashOf(t, "bob", 4)+"\n"
	_, err := OpenFile(path)
	require.ErrorContains(t, err, "no such file")
	write("bob:x\n")
	_, err = OpenFile(path)
	require.ErrorContains(t, err, "line 1")

	write(ann)
	f, err := OpenFile(path)
	require.NoError(t, err)
	var reports []string
	f.Report = func(err error) { reports = append(reports, strings.ReplaceAll(err.Error(), path, "FILE")) }
	a := &Auth{Users: f}
	// later lets two seconds go by, with a look at each.
	later := func() {
		for range 2 {
			f.checked.Store(f.checked.Load() - int64(interval))
			f.Current()
		}
	}
	status := func(name string) int { return ask(a, basic(name, name)).Code }
	require.Equal(t, 200, status("ann"))
	first := f.Current()

	write(ann + bob)
	require.Same(t, first, f.Current(), "not within a second")
	later()
	require.Equal(t, 200, status("bob"))
	require.Equal(t, 2, a.Stats().Pairs, "ann's hash is the same, so her pair is remembered")

	write(bob)
	later()
	require.Equal(t, 401, status("ann"))
	require.Equal(t, 1, a.Stats().Pairs)

	temporary := path + ".new"
	require.NoError(t, os.WriteFile(temporary, []byte("ann:"+hashOf(t, "new", 4)+"\n"), 0o600))
	age(temporary)
	require.NoError(t, os.Rename(temporary, path))
	later()
	require.Equal(t, 200, ask(a, basic("ann", "new")).Code)
	require.Empty(t, reports)

	require.NoError(t, os.WriteFile(path, nil, 0o600)) // truncated: its writer may not have finished
	f.checked.Store(0)
	require.Equal(t, 200, ask(a, basic("ann", "new")).Code)

	write("ann:$1$x\n")
	for range 3 {
		later()
		require.Equal(t, 200, ask(a, basic("ann", "new")).Code)
	}
	require.NoError(t, os.Remove(path))
	for range 3 {
		later()
		require.Equal(t, 200, ask(a, basic("ann", "new")).Code)
	}
	write(bob + bob)
	later()
	require.Equal(t, 200, status("bob"))
	require.Equal(t, []string{
		`basicauth: line 1, user "ann": not a bcrypt hash: it looks like MD5 crypt`,
		"basicauth: stat FILE: no such file or directory",
		`basicauth: line 2: user "bob" is in line 1 already, which counts`,
	}, reports)

	write("") // and nobody may pass
	later()
	require.Equal(t, 401, status("bob"))
	require.Zero(t, f.Current().Len())
}

// Requests go on while the file is written, replaced and removed.
func TestReloadUnderLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "htpasswd")
	line := "ann:" + hashOf(t, "ann", 4) + "\n"
	require.NoError(t, os.WriteFile(path, []byte(line), 0o600))
	f, err := OpenFile(path)
	require.NoError(t, err)
	f.Report = func(error) {}
	a := &Auth{Users: f}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for ctx.Err() == nil {
				if code := ask(a, basic("ann", "ann")).Code; code != 200 {
					t.Error(code)
				}
			}
		})
	}
	for i := 0; ctx.Err() == nil; i++ {
		for range 2 {
			f.checked.Store(0)
			f.Current()
		}
		switch i % 3 {
		case 0:
			os.WriteFile(path+".new", []byte(line+fmt.Sprintf("user%d:%s", i, line[4:])), 0o600)
			os.Rename(path+".new", path)
		case 1:
			os.WriteFile(path, []byte("ann:broken"), 0o600) // in place: empty for a moment
		case 2:
			os.Remove(path)
		}
		time.Sleep(time.Millisecond)
	}
	wg.Wait()
}
