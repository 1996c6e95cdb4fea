// Command bcrypt chooses a cost for this machine, makes and checks hashes, and tells what
// a file of hashes holds.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"

	"example.com/bcrypt"
	"github.com/spf13/cobra"
)

// Exit codes, as those of grep: a mismatch is an answer, not a failure.
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
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	cmd.AddCommand(calibrate(), hash(), verify(), inspect(), bench())
	return cmd
}
