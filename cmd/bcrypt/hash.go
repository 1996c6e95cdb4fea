package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"example.com/bcrypt"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

func hash() *cobra.Command {
	var cost int
	var limit time.Duration
	var version string
	var prehash bool
	cmd := &cobra.Command{
		Use:   "hash",
		Short: "Print the hash of a password",
		Long: "Print the hash of a password. The password is read from the terminal, or as one line\n" +
			"from standard input. It is never an argument, because other users could see that.",
		Example: "  bcrypt hash --cost 12\n" +
			"  bcrypt hash --max 250ms <password.txt",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			h := &bcrypt.Hasher{Cost: cost}
			switch version {
			case "2b":
			case "2a":
				h.Version = bcrypt.Version2a
			case "2y":
				h.Version = bcrypt.Version2y
			default:
				return fmt.Errorf("--version is %q, want 2b, 2a or 2y", version)
			}
			if prehash {
				h.Long = bcrypt.PrehashLong
			}
			if cost == 0 { // a Hasher would use its default
				return bcrypt.InvalidCostError(cost)
			}
			if limit != 0 {
				result, err := (&bcrypt.Calibrator{MaxDuration: limit}).Run(cmd.Context())
				if err != nil {
					return err
				}
				h.Cost = result.Cost
			}
			if err := h.Validate(); err != nil {
				return err
			}
			password, err := readPassword(cmd.InOrStdin(), "Password: ", "The same again: ")
			if err != nil {
				return err
			}
			defer clear(password)
			text, err := h.Hash(cmd.Context(), password)
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), text)
			return nil
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&cost, "cost", bcrypt.DefaultCost, "base-2 logarithm of the work, 4 to 31")
	flags.DurationVar(&limit, "max", 0, "instead of --cost: the highest cost that fits in this time here")
	flags.StringVar(&version, "version", "2b", "2b, 2a or 2y")
	flags.BoolVar(&prehash, "prehash", false, "write bcrypt-sha256, for passwords over 72 bytes")
	cmd.MarkFlagsMutuallyExclusive("cost", "max")
	return cmd
}

func verify() *cobra.Command {
	return &cobra.Command{
		Use:   "verify HASH",
		Short: "Check a password against a hash",
		Long: "Check a password against a hash. The password is read from the terminal, or as one\n" +
			"line from standard input. The exit code is 0 for a match, 1 for none, 2 for an error.",
		Example: "  bcrypt verify '$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW'",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			info, err := bcrypt.Inspect(args[0])
			if err != nil {
				return err
			}
			password, err := readPassword(cmd.InOrStdin(), "Password: ")
			if err != nil {
				return err
			}
			defer clear(password)
			h := &bcrypt.Hasher{Cost: info.Cost, MaxCost: bcrypt.MaxCost}
			if info.Form != bcrypt.FormBare { // some of them take passwords of any length
				h.Long = bcrypt.PrehashLong
			}
			return h.Verify(cmd.Context(), args[0], password)
		},
	}
}

// readPassword asks for a password on the terminal, hidden, once for each prompt. If in is no
// terminal it reads one line, and drops the line's end.
func readPassword(in io.Reader, prompts ...string) ([]byte, error) {
	if f, ok := in.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return askPassword(int(f.Fd()), prompts)
	}
	line, err := bufio.NewReader(in).ReadBytes('\n')
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("cannot read the password from standard input: %w", err)
	}
	if len(line) == 0 {
		return nil, errors.New("no password on standard input: want one line")
	}
	line = bytes.TrimSuffix(line, []byte("\n"))
	return bytes.TrimSuffix(line, []byte("\r")), nil
}

func askPassword(fd int, prompts []string) (password []byte, err error) {
	for i, prompt := range prompts {
		fmt.Fprint(os.Stderr, prompt)
		answer, err := term.ReadPassword(fd)
		fmt.Fprintln(os.Stderr)
		if err != nil {
			return nil, fmt.Errorf("cannot read the password from the terminal: %w", err)
		}
		if i > 0 && !bytes.Equal(answer, password) {
			return nil, errors.New("the two passwords differ")
		}
		password = answer
	}
	return password, nil
}
