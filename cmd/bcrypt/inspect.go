package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"example.com/bcrypt"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// errCheck is the error of inspect --check. Like a mismatch it is an answer, and exits with 1.
type errCheck struct{ text string }

func (e errCheck) Error() string { return e.text }

func inspect() *cobra.Command {
	var a audit
	var column string
	cmd := &cobra.Command{
		Use:   "inspect {HASH | FILE | -}…",
		Short: "Tell what hashes hold, or audit a table of them",
		Long: "Tell what hashes hold: form, version, cost, salt, and the time that one takes here.\n\n" +
			"A FILE, or - for standard input, is audited: hashes are counted by form, version and\n" +
			"cost, and what is damaged or of another scheme is listed by line. A line holds a hash,\n" +
			"or has it after the first colon, as in htpasswd and passwd. --column names the column of\n" +
			"a CSV or TSV file by its header, or by its number if there is no header.\n\n" +
			"With --check the exit code is 1 if any hash is damaged, of another scheme, or below\n" +
			"--min-cost.",
		Example: "  bcrypt inspect '$2y$12$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW'\n" +
			"  bcrypt inspect --min-cost 12 .htpasswd\n" +
			"  bcrypt inspect --column password_hash users.csv\n" +
			"  bcrypt inspect --column 3 --json - <plain.csv",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if a.policy.Cost == 0 { // a Hasher would use its default
				return bcrypt.InvalidCostError(0)
			}
			a.policy.MaxCost = bcrypt.MaxCost
			if err := a.policy.Validate(); err != nil {
				return err
			}
			a.out = cmd.OutOrStdout()
			if !a.json {
				var err error
				if a.perSecond, err = pace(cmd.Context()); err != nil {
					return err
				}
			}
			audited := false
			for _, arg := range args {
				file, name, err := open(cmd, arg)
				if err != nil {
					return err
				}
				if file == nil {
					if err := a.one(arg); err != nil {
						return err
					}
					continue
				}
				audited = true
				err = a.readAll(cmd.Context(), file, name, column)
				file.Close()
				if err != nil {
					return err
				}
			}
			if audited && !a.json {
				a.print()
			}
			if bad := a.damaged + a.foreign + a.below; a.check && bad > 0 {
				return errCheck{fmt.Sprintf("%d of %d hashes fail the check: %d damaged, %d of another scheme, %d below cost %d",
					bad, a.hashes, a.damaged, a.foreign, a.below, a.policy.Cost)}
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&a.policy.Cost, "min-cost", bcrypt.DefaultCost, "the policy: a hash of lower cost is below it")
	flags.StringVar(&column, "column", "", "the column of CSV or TSV that has the hash: its name in the header, or its number from 1")
	flags.BoolVar(&a.check, "check", false, "exit with 1 if a hash is damaged, of another scheme or below --min-cost")
	flags.BoolVar(&a.json, "json", false, "print a JSON object for each hash, and nothing else")
	flags.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "cost" { // its name until the audit had a policy
			name = "min-cost"
		}
		return pflag.NormalizedName(name)
	})
	return cmd
}

// open opens an argument that is a file or -. It returns nil for a hash.
func open(cmd *cobra.Command, arg string) (io.ReadCloser, string, error) {
	if arg == "-" {
		if f, ok := cmd.InOrStdin().(*os.File); ok {
			return f, "standard input", nil
		}
		return io.NopCloser(cmd.InOrStdin()), "standard input", nil
	}
	_, hashErr := bcrypt.Inspect(arg)
	if hashErr == nil {
		return nil, "", nil
	}
	f, err := os.Open(arg)
	switch {
	case err == nil:
		return f, arg, nil
	case errors.Is(err, os.ErrNotExist) && strings.ContainsAny(arg, "${%|"): // a hash that is none
		return nil, "", nil
	case errors.As(err, new(*os.PathError)):
		err = errors.Unwrap(err)
	}
	if errors.As(hashErr, new(*bcrypt.NotBcryptError)) || !errors.Is(hashErr, bcrypt.ErrNotBcrypt) {
		return nil, "", nil
	}
	return nil, "", fmt.Errorf("%s: %w, and not a hash", arg, err)
}

// pace measures how many iterations a hash does a second here, alone on its core.
func pace(ctx context.Context) (float64, error) {
	c := bcrypt.Calibrator{MaxDuration: 40 * time.Millisecond, MinCost: bcrypt.MinCost}
	result, err := c.Run(ctx)
	if tooSlow := (*bcrypt.CostTooSlowError)(nil); err != nil && !errors.As(err, &tooSlow) {
		return 0, err
	}
	return result.IterationsPerSecond, nil
}

func timeOf(cost int, perSecond float64) time.Duration {
	return rounded(time.Duration(math.Exp2(float64(cost)) / perSecond * 1e9))
}

// one describes a hash that is an argument.
func (a *audit) one(hash string) error {
	info, err := bcrypt.Inspect(hash)
	if a.json {
		a.hashes++
		a.printJSON(a.judge(0, hash))
		return nil
	}
	if err != nil {
		return err
	}
	a.hashes++
	rehash := "no"
	if a.policy.NeedsRehash(hash) {
		rehash = fmt.Sprintf("yes, for cost %d", a.policy.Cost)
	}
	if info.Cost < a.policy.Cost {
		a.below++
	}
	prehash := "none"
	if info.Prehash != 0 {
		prehash = fmt.Sprintf("bcrypt-sha256 version %d", info.Prehash)
	}
	padding := ""
	if info.Padding > 0 {
		padding = fmt.Sprintf("padding  %d bytes\n", info.Padding)
	}
	fmt.Fprintf(a.out, "form     %s\nversion  %v\npre-hash %s\ncost     %d, %d iterations, about %v on this machine\nsalt     %x\n%srehash   %s\n\n",
		info.Form, info.Version, cmp.Or(prehash, "none"), info.Cost, uint64(1)<<info.Cost, timeOf(info.Cost, a.perSecond), info.Salt, padding, rehash)
	return nil
}
