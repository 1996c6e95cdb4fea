package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/bcrypt"
	"example.com/bcrypt/examples/login/internal/process"
	"github.com/stretchr/testify/require"
)

const password = "correct horse"

// A service under test.
type service struct {
	*store
	hasher *bcrypt.Hasher
	url    string
	where  string // its database
	log    *buffer
}

// A buffer is a log that can be read while it is written.
type buffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

// postgres is the URL of a server on which the tests may make and drop databases, such as
// postgres://user@/postgres?host=/var/run/postgresql. Without it they use SQLite only.
var postgres = os.Getenv("LOGIN_TEST_POSTGRES")

// onEach runs test on an empty database of each kind.
func onEach(t *testing.T, test func(t *testing.T, where string)) {
	t.Run("sqlite", func(t *testing.T) { test(t, filepath.Join(t.TempDir(), "login.db")) })
	t.Run("postgres", func(t *testing.T) { test(t, newPostgres(t)) })
}

// newPostgres returns the URL of an empty database, or skips the test.
func newPostgres(t *testing.T) (where string) {
	if postgres == "" {
		t.Skip("LOGIN_TEST_POSTGRES is not set")
	}
	server, err := sql.Open("pgx", postgres)
	require.NoError(t, err)
	name := fmt.Sprintf("login_test_%d", time.Now().UnixNano())
	_, err = server.Exec("CREATE DATABASE " + name)
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := server.Exec("DROP DATABASE " + name + " WITH (FORCE)")
		require.NoError(t, err)
		server.Close()
	})
	u, err := url.Parse(postgres)
	require.NoError(t, err)
	u.Path = "/" + name
	return u.String()
}

// start serves from a database, with hasher or, if that is nil, one of cost 4.
func start(t *testing.T, where string, hasher *bcrypt.Hasher) *service {
	t.Helper()
	if hasher == nil {
		hasher = &bcrypt.Hasher{Cost: 4}
	}
	store, err := openStore(t.Context(), where)
	require.NoError(t, err)
	t.Cleanup(store.close)
	s := &service{store: store, hasher: hasher, where: where, log: &buffer{}}
	web := httptest.NewServer(newServer(slog.New(slog.NewTextHandler(s.log, nil)), newPasswords(hasher), store))
	t.Cleanup(web.Close)
	s.url = web.URL
	return s
}

// post sends JSON, and returns the status, or 0 if there is no answer, and the message.
func post(ctx context.Context, to, name, password string) (status int, message string, header http.Header) {
	body, _ := json.Marshal(map[string]string{"name": name, "password": password})
	request, err := http.NewRequestWithContext(ctx, "POST", to, bytes.NewReader(body))
	if err != nil {
		panic(err)
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err.Error(), nil
	}
	defer answer.Body.Close()
	var view struct{ Message string }
	text, _ := io.ReadAll(answer.Body)
	if json.Unmarshal(text, &view) != nil {
		view.Message = string(text)
	}
	return answer.StatusCode, view.Message, answer.Header
}

func (s *service) post(t *testing.T, path, name, password string, want int) (message string, header http.Header) {
	t.Helper()
	status, message, header := post(t.Context(), s.url+path, name, password)
	require.Equal(t, want, status, "%s %s: %s\n%s", path, name, message, s.log)
	return message, header
}

func TestSignUpAndLogin(t *testing.T) {
	onEach(t, func(t *testing.T, where string) {
		s := start(t, where, nil)
		s.post(t, "/signup", "ann", password, 201)
		s.post(t, "/login", "ann", password, 200)
		message, _ := s.post(t, "/signup", "ann", "another one", 409)
		require.Equal(t, "That name is taken.", message)
		s.post(t, "/login", "ann", password, 200)

		wrong, _ := s.post(t, "/login", "ann", "wrong horse", 401)
		unknown, _ := s.post(t, "/login", "bob", password, 401)
		require.Equal(t, wrong, unknown)
		require.EqualValues(t, 6, s.hasher.Stats().Done, "each of these hashes, the unknown user too")

		message, _ = s.post(t, "/signup", "bob", strings.Repeat("x", 73), 400)
		require.Contains(t, message, "72 bytes")
		message, _ = s.post(t, "/login", "ann", strings.Repeat("x", 73), 400)
		require.Contains(t, message, "72 bytes")
		s.post(t, "/signup", "bob", "sevenyz", 400)
		s.post(t, "/signup", " ", password, 400)
		s.post(t, "/signup", "b\x00b", password, 400)
		s.post(t, "/signup", strings.Repeat("b", 65), password, 400)
		s.post(t, "/signup", "bob", strings.Repeat("x", 5000), 400)
		answer, err := http.Post(s.url+"/login", "application/json", strings.NewReader("{"))
		require.NoError(t, err)
		require.Equal(t, 400, answer.StatusCode)

		var hash string
		require.NoError(t, s.db.QueryRow("SELECT hash FROM users").Scan(&hash))
		require.Regexp(t, `^\$2b\$04\$.{53}$`, hash)
		require.Empty(t, s.log.String())
	})
}

// Each login gets a new session token. It survives a restart, and ends with the logout.
func TestSession(t *testing.T) {
	onEach(t, func(t *testing.T, where string) {
		s := start(t, where, nil)
		s.post(t, "/signup", "ann", password, 201)
		_, header := s.post(t, "/login", "ann", password, 200)
		cookies, err := http.ParseSetCookie(header.Get("Set-Cookie"))
		require.NoError(t, err)
		require.True(t, cookies.HttpOnly && cookies.Secure && cookies.SameSite == http.SameSiteLaxMode)

		send := func(s *service, method, path string) (page string, header http.Header) {
			request, err := http.NewRequest(method, s.url+path, nil)
			require.NoError(t, err)
			request.AddCookie(cookies)
			answer, err := http.DefaultClient.Do(request)
			require.NoError(t, err)
			defer answer.Body.Close()
			require.Equal(t, 200, answer.StatusCode)
			text, err := io.ReadAll(answer.Body)
			require.NoError(t, err)
			return string(text), answer.Header
		}
		page, _ := send(start(t, where, nil), "GET", "/")
		require.Contains(t, page, `<b id="name">ann</b>`)

		var stored int
		require.NoError(t, s.db.QueryRow("SELECT count(*) FROM sessions WHERE token = $1", cookies.Value).Scan(&stored))
		require.Zero(t, stored, "the token itself is not stored")

		send(s, "POST", "/logout")
		page, _ = send(s, "GET", "/")
		require.NotContains(t, page, "ann")
	})
}

// A form of another site is refused.
func TestCrossOrigin(t *testing.T) {
	s := start(t, filepath.Join(t.TempDir(), "login.db"), nil)
	request, err := http.NewRequest("POST", s.url+"/login", strings.NewReader("name=ann&password=x"))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Sec-Fetch-Site", "cross-site")
	answer, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	require.Equal(t, 403, answer.StatusCode)
}

func TestUpgrade(t *testing.T) {
	onEach(t, func(t *testing.T, where string) {
		start(t, where, nil).post(t, "/signup", "ann", password, 201)
		s := start(t, where, &bcrypt.Hasher{Cost: 5})
		s.post(t, "/login", "ann", "wrong horse", 401)
		hash, err := s.hash(t.Context(), "ann")
		require.NoError(t, err)
		require.Equal(t, "$2b$04$", hash[:7])
		s.post(t, "/login", "ann", password, 200)
		hash, err = s.hash(t.Context(), "ann")
		require.NoError(t, err)
		require.Equal(t, "$2b$05$", hash[:7])
		s.post(t, "/login", "ann", password, 200)

		// A password that was changed in the meantime stays changed.
		require.NoError(t, s.upgrade(t.Context(), "ann", "the old hash", "another"))
		s.post(t, "/login", "ann", password, 200)
	})
}

// If all lanes are taken and nobody may wait, the answer is 503 with Retry-After, for sign-ups
// too. /metrics counts it.
func TestBusy(t *testing.T) {
	s := start(t, filepath.Join(t.TempDir(), "login.db"), &bcrypt.Hasher{Cost: 14, MaxWaiting: -1})
	ctx, cancel := context.WithCancel(t.Context())
	var others sync.WaitGroup
	for range 100 {
		others.Go(func() { s.hasher.Hash(ctx, []byte(password)) })
	}
	require.Eventually(t, func() bool { return s.hasher.Stats().Refused > 0 }, time.Minute, time.Millisecond)
	for _, path := range []string{"/login", "/signup"} {
		message, header := s.post(t, path, "ann", password, 503)
		require.Equal(t, "1", header.Get("Retry-After"))
		require.Contains(t, message, "Try again")
	}
	require.Positive(t, s.metric(t, "bcrypt_running"))
	cancel()
	others.Wait()
	require.Zero(t, s.metric(t, "bcrypt_running"))
	require.Positive(t, s.metric(t, "bcrypt_cancelled_total"))
	require.Equal(t, 100+2.0, s.metric(t, "bcrypt_refused_total")+s.metric(t, "bcrypt_cancelled_total"))
}

func (s *service) metric(t *testing.T, name string) (value float64) {
	t.Helper()
	answer, err := http.Get(s.url + "/metrics")
	require.NoError(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	_, after, found := strings.Cut(string(text), "\n"+name+" ")
	require.True(t, found, name)
	_, err = fmt.Sscan(after, &value)
	require.NoError(t, err)
	return value
}

// A client that hangs up stops costing CPU.
func TestHangUp(t *testing.T) {
	s := start(t, filepath.Join(t.TempDir(), "login.db"), &bcrypt.Hasher{Cost: 18})
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan int)
	go func() {
		status, _, _ := post(ctx, s.url+"/login", "ann", password)
		gone <- status
	}()
	require.Eventually(t, func() bool { return s.hasher.Stats().Running == 1 }, time.Minute, time.Millisecond)
	cancel()
	require.Zero(t, <-gone)
	require.Eventually(t, func() bool {
		stats := s.hasher.Stats()
		return stats.Running == 0 && stats.Cancelled == 1
	}, 5*time.Second, time.Millisecond) // the hash itself takes 15 s and more
	require.Empty(t, s.log.String())
}

// A stored text that is no hash verifies nothing. The log says why, without a byte of it.
func TestGarbageInTheHashColumn(t *testing.T) {
	onEach(t, func(t *testing.T, where string) {
		s := start(t, where, nil)
		for _, garbage := range []string{
			"plaintext-secret", "$2b$04$secret", "$argon2id$v=19$m=65536,t=3,p=4$c2VjcmV0c2VjcmV0$secretsecretsecretsecretsecretsecretsecretsecret", password,
			"$2b$31$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW",
		} {
			require.NoError(t, func() error { _, err := s.db.Exec("DELETE FROM users"); return err }())
			_, err := s.add(t.Context(), "ann", garbage)
			require.NoError(t, err)
			message, _ := s.post(t, "/login", "ann", password, 401)
			require.Equal(t, "Wrong name or password.", message)
		}
		log := s.log.String()
		require.Equal(t, 5, strings.Count(log, "a stored hash cannot be verified"), log)
		require.Contains(t, log, "malformed hash: want")
		require.Contains(t, log, "it looks like argon2id")
		require.Contains(t, log, "cost 31")
		require.NotContains(t, log, "secret")
		require.NotContains(t, log, password)
	})
}

// While another process locks the database the answer is 500, and the log has the reason.
// Afterwards everything works again.
func TestLockedDatabase(t *testing.T) {
	for kind, c := range map[string]struct{ lock, reason string }{
		"sqlite":   {"BEGIN EXCLUSIVE", "database is locked"},
		"postgres": {"BEGIN; LOCK TABLE users, sessions IN ACCESS EXCLUSIVE MODE", "statement timeout"},
	} {
		t.Run(kind, func(t *testing.T) {
			where := filepath.Join(t.TempDir(), "login.db")
			if kind == "postgres" {
				where = newPostgres(t)
			}
			s := start(t, where, nil)
			s.post(t, "/signup", "ann", password, 201)
			other, err := s.db.Conn(t.Context())
			require.NoError(t, err)
			_, err = other.ExecContext(t.Context(), c.lock)
			require.NoError(t, err)
			for path, name := range map[string]string{"/signup": "bob", "/login": "ann"} {
				message, _ := s.post(t, path, name, password, 500)
				require.Equal(t, "Something broke on our side.\n", message)
				require.Contains(t, s.log.String(), "path="+path)
			}
			require.Equal(t, 2, strings.Count(s.log.String(), c.reason), s.log)
			_, err = other.ExecContext(t.Context(), "ROLLBACK")
			require.NoError(t, err)
			require.NoError(t, other.Close())
			s.post(t, "/signup", "bob", password, 201)
			s.post(t, "/login", "ann", password, 200)
		})
	}
}

// While the database is away the answer is 500, and the log has the reason.
func TestDatabaseGone(t *testing.T) {
	u, err := url.Parse(newPostgres(t))
	require.NoError(t, err)
	folder := u.Query().Get("host")
	require.NotEmpty(t, folder, "LOGIN_TEST_POSTGRES names the folder of the socket")
	socket, err := filepath.Glob(filepath.Join(folder, ".s.PGSQL.*[0-9]"))
	require.NoError(t, err)
	require.Len(t, socket, 1)

	// The service reaches the server through a proxy, which the test cuts.
	proxy, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	connections := forward(proxy, socket[0])
	u.Host, u.RawQuery = proxy.Addr().String(), "sslmode=disable"
	s := start(t, u.String(), nil)
	s.post(t, "/signup", "ann", password, 201)

	proxy.Close()
	for c := range connections {
		c.Close()
	}
	s.post(t, "/login", "ann", password, 500)
	s.post(t, "/signup", "bob", password, 500)
	require.Contains(t, s.log.String(), "connection refused")

	proxy, err = net.Listen("tcp", proxy.Addr().String())
	require.NoError(t, err)
	forward(proxy, socket[0])
	t.Cleanup(func() { proxy.Close() })
	s.post(t, "/login", "ann", password, 200)
	s.post(t, "/signup", "bob", password, 201)
}

// forward passes connections on to a socket. It returns all of them once listener is closed.
func forward(listener net.Listener, socket string) <-chan net.Conn {
	all := make(chan net.Conn, 100)
	go func() {
		defer close(all)
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			all <- client
			server, err := net.Dial("unix", socket)
			if err != nil {
				client.Close()
				continue
			}
			all <- server
			go func() { io.Copy(server, client); server.Close() }()
			go func() { io.Copy(client, server); client.Close() }()
		}
	}()
	return all
}

// kill -9 in the middle of sign-ups and logins loses no sign-up that was accepted.
func TestKill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "login")
	require.NoError(t, process.Build(path, ""))
	onEach(t, func(t *testing.T, where string) {
		var accepted []string
		for round := range 3 {
			p, err := process.Start(path, where, io.Discard, "-cost", "4")
			require.NoError(t, err)
			var mu sync.Mutex
			var clients sync.WaitGroup
			enough := make(chan bool, 1)
			before := len(accepted)
			for client := range 8 {
				clients.Go(func() {
					for i := 0; ; i++ {
						name := fmt.Sprint("user", round, "-", client, "-", i)
						status, _, _ := post(t.Context(), p.URL+"/signup", name, password)
						if status == 0 {
							return // the service is gone
						}
						if status != 201 {
							continue
						}
						mu.Lock()
						accepted = append(accepted, name)
						if len(accepted) == before+100 {
							enough <- true
						}
						mu.Unlock()
						post(t.Context(), p.URL+"/login", name, password)
					}
				})
			}
			<-enough
			p.Kill()
			clients.Wait()
		}
		p, err := process.Start(path, where, io.Discard, "-cost", "4")
		require.NoError(t, err)
		defer p.Kill()
		for _, name := range accepted {
			status, message, _ := post(t.Context(), p.URL+"/login", name, password)
			require.Equal(t, 200, status, "%s: %s", name, message)
		}
		t.Log(len(accepted), "sign-ups, none lost")
	})
}

// A restart keeps the cost of the hashes of the last days: neither older ones nor rows of other
// forms count. A table without the column of times gets it.
func TestRecentCost(t *testing.T) {
	onEach(t, func(t *testing.T, where string) {
		s := start(t, where, nil)
		recent := func() int {
			cost, err := s.recentCost(t.Context())
			require.NoError(t, err)
			return cost
		}
		require.Zero(t, recent())
		s.post(t, "/signup", "ann", password, 201)
		require.Equal(t, 4, recent())
		for name, cost := range map[string]string{"bob": "09", "cleo": "11", "old": "12", "odd": "77", "none": "1x"} {
			_, err := s.add(t.Context(), name, "$2b$"+cost+"$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW")
			require.NoError(t, err)
		}
		_, err := s.add(t.Context(), "foreign", "$6$rounds=99$abc")
		require.NoError(t, err)
		_, err = s.db.Exec("UPDATE users SET hashed = hashed - 8*24*3600 WHERE name IN ('old', 'odd', 'none')")
		require.NoError(t, err)
		require.Equal(t, 11, recent())
		_, err = s.db.Exec("UPDATE users SET hashed = hashed + 8*24*3600 WHERE name = 'odd'")
		require.NoError(t, err)
		require.Zero(t, recent())

		_, err = s.db.Exec("DROP INDEX users_hashed")
		require.NoError(t, err)
		_, err = s.db.Exec("ALTER TABLE users DROP COLUMN hashed")
		require.NoError(t, err)
		s = start(t, where, nil)
		require.Zero(t, recent())
		s.post(t, "/login", "ann", password, 200)
	})
}

// run, from its start to a SIGTERM, for which ctx stands.
func TestRun(t *testing.T) {
	for _, c := range []struct {
		name       string
		calibrator bcrypt.Calibrator
		log        string
	}{
		{"calibrated", bcrypt.Calibrator{MaxDuration: time.Second}, `level=INFO msg="password hashing calibrated" cost=1`},
		{"too slow", bcrypt.Calibrator{MaxDuration: time.Millisecond}, `level=ERROR msg="ALERT: this host is too slow for password hashing as configured; starting anyway" cost=10`},
		{"pinned", bcrypt.Calibrator{MaxDuration: time.Second, MinCost: 5, MaxCost: 5}, `level=INFO msg="password hashing calibrated" cost=5`},
		{"pinned and too slow", bcrypt.Calibrator{MaxDuration: time.Millisecond, MinCost: 9, MaxCost: 9}, `level=ERROR msg="ALERT: this host is too slow for password hashing as configured; starting anyway" cost=9`},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			log := &buffer{}
			ended := make(chan error)
			go func() {
				ended <- run(ctx, slog.New(slog.NewTextHandler(log, nil)), "127.0.0.1:0", filepath.Join(t.TempDir(), "login.db"), c.calibrator)
			}()
			require.Eventually(t, func() bool { return strings.Contains(log.String(), "msg=serving") }, time.Minute, time.Millisecond)
			require.Contains(t, log.String(), c.log)
			require.Contains(t, log.String(), "evidence=")

			// The service is told to stop in the middle of a sign-up: half its body is sent,
			// the other half only once the handler asks for it.
			_, after, _ := strings.Cut(log.String(), "msg=serving url=")
			body, send := io.Pipe()
			request, err := http.NewRequest("POST", strings.TrimSpace(after)+"/signup", body)
			require.NoError(t, err)
			request.Header.Set("Content-Type", "application/json")
			request.Header.Set("Expect", "100-continue")
			status := make(chan int, 1)
			go func() {
				answer, err := (&http.Transport{ExpectContinueTimeout: time.Minute}).RoundTrip(request)
				if err != nil {
					status <- 0
					return
				}
				answer.Body.Close()
				status <- answer.StatusCode
			}()
			_, err = io.WriteString(send, `{"name": "ann", `)
			require.NoError(t, err)
			cancel()
			require.Eventually(t, func() bool { return strings.Contains(log.String(), "shutting down") }, time.Minute, time.Millisecond)
			_, err = fmt.Fprintf(send, `"password": %q}`, password)
			require.NoError(t, err)
			require.NoError(t, send.Close())
			require.Equal(t, 201, <-status)
			require.NoError(t, <-ended)
		})
	}
}

// A configuration that cannot work ends the start, with the reason.
func TestRunErrors(t *testing.T) {
	fine := bcrypt.Calibrator{MaxDuration: time.Second, MinCost: 4, MaxCost: 4}
	db := filepath.Join(t.TempDir(), "login.db")
	for _, c := range []struct {
		addr, db   string
		calibrator bcrypt.Calibrator
		want       string
	}{
		{"127.0.0.1:0", t.TempDir(), fine, "store: unable to open database file"},
		{"127.0.0.1:0", "postgres://ann:secret@127.0.0.1:1/x", fine, "connection refused"},
		{"127.0.0.1:0", "postgres://ann:secret@127.0.0.1:port/x", fine, "store: cannot parse"},
		{"127.0.0.1:0", db, bcrypt.Calibrator{}, "calibration: bcrypt: calibrate: MaxDuration"},
		{"127.0.0.1:0", db, bcrypt.Calibrator{MaxDuration: time.Second, MinCost: 3, MaxCost: 3}, "calibration: "},
		{"127.0.0.1:x", db, fine, "listen tcp"},
	} {
		err := run(t.Context(), slog.New(slog.DiscardHandler), c.addr, c.db, c.calibrator)
		require.ErrorContains(t, err, c.want)
		require.NotContains(t, err.Error(), "secret")
	}
}
