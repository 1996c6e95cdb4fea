// Command bcrypt chooses a cost for this machine, makes and checks hashes, and audits files
// of hashes. README.md is its manual.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"

	"example.com/bcrypt"
	"github.com/spf13/cobra"
)

// Exit codes, like grep's: a mismatch, or a table that fails a check, is an answer, not a failure.
const (
	exitMismatch = 1
	exitError    = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := root().ExecuteContext(ctx)
	stop()
	switch {
	case err == nil:
	case errors.Is(err, bcrypt.ErrMismatchedHashAndPassword):
		fmt.Fprintln(os.Stderr, "bcrypt: the password does not match the hash")
		os.Exit(exitMismatch)
	case errors.As(err, new(errCheck)):
		fmt.Fprintln(os.Stderr, "bcrypt: "+err.Error())
		os.Exit(exitMismatch)
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(os.Stderr, "bcrypt: interrupted")
		os.Exit(exitError)
	default:
		text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "crypto/"), "bcrypt: ")
		fmt.Fprintln(os.Stderr, "bcrypt: "+strings.ReplaceAll(text, "\n", " "))
		os.Exit(exitError)
	}
}

func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:           "bcrypt",
		Short:         "Choose a bcrypt cost for this machine, make hashes and check them",
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	cmd.SetVersionTemplate("{{.Version}}\n")
	cmd.AddCommand(calibrate(), hash(), verify(), inspect(), bench())
	return cmd
}

// version names the module and its version, the Go version, and, if the build knows it, the
// VCS revision.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "bcrypt, built without module information, " + runtime.Version()
	}
	text := fmt.Sprintf("%s %s, %s", info.Main.Path, cmp.Or(info.Main.Version, "(devel)"), info.GoVersion)
	setting := map[string]string{}
	for _, s := range info.Settings {
		setting[s.Key] = s.Value
	}
	if revision := setting["vcs.revision"]; revision != "" {
		text += ", revision " + revision
		if setting["vcs.modified"] == "true" {
			text += " with changes"
		}
	}
	return text
}
