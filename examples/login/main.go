// Command login is a small service with sign-up, login and logout, made to be copied: it
// shows how a production service uses package bcrypt. Started with
//
//	go run ./examples/login
//
// it serves http://127.0.0.1:8080 from an SQLite file in the current folder. README.md says
// what it was put through.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"example.com/bcrypt"
)

func main() {
	var c bcrypt.Calibrator
	addr := flag.String("addr", "127.0.0.1:8080", "address to serve; TLS is a proxy's job, which must not pass on /metrics")
	db := flag.String("db", "", "SQLite file, or postgres:// URL (default $LOGIN_DB, or login.db)")
	flag.DurationVar(&c.MaxDuration, "max-login", 250*time.Millisecond, "longest time that one login's hash may take")
	flag.Float64Var(&c.MinRate, "min-rate", 0, "logins per second that the host must sustain")
	cost := flag.Int("cost", 0, "cost that was calibrated for this class of host, only checked at the start (default: calibrate)")
	flag.Parse()
	// A fleet agrees on a cost that was calibrated on an idle host: processes that start
	// together would measure each other.
	c.MinCost, c.MaxCost = *cost, *cost
	// A URL with a password belongs in the environment, where ps does not show it.
	*db = cmp.Or(*db, os.Getenv("LOGIN_DB"), "login.db")

	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, log, *addr, *db, c); err != nil {
		log.Error("cannot go on", "err", err)
		os.Exit(1)
	}
}

// run serves until ctx ends, and then finishes the requests under way.
func run(ctx context.Context, log *slog.Logger, addr, db string, c bcrypt.Calibrator) error {
	// The store first: if it cannot be reached, that is known before the host is measured.
	store, err := openStore(ctx, db)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	defer store.close()
	// Nothing is served yet, so that what is timed has the host to itself.
	hasher, err := newHasher(ctx, log, c)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	// A client that is slow to send or to read must not hold memory for long. The answer
	// may come as late as hashing allows, and a little more.
	web := &http.Server{
		Handler:      newServer(log, newPasswords(hasher), store),
		ErrorLog:     slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		ReadTimeout:  5 * time.Second,
		WriteTimeout: 5*time.Second + hashingTimeout,
		IdleTimeout:  time.Minute,
	}
	log.Info("serving", "url", "http://"+listener.Addr().String())
	served := make(chan error, 1)
	go func() { served <- web.Serve(listener) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	// No connection is accepted any more, and those who wait for a hash get it.
	log.Info("shutting down")
	ctx, cancel := context.WithTimeout(context.Background(), web.WriteTimeout)
	defer cancel()
	return web.Shutdown(ctx)
}

// newHasher returns the policy for this host. Passwords over 72 bytes are refused: no other
// policy uses all of a password and writes hashes that every bcrypt can read.
func newHasher(ctx context.Context, log *slog.Logger, c bcrypt.Calibrator) (*bcrypt.Hasher, error) {
	hasher := &bcrypt.Hasher{Long: bcrypt.RefuseLong}
	result, err := c.Run(ctx)
	if tooSlow := (*bcrypt.CostTooSlowError)(nil); errors.As(err, &tooSlow) {
		// A slow or busy host must neither keep the service down nor weaken its hashes.
		hasher.Cost = cmp.Or(c.MinCost, bcrypt.SafeMinCost)
		hasher.MaxWaiting = 5 * runtime.GOMAXPROCS(0)
		log.Error("ALERT: this host is too slow for password hashing as configured; going on",
			"cost", hasher.Cost, "err", err, "evidence", result)
	} else if err != nil {
		return nil, fmt.Errorf("calibration: %w", err)
	} else {
		// Who would wait longer than half a second is better served by a quick 503, so the
		// line is as long as what this host hashes in that time.
		hasher.Cost, hasher.MaxWaiting = result.Cost, max(1, int(result.Rate/2))
		log.Info("password hashing calibrated",
			"cost", hasher.Cost, "max_waiting", hasher.MaxWaiting, "evidence", result)
	}
	return hasher, hasher.Validate()
}
