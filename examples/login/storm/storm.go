package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"example.com/bcrypt/examples/login/internal/process"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	vegeta "github.com/tsenart/vegeta/v12/lib"
)

const (
	users    = 20              // who log in
	password = "correct horse" // of all
	slow     = time.Second     // a login that takes longer is none
	give     = time.Minute     // how long a client waits for an answer
)

// A build is the service on one of the libraries. The last is the one to compare with.
type build struct{ label, tags string }

var builds = []build{{"this", ""}, {"x/crypto", "xcrypto"}}

// A report is the result of one run of a build.
type report struct {
	rows                      []row // in the order in which they were sent
	storm                     row   // at twice the capacity
	memoryBefore, memoryAfter float64
	recovery                  time.Duration // from the last request sent to when logins are normal again
	lost                      []string      // who signed up in the storm and cannot log in
}

// capacity is the highest rate that the build took.
func (r *report) capacity() (rate float64) {
	for _, row := range r.rows {
		if row.taken() {
			rate = max(rate, row.rate)
		}
	}
	return rate
}

func (r *report) check() error {
	if len(r.storm.errors) > 0 {
		return fmt.Errorf("at %.1f/s: %s", r.storm.rate, r.storm.errors[0])
	}
	if len(r.lost) > 0 {
		return fmt.Errorf("%d of %d accepted sign-ups lost, among them %s", len(r.lost), len(r.storm.signedUp), r.lost[0])
	}
	return nil
}

// A row is the result of one rate.
type row struct {
	rate     float64         // sent per second
	took     time.Duration   // until the last answer
	done     []time.Duration // the latencies of what succeeded, sorted
	refused  int             // with 503
	errors   []string        // all else
	signedUp []string        // accepted sign-ups among done
	memory   float64         // the most that the service had resident, in bytes
}

func (r row) taken() bool           { return len(r.errors)+r.refused == 0 && r.p99() <= slow }
func (r row) perSecond() float64    { return float64(len(r.done)) / r.took.Seconds() }
func (r row) median() time.Duration { return r.quantile(0.5) }
func (r row) p99() time.Duration    { return r.quantile(0.99) }

func (r row) String() string {
	return fmt.Sprintf("%.1f/s: %.1f logins/s, median %s, 99 %% %s, %d refused, %d errors, %.0f MB",
		r.rate, r.perSecond(), readable(r.median()), readable(r.p99()), r.refused, len(r.errors), r.memory/1e6)
}

func (r row) quantile(q float64) time.Duration {
	if len(r.done) == 0 {
		return 0
	}
	return r.done[int(q*float64(len(r.done)-1))]
}

// storm starts the build on an empty database and runs every rate.
func (b build) storm(ctx context.Context, dir string, o options) (*report, error) {
	path := filepath.Join(dir, "login-"+filepath.Base(b.label))
	if err := process.Build(path, b.tags); err != nil {
		return nil, err
	}
	db, err := os.MkdirTemp(dir, "db")
	if err != nil {
		return nil, err
	}
	p, err := process.Start(path, filepath.Join(db, "login.db"), io.Discard,
		"-cost", fmt.Sprint(o.cost), "-max-login", "10s")
	if err != nil {
		return nil, err
	}
	defer p.Kill()
	for i := range users {
		if status, err := send(ctx, p, "/signup", user(i)); err != nil || status != http.StatusCreated {
			return nil, fmt.Errorf("sign-up: status %d, %v", status, err)
		}
	}

	r := &report{}
	// A rate that fails gets a second chance, because a shared machine has slow moments.
	hold := func(rate float64) (taken bool) {
		for try := 0; try < 2 && !taken && ctx.Err() == nil; try++ {
			row := attack(ctx, p, rate, o.step, 0)
			r.rows = append(r.rows, row)
			fmt.Fprintln(os.Stderr, b.label, row)
			taken = row.taken()
		}
		return taken
	}
	// Raise the rate by a quarter until it is too much. Then raise it in small steps from the
	// last that was taken.
	climb := func(rate, factor float64) (taken float64) {
		for ; rate <= o.max && hold(rate); rate *= factor {
			taken = rate
		}
		return taken
	}
	taken := climb(o.from, 1.25)
	if taken == 0 {
		return nil, fmt.Errorf("does not take even %v logins a second", o.from)
	}
	taken = max(taken, climb(taken*1.03, 1.03))

	if r.memoryBefore, err = memory(ctx, p); err != nil {
		return nil, err
	}
	normal := attack(ctx, p, 2, 5*time.Second, 0)
	recovered := make(chan time.Duration, 1)
	time.AfterFunc(2*o.step, func() { recovered <- recovery(ctx, p, 2*normal.quantile(1)) })
	r.storm = attack(ctx, p, 2*taken, 2*o.step, 10)
	fmt.Fprintln(os.Stderr, b.label, r.storm)
	r.recovery = <-recovered
	if r.memoryAfter, err = memory(ctx, p); err != nil {
		return nil, err
	}
	for _, name := range r.storm.signedUp {
		if status, err := send(ctx, p, "/login", name); err != nil {
			return nil, err
		} else if status != http.StatusOK {
			r.lost = append(r.lost, name)
		}
	}
	return r, ctx.Err()
}

// attack sends logins at a rate for some time, and waits for all answers. If signUps is not
// 0, one in signUps requests is a sign-up.
func attack(ctx context.Context, p *process.Process, rate float64, d time.Duration, signUps uint64) row {
	var number atomic.Uint64
	next := func(t *vegeta.Target) error {
		path, name := "/login", user(rand.IntN(users))
		if n := number.Add(1); signUps > 0 && n%signUps == 0 {
			path, name = "/signup", fmt.Sprint("new", n)
		}
		*t = vegeta.Target{
			Method: "POST",
			URL:    p.URL + path + "?" + name, // the service looks at the body; the result has the URL
			Header: http.Header{"Content-Type": {"application/json"}},
			Body:   credentials(name),
		}
		return nil
	}
	const bound = 10_000 // requests at once, and connections
	transport := &http.Transport{MaxConnsPerHost: bound, MaxIdleConnsPerHost: bound}
	defer transport.CloseIdleConnections() // which would fill the service's memory at the next rate
	attacker := vegeta.NewAttacker(vegeta.MaxWorkers(bound), vegeta.Client(&http.Client{Transport: transport, Timeout: give}))
	defer context.AfterFunc(ctx, func() { attacker.Stop() })()
	r := row{rate: rate}
	ended, watched := make(chan bool), make(chan bool)
	go func() {
		defer close(watched)
		for {
			if bytes, err := memory(ctx, p); err == nil {
				r.memory = max(r.memory, bytes)
			}
			select {
			case <-ended:
				return
			case <-time.After(200 * time.Millisecond):
			}
		}
	}()
	start := time.Now()
	for result := range attacker.Attack(next, vegeta.Rate{Freq: int(rate * 1000), Per: 1000 * time.Second}, d, "") {
		switch {
		case result.Code == http.StatusServiceUnavailable:
			r.refused++
		case result.Code == http.StatusOK || result.Code == http.StatusCreated:
			r.done = append(r.done, result.Latency)
			if _, name, _ := strings.Cut(result.URL, "?"); result.Code == http.StatusCreated {
				r.signedUp = append(r.signedUp, name)
			}
		default:
			r.errors = append(r.errors, fmt.Sprintf("%d %s %s", result.Code, result.Error, result.Body))
		}
	}
	r.took = time.Since(start)
	close(ended)
	<-watched
	slices.Sort(r.done)
	return r
}

// recovery returns the time until logins, sent one after another, are answered within limit
// again and stay so.
func recovery(ctx context.Context, p *process.Process, limit time.Duration) time.Duration {
	start := time.Now()
	var since time.Duration
	for normal := 0; normal < 20 && ctx.Err() == nil; {
		sent := time.Now()
		status, err := send(ctx, p, "/login", user(0))
		if err != nil || status != http.StatusOK || time.Since(sent) > limit {
			normal = 0
			time.Sleep(10 * time.Millisecond)
			continue
		}
		if normal++; normal == 1 {
			since = sent.Sub(start)
		}
	}
	return since
}

func user(i int) string { return fmt.Sprint("user", i) }

func credentials(name string) []byte {
	return fmt.Appendf(nil, `{"name": %q, "password": %q}`, name, password)
}

// send returns the status of one login or sign-up.
func send(ctx context.Context, p *process.Process, path, name string) (status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, give)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, "POST", p.URL+path, bytes.NewReader(credentials(name)))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode, err
}

// memory returns the resident memory of the service, in bytes.
func memory(ctx context.Context, p *process.Process) (bytes float64, err error) {
	request, err := http.NewRequestWithContext(ctx, "GET", p.URL+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(answer.Body)
	if err != nil {
		return 0, err
	}
	family := families["process_resident_memory_bytes"]
	if family == nil {
		return 0, errors.New("the service does not tell its memory")
	}
	return family.GetMetric()[0].GetGauge().GetValue(), nil
}
