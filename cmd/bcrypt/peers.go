package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.com/bcrypt"
	gocrypt "github.com/go-crypt/x/bcrypt"
	xcrypto "golang.org/x/crypto/bcrypt"
)

// A peer is a bcrypt that bench can time.
type peer struct {
	name string
	// hash makes one hash and returns how long that took.
	hash func(ctx context.Context, password string, cost int) (time.Duration, error)
	// outside says that the peer is a program of its own. bench runs one such at a time.
	outside bool
}

// timed returns a peer in this process.
func timed(name string, hash func(password []byte, cost int) ([]byte, error)) peer {
	return peer{name: name, hash: func(_ context.Context, password string, cost int) (time.Duration, error) {
		start := time.Now()
		_, err := hash([]byte(password), cost)
		return time.Since(start), err
	}}
}

// program returns a peer in another language. Its last two arguments are the password and the
// cost. It prints the nanoseconds that the hash took, without the program's start.
func program(name string, command ...string) peer {
	return peer{name: name, outside: true, hash: func(ctx context.Context, password string, cost int) (time.Duration, error) {
		args := append(command[1:len(command):len(command)], password, strconv.Itoa(cost))
		out, err := run(ctx, command[0], args...)
		if err != nil {
			return 0, err
		}
		ns, err := strconv.ParseInt(string(bytes.TrimSpace(out)), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("it printed no number of nanoseconds: %w", err)
		}
		return time.Duration(ns), nil
	}}
}

// run runs a program and returns its output. Its error has the last line that the program
// wrote to standard error, if any.
func run(ctx context.Context, name string, args ...string) ([]byte, error) {
	out, err := exec.CommandContext(ctx, name, args...).Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && len(bytes.TrimSpace(exit.Stderr)) > 0 {
		lines := strings.Split(strings.TrimSpace(string(exit.Stderr)), "\n")
		return nil, fmt.Errorf("%w: %s", err, lines[len(lines)-1])
	}
	return out, err
}

// htpasswd cannot time itself, so the time of a run that makes a SHA-1 hash is taken off.
func htpasswd(ctx context.Context, password string, cost int) (time.Duration, error) {
	clock := func(args ...string) (time.Duration, error) {
		start := time.Now()
		_, err := run(ctx, "htpasswd", args...)
		return time.Since(start), err
	}
	with, err := clock("-nbB", "-C", strconv.Itoa(cost), "user", password)
	if err != nil {
		return 0, err
	}
	without, err := clock("-nbs", "user", password)
	return max(with-without, 0), err
}

const (
	phpScript = `[, $p, $c] = $argv; $t = hrtime(true);
		password_hash($p, PASSWORD_BCRYPT, ["cost" => (int)$c]); echo hrtime(true) - $t;`
	rubyScript = `require "bcrypt"; p, c = ARGV; now = -> { Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond) }
		t = now.(); BCrypt::Password.create(p, cost: c.to_i); puts now.() - t`
	pythonScript = `import bcrypt, sys, time
p, c = sys.argv[1].encode(), int(sys.argv[2]); t = time.perf_counter_ns()
bcrypt.hashpw(p, bcrypt.gensalt(c)); print(time.perf_counter_ns() - t)`
	nodeScript = `const b = require(process.argv[1]), [p, c] = process.argv.slice(2), t = process.hrtime.bigint();
		b.hashSync(p, +c); console.log(String(process.hrtime.bigint() - t))`
)

// peers are the implementations that bench knows, in the order of its output. The build tag
// libxcrypt adds libxcrypt.
var peers = []peer{
	timed("this", bcrypt.GenerateFromPassword),
	timed("x/crypto", xcrypto.GenerateFromPassword),
	timed("go-crypt/x", gocrypt.GenerateFromPassword),
	program("php", "php", "-r", phpScript),
	program("ruby", "ruby", "-e", rubyScript),
	program("python", "/usr/bin/python3", "-c", pythonScript),
	program("node-bcrypt", "node", "-e", nodeScript, "bcrypt"),
	program("bcryptjs", "node", "-e", nodeScript, "bcryptjs"),
	{name: "htpasswd", hash: htpasswd, outside: true},
}

// choosePeers returns this package and the peers named. Each has made a hash, to show that it
// works here. "all" means those that do.
func choosePeers(ctx context.Context, names []string) ([]peer, error) {
	var chosen []peer
	all := slices.Equal(names, []string{"all"})
	for _, name := range names {
		if !all && !slices.ContainsFunc(peers, func(p peer) bool { return p.name == name }) {
			var known []string
			for _, p := range peers[1:] {
				known = append(known, p.name)
			}
			return nil, fmt.Errorf("--against names %q, want all or some of %s", name, strings.Join(known, ","))
		}
	}
	for i, p := range peers {
		if i > 0 && !all && !slices.Contains(names, p.name) {
			continue
		}
		_, err := p.hash(ctx, "password", bcrypt.MinCost)
		switch {
		case err == nil:
			chosen = append(chosen, p)
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case !all:
			return nil, fmt.Errorf("%s does not work here: %w", p.name, err)
		}
	}
	return chosen, nil
}
