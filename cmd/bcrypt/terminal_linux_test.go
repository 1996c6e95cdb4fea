package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// On a terminal passwords are asked for, twice for a new hash, and not shown.
func TestPrompt(t *testing.T) {
	command := build(t)
	out, err := onTerminal(t, exec.Command(command, "hash", "--cost", "4"), "U*U\n", "U*U\n")
	require.NoError(t, err)
	require.Contains(t, out, "Password: ")
	require.Contains(t, out, "The same again: ")
	require.NotContains(t, out, "U*U")
	hash := out[strings.Index(out, "$2b$04$"):][:60]

	out, err = onTerminal(t, exec.Command(command, "verify", hash), "U*U\n")
	require.NoError(t, err)
	require.Contains(t, out, "Password: ")
	require.NotContains(t, out, "U*U")

	out, err = onTerminal(t, exec.Command(command, "hash", "--cost", "4"), "U*U\n", "U*V\n")
	require.Error(t, err)
	require.Contains(t, out, "bcrypt: the two passwords differ")
	require.NotContains(t, out, "U*")
}

// On a terminal calibrate shows how far it is, and erases that before the evidence.
func TestProgress(t *testing.T) {
	out, err := onTerminal(t, exec.Command(build(t), "calibrate", "--max", "3s", "--min-cost", "4"))
	require.NoError(t, err)
	require.Contains(t, out, "pass 1, cost ")
	require.Greater(t, strings.Index(out, "limit 3s"), strings.LastIndex(out, "pass 1, cost "))
}

// On a terminal an audit shows how far it is.
func TestAuditProgress(t *testing.T) {
	table := filepath.Join(t.TempDir(), "table.txt")
	line := "ann:$2y$12$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW\n"
	require.NoError(t, os.WriteFile(table, []byte(strings.Repeat(line, 500_000)), 0o600))
	out, err := onTerminal(t, exec.Command(build(t), "inspect", table))
	require.NoError(t, err)
	require.Regexp(t, `\d+%`, out)
	require.Contains(t, out, "500000 hashes, 0 damaged")
}

// onTerminal runs cmd on a pseudo-terminal, and answers each prompt, which ends in ": ",
// once the terminal no longer shows what is typed: x/term can only switch that off after
// the prompt is out, and an answer in between would be shown.
func onTerminal(t *testing.T, cmd *exec.Cmd, answers ...string) (output string, err error) {
	t.Helper()
	terminal, err := pty.Start(cmd)
	require.NoError(t, err)
	defer terminal.Close()
	timer := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	defer timer.Stop()
	var all bytes.Buffer
	buf := make([]byte, 4096)
	for {
		n, err := terminal.Read(buf)
		all.Write(buf[:n])
		if len(answers) > 0 && bytes.HasSuffix(all.Bytes(), []byte(": ")) {
			require.Eventually(t, func() bool {
				state, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS)
				return err == nil && state.Lflag&unix.ECHO == 0
			}, time.Minute, time.Millisecond)
			_, err := io.WriteString(terminal, answers[0])
			require.NoError(t, err)
			answers = answers[1:]
		}
		if err != nil { // on Linux EIO, when the program has ended
			break
		}
	}
	return all.String(), cmd.Wait()
}
