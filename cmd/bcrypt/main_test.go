package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"bcrypt": main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata"})
}

// testscript cannot tell exit codes apart, so this checks them.
func TestExitCodes(t *testing.T) {
	command := build(t)
	for _, c := range []struct {
		password, hash string
		code           int
	}{
		{"U*U", "$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW", 0},
		{"wrong", "$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW", 1},
		{"U*U", "x", 2},
	} {
		cmd := exec.Command(command, "verify", c.hash)
		cmd.Stdin = strings.NewReader(c.password + "\n")
		cmd.Run()
		require.Equal(t, c.code, cmd.ProcessState.ExitCode(), "%q, %q", c.password, c.hash)
	}
	for cost, code := range map[string]int{"5": 0, "6": 1, "99": 2} {
		cmd := exec.Command(command, "inspect", "--check", "--min-cost", cost, "$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW")
		cmd.Run()
		require.Equal(t, code, cmd.ProcessState.ExitCode(), cost)
	}
}

// Ctrl-C prints what is done so far.
func TestBenchInterrupted(t *testing.T) {
	cmd := exec.Command(build(t), "bench", "--costs", "4-20", "--max", "1h", "--rounds", "3")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	require.NoError(t, cmd.Start())
	time.Sleep(3 * time.Second)
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	require.Error(t, cmd.Wait())
	require.Equal(t, 2, cmd.ProcessState.ExitCode())
	require.Equal(t, "bcrypt: interrupted\n", errs.String())
	require.Regexp(t, `(?m)^│ +4 │ +1 │ medium +│ this +│ +3 │`, out.String())
}

// The same while a peer program runs. That it was killed is not the error.
func TestBenchInterruptedPeer(t *testing.T) {
	dir := t.TempDir()
	started := filepath.Join(dir, "started")
	php := "#!/bin/sh\n[ \"$4\" = 4 ] && { echo 1000; exit; }\ntouch " + started + "\nexec sleep 60\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "php"), []byte(php), 0o700))
	cmd := exec.Command(build(t), "bench", "--costs", "4-5", "--rounds", "1", "--against", "php")
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	require.NoError(t, cmd.Start())
	require.Eventually(t, func() bool {
		_, err := os.Stat(started)
		return err == nil
	}, time.Minute, 10*time.Millisecond)
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	require.Error(t, cmd.Wait())
	require.Equal(t, "bcrypt: interrupted\n", errs.String())
	require.Regexp(t, `(?m)^│ +4 │ +1 │ medium +│ php +│ +1 │`, out.String())
	require.Regexp(t, `(?m)^│ +5 │ +1 │ medium +│ this +│ +1 │`, out.String())
}

// --version names the module, its version and that of Go.
func TestVersion(t *testing.T) {
	out, err := exec.Command(build(t), "--version").Output()
	require.NoError(t, err)
	require.Regexp(t, `^example\.com/bcrypt/cmd/bcrypt \S+, go1\.\S+(, revision [0-9a-f]{40}( with changes)?)?\n$`, string(out))
}

// build returns the path of the command.
func build(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bcrypt")
	out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput()
	require.NoError(t, err, string(out))
	return path
}

// The examples in each command's help work. Those of bench take one turn here, and calibrate may
// find the machine too slow.
func TestHelpExamples(t *testing.T) {
	const line = "ann:$2y$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW\n"
	dir := filepath.Dir(build(t))
	for name, text := range map[string]string{
		"password.txt": "U*U\n", ".htpasswd": line, "users.csv": "id,password_hash\n1," + line[4:], "plain.csv": "1,ann," + line[4:],
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	for _, cmd := range root().Commands() {
		require.NotEmpty(t, cmd.Example, cmd.Name())
		for example := range strings.Lines(cmd.Example) {
			example = strings.TrimSpace(example)
			if cmd.Name() == "bench" {
				example += " --rounds 1"
			}
			sh := exec.Command("sh", "-c", example)
			sh.Dir = dir
			sh.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
			sh.Stdin = strings.NewReader("U*U\n")
			out, err := sh.CombinedOutput()
			if cmd.Name() == "calibrate" && err != nil {
				require.Contains(t, string(out), "too slow", example)
				continue
			}
			require.NoError(t, err, "%s\n%s", example, out)
			if cmd.Name() != "verify" {
				require.NotEmpty(t, out, example)
			}
		}
	}
}
