// Package process builds the service and runs it as a process of its own, for tests and for
// the storm.
package process

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"time"
)

// Build builds the service to path, from the folder examples/login or one below it.
func Build(path string, tags string) error {
	out, err := exec.Command("go", "build", "-tags", tags, "-o", path, "example.com/bcrypt/examples/login").CombinedOutput()
	if err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

// A Process is a service that runs.
type Process struct {
	URL string
	cmd *exec.Cmd
}

var serving = regexp.MustCompile(`msg=serving url=(\S+)`)

// Start starts the program at path on a free port of 127.0.0.1 and returns when it serves.
// What it logs goes to log.
func Start(path, db string, log io.Writer, args ...string) (*Process, error) {
	cmd := exec.Command(path, append([]string{"-addr", "127.0.0.1:0", "-db", db}, args...)...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	url := make(chan string, 1)
	go func() {
		defer close(url)
		for lines := bufio.NewScanner(io.TeeReader(stderr, log)); lines.Scan(); {
			if m := serving.FindSubmatch(lines.Bytes()); m != nil {
				url <- string(m[1])
			}
		}
	}()
	select {
	case u, ok := <-url:
		if ok {
			return &Process{u, cmd}, nil
		}
		err = errors.New("the service ended before it served, see its log")
	case <-time.After(time.Minute):
		err = errors.New("the service does not serve after a minute")
	}
	cmd.Process.Kill()
	cmd.Wait()
	return nil, err
}

// Kill is kill -9.
func (p *Process) Kill() {
	p.cmd.Process.Kill()
	p.cmd.Wait()
}
