package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// The form, in Debian's chromium.
func TestBrowser(t *testing.T) {
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		require.Empty(t, os.Getenv("LOGIN_TEST_BROWSER"), "chromium is required, and missing")
		t.Skip("no chromium")
	}
	s := start(t, filepath.Join(t.TempDir(), "login.db"), nil)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	ctx, cancel = chromedp.NewExecAllocator(ctx, append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(chromium), chromedp.NoSandbox, chromedp.Flag("disable-quic", true))...)
	defer cancel()
	ctx, cancel = chromedp.NewContext(ctx)
	defer cancel()

	// submit fills the form in, presses a button, and returns the message on the next page.
	submit := func(name, password, button string) (message string) {
		t.Helper()
		require.NoError(t, chromedp.Do(ctx,
			chromedp.Navigate(s.url),
			chromedp.SendKeys("#user", name),
			chromedp.SendKeys("#password", password),
			chromedp.Click(button),
			chromedp.WaitVisible("#message:not(:empty)")))
		message, err := chromedp.Run(ctx, chromedp.Text("#message"))
		require.NoError(t, err)
		return message
	}
	require.Equal(t, "Signed up. Now log in.", submit("ann", "correct horse ä", "#signup"))
	require.Equal(t, "That name is taken.", submit("ann", "correct horse", "#signup"))
	require.Equal(t, "Wrong name or password.", submit("ann", "wrong horse", "#login"))
	const tooLong = "A password has at most 72 bytes: 72 English letters, fewer of others."
	require.Equal(t, tooLong, submit("bob", strings.Repeat("x", 73), "#signup"))
	require.Equal(t, tooLong, submit("bob", strings.Repeat("ä", 37), "#signup"))
	require.Equal(t, "Signed up. Now log in.", submit("bob", strings.Repeat("ä", 36), "#signup"))
	require.Equal(t, tooLong, submit("ann", strings.Repeat("x", 73), "#login"))
	require.Equal(t, "Logged in.", submit("ann", "correct horse ä", "#login"))

	// The session holds on the next page, until the logout.
	require.NoError(t, chromedp.Do(ctx, chromedp.Navigate(s.url)))
	name, err := chromedp.Run(ctx, chromedp.Text("#name"))
	require.NoError(t, err)
	require.Equal(t, "ann", name)
	require.NoError(t, chromedp.Do(ctx, chromedp.Click("#logout"), chromedp.WaitVisible("#user")))
	message, err := chromedp.Run(ctx, chromedp.Text("#message"))
	require.NoError(t, err)
	require.Equal(t, "Logged out.", message)
}
