package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// A buffer is a log that can be read while it is written.
type buffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// start runs the proxy and returns its URL, that of its metrics, and its log.
func start(t *testing.T, users, to string) (url, metrics string, log *buffer) {
	t.Helper()
	log = &buffer{}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, slog.New(slog.NewTextHandler(log, nil)), "127.0.0.1:0", "127.0.0.1:0", users, to, "Restricted")
	}()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	urls := regexp.MustCompile(`what=(metrics|proxy) url=(\S+)`)
	require.Eventually(t, func() bool { return len(urls.FindAllString(log.String(), -1)) == 2 }, 10*time.Second, time.Millisecond)
	found := urls.FindAllStringSubmatch(log.String(), -1)
	return found[1][2], found[0][2], log
}

// program returns the path of a program. With BCRYPT_INTEROP set it must be installed.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil && os.Getenv("BCRYPT_INTEROP") == "" {
		t.Skip(name + " is not installed")
	}
	require.NoError(t, err)
	return path
}

func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	require.NoError(t, err, string(out))
	return string(out)
}

// Users made, changed and deleted with the real htpasswd, asked for with curl; /metrics counts.
func TestHtpasswdAndCurl(t *testing.T) {
	htpasswd, curl := program(t, "htpasswd"), program(t, "curl")
	users := filepath.Join(t.TempDir(), "users")
	output(t, htpasswd, "-cbB", "-C", "4", users, "ann", "correct horse")
	output(t, htpasswd, "-bB", "-C", "5", users, "bob", "pässwörd ☃")
	url, metrics, log := start(t, users, "")
	status := func(user string) string {
		return output(t, curl, "-s", "-o", "/dev/null", "-w", "%{http_code}", "-u", user, url)
	}
	require.Equal(t, "hello ann\n", output(t, curl, "-s", "-u", "ann:correct horse", url))
	require.Equal(t, "hello bob\n", output(t, curl, "-s", "-u", "bob:pässwörd ☃", url))
	require.Equal(t, "401", status("ann:wrong"))
	require.Equal(t, "401", status("nobody:x"))
	require.Contains(t, output(t, curl, "-si", url), "Www-Authenticate: Basic realm=\"Restricted\", charset=\"UTF-8\"\r\n")
	require.Contains(t, output(t, curl, "-sI", "-u", "ann:correct horse", url), "200 OK")

	output(t, htpasswd, "-bB", "-C", "4", users, "ann", "new one")
	output(t, htpasswd, "-D", users, "bob")
	require.Eventually(t, func() bool { return status("ann:new one") == "200" }, 10*time.Second, 100*time.Millisecond)
	require.Equal(t, "401", status("ann:correct horse"))
	require.Equal(t, "401", status("bob:pässwörd ☃"))

	output(t, htpasswd, "-bm", users, "cleo", "x") // MD5: the last good version stays
	require.Eventually(t, func() bool {
		require.Equal(t, "200", status("ann:new one"))
		return strings.Contains(log.String(), "MD5 crypt (Apache)")
	}, 10*time.Second, 100*time.Millisecond)

	text := output(t, curl, "-s", metrics+"/metrics")
	require.Regexp(t, `(?m)^basicauth_requests_total\{result="passed"\} [1-9]`, text)
	require.Regexp(t, `(?m)^basicauth_requests_total\{result="refused"\} [1-9]`, text)
	require.Regexp(t, `(?m)^basicauth_requests_total\{result="malformed"\} 1$`, text)
	require.Regexp(t, `(?m)^basicauth_remembered_total [1-9]`, text)
	require.NotContains(t, text, "ann")
}

// A real browser, which sends the password only after the challenge, and again with each request.
func TestBrowser(t *testing.T) {
	chromium := program(t, "chromium")
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("the password went on to the server behind")
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, "<p id=who>%s</p>", r.Header.Get("X-User"))
	}))
	defer backend.Close()
	users := filepath.Join(t.TempDir(), "users")
	require.NoError(t, os.WriteFile(users, []byte("ann:$2y$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW\n"), 0o600))
	url, _, _ := start(t, users, backend.URL)

	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium), chromedp.NoSandbox)
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	defer cancel()
	ctx, cancel = chromedp.NewContext(ctx)
	defer cancel()
	ctx, cancel = context.WithTimeout(ctx, time.Minute)
	defer cancel()
	require.NoError(t, chromedp.Do(ctx, chromedp.Navigate(strings.Replace(url, "://", "://ann:U*U@", 1))))
	who, err := chromedp.Run(ctx, chromedp.Text("#who"))
	require.NoError(t, err)
	require.Equal(t, "ann", who)
	// The browser sends the password again with the next request, without asking.
	require.NoError(t, chromedp.Do(ctx, chromedp.Navigate(url+"/other")))
	who, err = chromedp.Run(ctx, chromedp.Text("#who"))
	require.NoError(t, err)
	require.Equal(t, "ann", who)
}

// What cannot work ends the start, with the reason.
func TestRunErrors(t *testing.T) {
	good := filepath.Join(t.TempDir(), "users")
	require.NoError(t, os.WriteFile(good, nil, 0o600))
	for _, c := range []struct{ addr, users, to, want string }{
		{"127.0.0.1:0", "nosuchfile", "", "no such file"},
		{"127.0.0.1:0", good, "localhost:80", "-to is no http:// or https:// URL"},
		{"127.0.0.1:0", good, ":", "missing protocol scheme"},
		{"127.0.0.1:x", good, "", "listen tcp"},
	} {
		err := run(t.Context(), slog.New(slog.DiscardHandler), c.addr, "127.0.0.1:0", c.users, c.to, "x")
		require.ErrorContains(t, err, c.want)
	}
}
