package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"example.com/bcrypt"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

func inspect() *cobra.Command {
	var cost, column int
	cmd := &cobra.Command{
		Use:   "inspect {HASH… | -}",
		Short: "Tell what hashes hold: version, cost, salt",
		Long: "Tell what hashes hold: version, cost, salt, the time that one takes on this machine,\n" +
			"and whether it is below a cost. With -, hashes are read from standard input, one a\n" +
			"line, or as the field after the first colon, as htpasswd writes them, or with --column\n" +
			"from a column of CSV; malformed ones are listed with their line, then all are counted.",
		Example: "  bcrypt inspect '$2y$12$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW'\n" +
			"  bcrypt inspect --cost 12 - <.htpasswd\n" +
			"  bcrypt inspect --column 3 - <users.csv",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if column < 0 {
				return fmt.Errorf("--column is %d, want 1 or more", column)
			}
			if cost == 0 { // which a Hasher would take for its default
				return bcrypt.InvalidCostError(cost)
			}
			policy := &bcrypt.Hasher{Cost: cost, MaxCost: bcrypt.MaxCost}
			if err := policy.Validate(); err != nil {
				return err
			}
			perSecond, err := pace(cmd.Context())
			if err != nil {
				return err
			}
			if len(args) == 1 && args[0] == "-" {
				return inspectAll(cmd, policy, column, perSecond)
			}
			for _, arg := range args {
				info, err := bcrypt.Inspect(arg)
				if err != nil {
					return err
				}
				describe(cmd.OutOrStdout(), arg, info, policy, perSecond)
			}
			return nil
		},
	}
	cmd.Flags().IntVar(&cost, "cost", bcrypt.DefaultCost, "the policy: a hash of lower cost needs a rehash")
	cmd.Flags().IntVar(&column, "column", 0, "with -: the column of CSV, from 1, that has the hash")
	return cmd
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

func describe(w io.Writer, hash string, info bcrypt.HashInfo, policy *bcrypt.Hasher, perSecond float64) {
	rehash := "no"
	if policy.NeedsRehash(hash) {
		rehash = fmt.Sprintf("yes, for cost %d", policy.Cost)
	}
	prehash := "none"
	if info.Prehash != 0 {
		prehash = fmt.Sprintf("bcrypt-sha256 version %d", info.Prehash)
	}
	fmt.Fprintf(w, "version  %v\npre-hash %s\ncost     %d, %d iterations, about %v on this machine\nsalt     %x\ndigest   %s\nrehash   %s\n\n",
		info.Version, prehash, info.Cost, uint64(1)<<info.Cost, timeOf(info.Cost, perSecond), info.Salt, hash[len(hash)-31:], rehash)
}

// A kind is what hashes are counted by.
type kind struct {
	version string
	cost    int
}

// inspectAll reads hashes from standard input. It holds no more than a line and the counts.
func inspectAll(cmd *cobra.Command, policy *bcrypt.Hasher, column int, perSecond float64) error {
	counts := map[kind]int{}
	var lines, malformed, below int
	next := lineReader(cmd.InOrStdin(), column)
	for {
		if err := cmd.Context().Err(); err != nil {
			return err
		}
		hash, line, err := next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return fmt.Errorf("standard input, line %d: %w", line, err)
		}
		lines++
		info, err := bcrypt.Inspect(hash)
		if err != nil {
			malformed++
			fmt.Fprintf(cmd.OutOrStdout(), "line %d: %s\n", line, strings.TrimPrefix(err.Error(), "bcrypt: "))
			continue
		}
		version := info.Version.String()
		if info.Prehash != 0 {
			version = fmt.Sprintf("bcrypt-sha256 v%d", info.Prehash)
		}
		counts[kind{version, info.Cost}]++
		if policy.NeedsRehash(hash) {
			below++
		}
	}

	t := newTable(2, "version", "cost", "hashes", "time each")
	for _, k := range slices.SortedFunc(maps.Keys(counts), func(a, b kind) int {
		return cmp.Or(strings.Compare(a.version, b.version), cmp.Compare(a.cost, b.cost))
	}) {
		t.AppendRow(table.Row{k.version, k.cost, counts[k], timeOf(k.cost, perSecond)})
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s\n%d lines, %d malformed, %d to rehash for cost %d\n", t.Render(), lines, malformed, below, policy.Cost)
	return nil
}

// lineReader returns a function that returns the next hash and its line, and shows a
// progress bar if the input is a file and standard error a terminal.
func lineReader(in io.Reader, column int) func() (hash string, line int, err error) {
	if f, ok := in.(*os.File); ok && term.IsTerminal(int(os.Stderr.Fd())) {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			bar := newBar(info.Size())
			in = io.TeeReader(in, bar)
		}
	}
	if column > 0 {
		records := csv.NewReader(in)
		records.ReuseRecord = true
		records.FieldsPerRecord = -1
		return func() (string, int, error) {
			record, err := records.Read()
			if err != nil {
				var parse *csv.ParseError
				if errors.As(err, &parse) {
					return "", parse.Line, parse.Err
				}
				return "", 0, err
			}
			line, _ := records.FieldPos(0)
			if len(record) < column {
				return "", line, nil
			}
			return record[column-1], line, nil
		}
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 64<<10), 1<<20)
	line := 0
	return func() (string, int, error) {
		line++
		if !lines.Scan() {
			return "", line, cmp.Or(lines.Err(), io.EOF)
		}
		hash := lines.Text()
		if _, after, ok := strings.Cut(hash, ":"); ok {
			hash, _, _ = strings.Cut(after, ":")
		}
		return hash, line, nil
	}
}
