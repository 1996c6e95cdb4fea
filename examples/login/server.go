package main

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"html/template"
	"log/slog"
	"mime"
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"example.com/bcrypt"
	"github.com/alexedwards/scs/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// hashingTimeout is the deadline of a hash. The queue holds half a second of work, so only a
// host that has almost halted reaches it.
const hashingTimeout = 5 * time.Second

var (
	//go:embed page.html
	pageText string
	page     = template.Must(template.New("page").Parse(pageText))
)

type server struct {
	log       *slog.Logger
	passwords passwords // a *bcrypt.Hasher, see passwords.go
	store     *store
	sessions  *scs.SessionManager
}

func newServer(log *slog.Logger, p passwords, st *store) http.Handler {
	s := &server{log: log, passwords: p, store: st, sessions: scs.New()}
	s.sessions.Store = st.sessions
	s.sessions.HashTokenInStore = true // a copy of the table gives nobody a session
	s.sessions.Lifetime = 12 * time.Hour
	s.sessions.Cookie.Secure = true // only over TLS; browsers except localhost
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(statsCollector(p.Stats), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { s.answer(w, r, http.StatusOK, "") })
	mux.HandleFunc("POST /signup", s.withCredentials(s.signUp))
	mux.HandleFunc("POST /login", s.withCredentials(s.logIn))
	mux.HandleFunc("POST /logout", s.logOut)
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	// A page of another site must not log its visitors in or out here.
	return http.NewCrossOriginProtection().Handler(s.withSession(mux))
}

// withSession is scs's LoadAndSave without the save. Login and logout save by themselves, so
// that they know before they answer whether it worked.
func (s *server) withSession(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var token string
		if cookie, err := r.Cookie(s.sessions.Cookie.Name); err == nil {
			token = cookie.Value
		}
		ctx, err := s.sessions.Load(r.Context(), token)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// A statsCollector exports the hasher's Stats. Waiting says how full the queue is. If refusals
// continue, the service needs more cores.
type statsCollector func() bcrypt.Stats

func (c statsCollector) Describe(out chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, out) }

func (c statsCollector) Collect(out chan<- prometheus.Metric) {
	stats := c()
	metric := func(name, help string, kind prometheus.ValueType, value float64) {
		out <- prometheus.MustNewConstMetric(prometheus.NewDesc("bcrypt_"+name, help, nil, nil), kind, value)
	}
	metric("done_total", "Calls that hashed to their end.", prometheus.CounterValue, float64(stats.Done))
	metric("refused_total", "Calls refused because too many were waiting.", prometheus.CounterValue, float64(stats.Refused))
	metric("cancelled_total", "Calls ended by client or deadline.", prometheus.CounterValue, float64(stats.Cancelled))
	metric("above_cost_total", "Verified hashes of a higher cost than the policy's.", prometheus.CounterValue, float64(stats.AboveCost))
	metric("running", "Calls on a core.", prometheus.GaugeValue, float64(stats.Running))
	metric("waiting", "Calls that wait for a core.", prometheus.GaugeValue, float64(stats.Waiting))
}

// withCredentials reads name and password from a form or from JSON. It gives next a context
// that ends at the deadline, or when the client hangs up.
func (s *server) withCredentials(next func(ctx context.Context, w http.ResponseWriter, r *http.Request, name, password string)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var sent struct{ Name, Password string }
		var err error
		r.Body = http.MaxBytesReader(w, r.Body, 4<<10)
		if isJSON(r) {
			err = json.NewDecoder(r.Body).Decode(&sent)
		} else {
			err = r.ParseForm()
			sent.Name, sent.Password = r.PostForm.Get("name"), r.PostForm.Get("password")
		}
		name := strings.TrimSpace(sent.Name) // in the password every byte counts
		if err != nil || name == "" || len(name) > 64 || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
			s.answer(w, r, http.StatusBadRequest, "Want name, 1 to 64 bytes of text, and password, as a form or JSON of at most 4 KiB.")
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), hashingTimeout)
		defer cancel()
		next(ctx, w, r, name, sent.Password)
	}
}

// signUp hashes before it looks whether the name is free, so its time does not tell. Its answer
// does; only e-mail confirmation could avoid that.
func (s *server) signUp(ctx context.Context, w http.ResponseWriter, r *http.Request, name, password string) {
	if utf8.RuneCountInString(password) < 8 {
		s.answer(w, r, http.StatusBadRequest, "The password needs at least 8 characters.")
		return
	}
	hash, err := s.passwords.Hash(ctx, []byte(password))
	if err != nil {
		s.refuse(w, r, err)
	} else if added, err := s.store.add(r.Context(), name, hash); err != nil {
		s.fail(w, r, err)
	} else if !added {
		s.answer(w, r, http.StatusConflict, "That name is taken.")
	} else {
		s.answer(w, r, http.StatusCreated, "Signed up. Now log in.")
	}
}

// logIn reveals neither in text nor in time whether the name or the password was wrong. For an
// unknown name the hash is "", for which the hasher works just as long.
func (s *server) logIn(ctx context.Context, w http.ResponseWriter, r *http.Request, name, password string) {
	hash, err := s.store.hash(r.Context(), name)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	newHash, err := s.passwords.VerifyAndUpgrade(ctx, hash, []byte(password))
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	if newHash != "" {
		// The login succeeds even if this fails. The next login tries again.
		if err := s.store.upgrade(r.Context(), name, hash, newHash); err != nil {
			s.log.Warn("cannot store the upgraded hash", "err", err)
		}
	}
	// A new token makes one worthless that an attacker planted before the login.
	if err := s.sessions.RenewToken(r.Context()); err != nil {
		s.fail(w, r, err)
		return
	}
	s.sessions.Put(r.Context(), "name", name)
	token, expiry, err := s.sessions.Commit(r.Context())
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.sessions.WriteSessionCookie(r.Context(), w, token, expiry)
	s.answer(w, r, http.StatusOK, "Logged in.")
}

func (s *server) logOut(w http.ResponseWriter, r *http.Request) {
	if err := s.sessions.Destroy(r.Context()); err != nil {
		s.fail(w, r, err)
		return
	}
	s.sessions.WriteSessionCookie(r.Context(), w, "", time.Time{})
	s.answer(w, r, http.StatusOK, "Logged out.")
}

// refuse answers an error of the hasher. Such an error holds no byte of password or hash.
func (s *server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	malformed, tooHigh := (*bcrypt.MalformedHashError)(nil), (*bcrypt.CostTooHighError)(nil)
	switch {
	case errors.Is(err, bcrypt.ErrPasswordTooLong):
		s.answer(w, r, http.StatusBadRequest, "A password has at most 72 bytes: 72 English letters, fewer of others.")
	case r.Context().Err() != nil: // the client has gone
	case errors.Is(err, bcrypt.ErrBusy), errors.Is(err, context.DeadlineExceeded):
		w.Header().Set("Retry-After", "1")
		s.answer(w, r, http.StatusServiceUnavailable, "Too many people are logging in. Try again in a second.")
	case errors.As(err, &malformed), errors.Is(err, bcrypt.ErrNotBcrypt), errors.As(err, &tooHigh):
		// The stored hash is broken. That is for the log; the client learns nothing.
		s.log.Error("a stored hash cannot be verified", "err", err)
		fallthrough
	case errors.Is(err, bcrypt.ErrMismatchedHashAndPassword):
		s.answer(w, r, http.StatusUnauthorized, "Wrong name or password.")
	default:
		s.fail(w, r, err)
	}
}

// fail answers an error that is not the client's fault. The reason goes into the log.
func (s *server) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() == nil {
		s.log.Error("request failed", "path", r.URL.Path, "err", err)
		http.Error(w, "Something broke on our side.", http.StatusInternalServerError)
	}
}

func isJSON(r *http.Request) bool {
	kind, _, _ := mime.ParseMediaType(cmp.Or(r.Header.Get("Content-Type"), r.Header.Get("Accept")))
	return kind == "application/json"
}

// answer writes JSON to a client that sends or asks for it, and the page to others.
func (s *server) answer(w http.ResponseWriter, r *http.Request, status int, message string) {
	view := struct {
		Message string `json:"message"`
		Name    string `json:"name"` // of the user who is logged in, or ""
	}{message, s.sessions.GetString(r.Context(), "name")}
	w.Header().Set("Cache-Control", "no-store")
	if isJSON(r) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		json.NewEncoder(w).Encode(view)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	page.Execute(w, view)
}
