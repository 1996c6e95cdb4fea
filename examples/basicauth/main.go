// Command basicauth is a reverse proxy that lets the users of an htpasswd file through, made to be
// copied. It needs nothing in front of it but TLS:
//
//	htpasswd -cB -C 10 .htpasswd ann
//	go run ./examples/basicauth -users .htpasswd -to http://127.0.0.1:9090
//
// It serves http://127.0.0.1:8081. The file may change while it runs. /metrics is served on an
// address of its own, -metrics, for Prometheus.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"example.com/bcrypt/basicauth"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8081", "address to serve; put TLS in front")
	metrics := flag.String("metrics", "127.0.0.1:8082", "address that serves /metrics")
	users := flag.String("users", ".htpasswd", "file of users, made with htpasswd -B")
	to := flag.String("to", "", "URL of the server behind the proxy; without it the proxy says hello")
	realm := flag.String("realm", "Restricted", "what the browser's prompt names")
	flag.Parse()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, log, *addr, *metrics, *users, *to, *realm); err != nil {
		log.Error("stopped", "err", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, log *slog.Logger, addr, metrics, users, to, realm string) error {
	file, err := basicauth.OpenFile(users)
	if err != nil {
		return err
	}
	file.Report = func(err error) { log.Warn("the users' file has a fault; the last good version is in use", "err", err) }
	behind, err := proxy(to)
	if err != nil {
		return err
	}
	auth := &basicauth.Auth{Users: file, Realm: realm}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector{auth})
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))

	failed := make(chan error, 2)
	for _, s := range []struct {
		name, addr string
		handler    http.Handler
	}{{"metrics", metrics, mux}, {"proxy", addr, auth.Handler(behind)}} {
		listener, err := net.Listen("tcp", s.addr)
		if err != nil {
			return err
		}
		server := &http.Server{Handler: s.handler, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
		log.Info("serving", "what", s.name, "url", "http://"+listener.Addr().String())
		go func() { failed <- server.Serve(listener) }()
		defer func() {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			server.Shutdown(ctx)
		}()
	}
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		return nil
	}
}

// proxy returns a handler that passes requests on to a URL, with the user's name as X-User and
// without the password.
func proxy(to string) (http.Handler, error) {
	if to == "" {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			name, _ := basicauth.Name(r.Context())
			fmt.Fprintf(w, "hello %s\n", name)
		}), nil
	}
	target, err := url.Parse(to)
	if err != nil {
		return nil, err
	}
	if target.Scheme != "http" && target.Scheme != "https" || target.Host == "" {
		return nil, errors.New("-to is no http:// or https:// URL")
	}
	return &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.SetXForwarded()
		r.Out.Header.Del("Authorization")
		name, _ := basicauth.Name(r.In.Context())
		r.Out.Header.Set("X-User", name)
	}}, nil
}

// A collector exports the Stats of an Auth.
type collector struct{ auth *basicauth.Auth }

func (c collector) Describe(out chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, out) }

func (c collector) Collect(out chan<- prometheus.Metric) {
	s := c.auth.Stats()
	requests := prometheus.NewDesc("basicauth_requests_total", "Requests by what became of them.", []string{"result"}, nil)
	for result, n := range map[string]uint64{
		"passed": s.Passed, "refused": s.Refused, "malformed": s.Malformed, "busy": s.Busy, "cancelled": s.Cancelled, "failed": s.Failed,
	} {
		out <- prometheus.MustNewConstMetric(requests, prometheus.CounterValue, float64(n), result)
	}
	out <- prometheus.MustNewConstMetric(prometheus.NewDesc("basicauth_remembered_total", "Requests passed without a hash.", nil, nil), prometheus.CounterValue, float64(s.Remembered))
	for name, n := range map[string]int{"hashing": s.Hashing, "waiting": s.Waiting, "pairs": s.Pairs} {
		out <- prometheus.MustNewConstMetric(prometheus.NewDesc("basicauth_"+name, "See basicauth.Stats.", nil, nil), prometheus.GaugeValue, float64(n))
	}
}
