// Command login is a small service with sign-up, login and logout, made to be copied. It shows
// how a production service uses package bcrypt. Started with
//
//	go run ./examples/login
//
// it serves http://127.0.0.1:8080 from an SQLite file in the current folder. README.md says how
// it was tested.
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
	addr := flag.String("addr", "127.0.0.1:8080", "address to serve; put a proxy with TLS in front, and keep /metrics from passing")
	db := flag.String("db", "", "SQLite file, or postgres:// URL (default $LOGIN_DB, or login.db)")
	flag.DurationVar(&c.MaxDuration, "max-login", 250*time.Millisecond, "longest time that the hash of one login may take")
	flag.Float64Var(&c.MinRate, "min-rate", 0, "logins per second that the host must sustain")
	flag.IntVar(&c.Previous, "previous", 0, "cost in use so far (default: the highest among the hashes of the last seven days)")
	cost := flag.Int("cost", 0, "cost to use; only checked at the start (default: calibrate)")
	flag.Parse()
	// A fleet of unlike hosts agrees on one cost. It is the floor and the ceiling then.
	c.MinCost, c.MaxCost = *cost, *cost
	// A URL with a password belongs in the environment. ps shows arguments.
	*db = cmp.Or(*db, os.Getenv("LOGIN_DB"), "login.db")

	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, log, *addr, *db, c); err != nil {
		log.Error("stopped", "err", err)
		os.Exit(1)
	}
}

// run serves until ctx ends, then finishes the requests that it has.
func run(ctx context.Context, log *slog.Logger, addr, db string, c bcrypt.Calibrator) error {
	// The store comes first. If it cannot be reached, there is no need to measure.
	store, err := openStore(ctx, db)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	defer store.close()
	// A restart keeps the cost in use unless the host has changed.
	if c.Previous == 0 {
		if c.Previous, err = store.recentCost(ctx); err != nil {
			return fmt.Errorf("store: %w", err)
		}
	}
	hasher, err := newHasher(ctx, log, c)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	// A client that sends or reads slowly must not hold memory for long. An answer may take
	// as long as hashing may, and a little more.
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
	// No new connection is accepted. Requests that wait for a hash still get it.
	log.Info("shutting down")
	ctx, cancel := context.WithTimeout(context.Background(), web.WriteTimeout)
	defer cancel()
	return web.Shutdown(ctx)
}

// newHasher returns the policy for this host. It refuses passwords over 72 bytes: no other
// policy uses every byte of a password and writes hashes that every bcrypt can read.
func newHasher(ctx context.Context, log *slog.Logger, c bcrypt.Calibrator) (*bcrypt.Hasher, error) {
	hasher := &bcrypt.Hasher{Long: bcrypt.RefuseLong}
	result, err := c.Run(ctx)
	if tooSlow := (*bcrypt.CostTooSlowError)(nil); errors.As(err, &tooSlow) {
		// A slow host must not keep the service down. Start at the lowest safe cost.
		hasher.Cost = cmp.Or(c.MinCost, bcrypt.SafeMinCost)
		hasher.MaxWaiting = 5 * runtime.GOMAXPROCS(0)
		log.Error("ALERT: this host is too slow for password hashing as configured; starting anyway",
			"cost", hasher.Cost, "err", err, "evidence", result)
	} else if err != nil {
		return nil, fmt.Errorf("calibration: %w", err)
	} else {
		// After half a second of waiting, a quick 503 is the better answer. So the queue is
		// as long as what this host hashes in that time.
		hasher.Cost, hasher.MaxWaiting = result.Cost, max(1, int(result.Rate/2))
		log.Info("password hashing calibrated",
			"cost", hasher.Cost, "max_waiting", hasher.MaxWaiting, "evidence", result)
	}
	return hasher, hasher.Validate()
}
