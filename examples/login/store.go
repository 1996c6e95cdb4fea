package main

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.com/bcrypt"
	"github.com/alexedwards/scs/postgresstore"
	"github.com/alexedwards/scs/sqlite3store"
	"github.com/alexedwards/scs/v2"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"
)

// A store keeps users and sessions. A user has a name and a hash. The hash holds version, cost
// and salt, so nothing else about the password is stored.
type store struct {
	db       *sql.DB
	sessions interface {
		scs.Store
		StopCleanup()
	}
}

// openStore opens a postgres:// URL or an SQLite file, and makes the tables if they do not
// exist. A statement that waits 2 s for a lock fails with an error that says so.
func openStore(ctx context.Context, where string) (*store, error) {
	s, blob, instant := &store{}, "BLOB", "REAL"
	if strings.HasPrefix(where, "postgres://") || strings.HasPrefix(where, "postgresql://") {
		config, err := pgx.ParseConfig(where)
		if err != nil {
			return nil, err // pgx leaves the password out
		}
		config.ConnectTimeout = 2 * time.Second
		config.RuntimeParams["statement_timeout"] = "2s"
		s.db = stdlib.OpenDB(*config)
		s.db.SetMaxOpenConns(20) // few are enough: none is held while a password is hashed
		s.sessions, blob, instant = postgresstore.New(s.db), "BYTEA", "TIMESTAMPTZ"
	} else {
		// With a write-ahead log, readers do not wait for a writer. FULL syncs each commit, so
		// a sign-up survives a power cut.
		db, err := sql.Open("sqlite", where+"?_pragma=busy_timeout(2000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
		if err != nil {
			return nil, err
		}
		s.db, s.sessions = db, sqlite3store.New(db)
		s.db.SetMaxOpenConns(4)
	}
	statements := []string{
		// hashed is when the hash was made, in seconds since 1970.
		"CREATE TABLE IF NOT EXISTS users (name TEXT PRIMARY KEY, hash TEXT NOT NULL, hashed BIGINT NOT NULL DEFAULT 0)",
		"CREATE INDEX IF NOT EXISTS users_hashed ON users (hashed)",
		"CREATE TABLE IF NOT EXISTS sessions (token TEXT PRIMARY KEY, data " + blob + " NOT NULL, expiry " + instant + " NOT NULL)",
		"CREATE INDEX IF NOT EXISTS sessions_expiry ON sessions (expiry)",
	}
	// A table of an earlier version has no column hashed, and SQLite has no ADD COLUMN IF NOT EXISTS.
	if _, err := s.db.ExecContext(ctx, "SELECT hash FROM users LIMIT 0"); err == nil {
		if _, err := s.db.ExecContext(ctx, "SELECT hashed FROM users LIMIT 0"); err != nil {
			statements = slices.Insert(statements, 0, "ALTER TABLE users ADD COLUMN hashed BIGINT NOT NULL DEFAULT 0")
		}
	}
	for _, statement := range statements {
		if _, err := s.db.ExecContext(ctx, statement); err != nil {
			s.close()
			return nil, err
		}
	}
	return s, nil
}

func (s *store) close() {
	s.sessions.StopCleanup()
	s.db.Close()
}

// hash returns a user's hash, or "" if there is no such user, as Hasher.Verify wants it.
func (s *store) hash(ctx context.Context, name string) (hash string, err error) {
	err = s.db.QueryRowContext(ctx, "SELECT hash FROM users WHERE name = $1", name).Scan(&hash)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return hash, err
}

// add stores a user and reports whether the name was free. The database decides, because two
// requests may ask at once.
func (s *store) add(ctx context.Context, name, hash string) (added bool, err error) {
	result, err := s.db.ExecContext(ctx, "INSERT INTO users (name, hash, hashed) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING", name, hash, time.Now().Unix())
	if err != nil {
		return false, err
	}
	rows, err := result.RowsAffected()
	return rows == 1, err
}

// upgrade replaces the hash that was verified, and no other: a password that was changed in
// the meantime stays changed.
func (s *store) upgrade(ctx context.Context, name, hash, newHash string) error {
	_, err := s.db.ExecContext(ctx, "UPDATE users SET hash = $1, hashed = $2 WHERE name = $3 AND hash = $4", newHash, time.Now().Unix(), name, hash)
	return err
}

// recentCost returns the highest cost among the hashes of the last seven days, or 0 if there are
// none: the cost that this service used before it was restarted.
func (s *store) recentCost(ctx context.Context) (cost int, err error) {
	const form = "$2b$__$%" // what newHasher's policy writes; the cost is its fifth and sixth byte
	var digits sql.NullString
	err = s.db.QueryRowContext(ctx, "SELECT MAX(substr(hash, 5, 2)) FROM users WHERE hashed > $1 AND hash LIKE $2",
		time.Now().AddDate(0, 0, -7).Unix(), form).Scan(&digits)
	if err != nil || !digits.Valid {
		return 0, err
	}
	if cost, err = strconv.Atoi(digits.String); err != nil || cost < bcrypt.MinCost || cost > bcrypt.MaxCost {
		return 0, nil // such a row is no hash of this service
	}
	return cost, nil
}
