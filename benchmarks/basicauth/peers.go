package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"

	"example.com/bcrypt/basicauth"
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/caddyauth"
	"github.com/prometheus/exporter-toolkit/web"
	"github.com/tg123/go-htpasswd"
)

// A peer is a server that lets users through. serve serves handler to the users of an htpasswd file,
// or of a map with the same users, until the function that it returns is called.
type peer struct {
	name  string
	serve func(l net.Listener, path string, hashes map[string]string, handler http.Handler) (stop func())
}

var peers = []peer{
	{"this", func(l net.Listener, path string, _ map[string]string, handler http.Handler) func() {
		file, err := basicauth.OpenFile(path)
		check(err)
		auth := &basicauth.Auth{Users: file}
		return serveHTTP(l, auth.Handler(handler))
	}},
	{"exporter-toolkit", func(l net.Listener, _ string, hashes map[string]string, handler http.Handler) func() {
		config, err := os.CreateTemp("", "web-*.yml")
		check(err)
		fmt.Fprintln(config, "basic_auth_users:")
		for name, hash := range hashes {
			fmt.Fprintf(config, "  %s: %s\n", name, hash)
		}
		check(config.Close())
		server, path := &http.Server{Handler: handler}, config.Name()
		go web.Serve(l, server, &web.FlagConfig{WebConfigFile: &path}, slog.New(slog.DiscardHandler))
		return func() {
			server.Close()
			os.Remove(path)
		}
	}},
	{"caddyauth", func(l net.Listener, _ string, hashes map[string]string, handler http.Handler) func() {
		ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
		auth := caddyauth.HTTPBasicAuth{HashCache: &caddyauth.Cache{}}
		for name, hash := range hashes {
			auth.AccountList = append(auth.AccountList, caddyauth.Account{Username: name, Password: hash})
		}
		check(auth.Provision(ctx))
		stop := serveHTTP(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, ok, _ := auth.Authenticate(w, r); !ok {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			handler.ServeHTTP(w, r)
		}))
		return func() { stop(); cancel() }
	}},
	{"go-htpasswd", func(l net.Listener, _ string, hashes map[string]string, handler http.Handler) func() {
		var text strings.Builder
		for name, hash := range hashes {
			fmt.Fprintf(&text, "%s:%s\n", name, hash)
		}
		file, err := htpasswd.NewFromReader(strings.NewReader(text.String()), htpasswd.DefaultSystems, nil)
		check(err)
		return serveHTTP(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if name, password, ok := r.BasicAuth(); !ok || !file.Match(name, password) {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			handler.ServeHTTP(w, r)
		}))
	}},
}

func serveHTTP(l net.Listener, handler http.Handler) (stop func()) {
	server := &http.Server{Handler: handler, ErrorLog: slog.NewLogLogger(slog.NewTextHandler(io.Discard, nil), slog.LevelError)}
	go server.Serve(l)
	return func() { server.Close() }
}
