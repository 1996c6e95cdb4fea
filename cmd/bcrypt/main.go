// Command bcrypt chooses a cost for this machine, and makes and checks hashes.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"example.com/bcrypt"
	"github.com/spf13/cobra"
)

// Exit codes, as those of grep: a mismatch is an answer, not a failure.
const (
	exitMismatch = 1
	exitError    = 2
)

func main() {
	err := root().Execute()
	switch {
	case errors.Is(err, bcrypt.ErrMismatchedHashAndPassword):
		fmt.Fprintln(os.Stderr, "bcrypt: the password does not match the hash")
		os.Exit(exitMismatch)
	case err != nil:
		fmt.Fprintln(os.Stderr, "bcrypt: "+strings.TrimPrefix(err.Error(), "bcrypt: "))
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
	cmd.AddCommand(calibrate(), hash(), verify())
	return cmd
}

func calibrate() *cobra.Command {
	var limit time.Duration
	cmd := &cobra.Command{
		Use:     "calibrate",
		Short:   "Print the highest cost whose hash fits in a time on this machine",
		Example: "  bcrypt calibrate --max 250ms",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cost, err := bcrypt.Calibrate(limit)
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), cost)
			return nil
		},
	}
	cmd.Flags().DurationVar(&limit, "max", 250*time.Millisecond, "the longest that one hash may take")
	return cmd
}

func hash() *cobra.Command {
	var cost int
	cmd := &cobra.Command{
		Use:     "hash",
		Short:   "Print the hash of a password, which is read from standard input",
		Example: "  printf %s \"$PASSWORD\" | bcrypt hash --cost 12",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cost < bcrypt.MinCost {
				return bcrypt.InvalidCostError(cost) // the library would take 10
			}
			password, err := readPassword(cmd.InOrStdin())
			if err != nil {
				return err
			}
			h, err := bcrypt.GenerateFromPassword(password, cost)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s\n", h)
			return nil
		},
	}
	cmd.Flags().IntVar(&cost, "cost", bcrypt.DefaultCost, "base-2 logarithm of the work, 4 to 31")
	return cmd
}

func verify() *cobra.Command {
	return &cobra.Command{
		Use:   "verify HASH",
		Short: "Check a password, which is read from standard input, against a hash",
		Long: "Check a password, which is read from standard input, against a hash.\n" +
			"The exit code is 0 if they match, 1 if not, 2 for an error.",
		Example: "  printf %s \"$PASSWORD\" | bcrypt verify '$2a$12$...'",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			password, err := readPassword(cmd.InOrStdin())
			if err != nil {
				return err
			}
			return bcrypt.CompareHashAndPassword([]byte(args[0]), password)
		},
	}
}

// readPassword reads one line, without what ends it.
func readPassword(r io.Reader) ([]byte, error) {
	line, err := bufio.NewReader(r).ReadBytes('\n')
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("cannot read the password from standard input: %w", err)
	}
	if err == io.EOF && len(line) == 0 {
		return nil, errors.New("no password on standard input: want one line")
	}
	if n := len(line); line[n-1] == '\n' {
		line = line[:n-1]
	}
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return line, nil
}
