package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"example.com/bcrypt"
	"github.com/jedib0t/go-pretty/v6/table"
	"golang.org/x/term"
)

// An audit counts the hashes of a table. It holds the counts and the first lines that are wrong,
// whatever the table's length.
type audit struct {
	policy      bcrypt.Hasher
	perSecond   float64 // iterations, of a hash alone here
	check, json bool
	out         io.Writer

	hashes, damaged, foreign, below int
	kinds                           map[kind]int
	schemes                         map[string]int
	first                           []string // texts of the first damaged lines
	more                            int      // damaged lines after those
}

// A kind is what hashes are counted by.
type kind struct {
	form    bcrypt.Form
	version bcrypt.Version
	cost    int
}

// mostListed is how many damaged lines are listed.
const mostListed = 10

// A finding is what is said of one hash. It holds no byte of it.
type finding struct {
	File    string      `json:"file,omitempty"`
	Line    int         `json:"line,omitempty"`
	Form    bcrypt.Form `json:"form,omitempty"`
	Version string      `json:"version,omitempty"`
	Cost    int         `json:"cost,omitempty"`
	Padding int         `json:"padding,omitempty"`
	Below   bool        `json:"below_min_cost,omitempty"`
	Rehash  bool        `json:"needs_rehash,omitempty"`
	Scheme  string      `json:"scheme,omitempty"` // of what is not bcrypt
	Error   string      `json:"error,omitempty"`  // of what is damaged
}

// judge says what a hash is, and counts it.
func (a *audit) judge(line int, hash string) finding {
	f := finding{Line: line}
	info, err := bcrypt.Inspect(hash)
	var foreign *bcrypt.NotBcryptError
	switch {
	case errors.As(err, &foreign):
		a.foreign++
		f.Scheme = foreign.Scheme
		return f
	case err != nil:
		a.damaged++
		f.Error = strings.TrimPrefix(err.Error(), "bcrypt: ")
		return f
	}
	f.Form, f.Version, f.Cost, f.Padding = info.Form, info.Version.String(), info.Cost, info.Padding
	f.Below, f.Rehash = info.Cost < a.policy.Cost, a.policy.NeedsRehash(hash)
	if f.Below {
		a.below++
	}
	if a.kinds != nil {
		a.kinds[kind{info.Form, info.Version, info.Cost}]++
	}
	return f
}

func (a *audit) printJSON(f finding) {
	text, err := json.Marshal(f)
	if err != nil {
		panic(err) // a finding is strings and numbers
	}
	a.out.Write(append(text, '\n'))
}

// readAll audits a file.
func (a *audit) readAll(ctx context.Context, in io.Reader, name, column string) error {
	if a.kinds == nil {
		a.kinds, a.schemes = map[kind]int{}, map[string]int{}
	}
	if f, ok := in.(*os.File); ok && term.IsTerminal(int(os.Stderr.Fd())) {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			bar := newBar(info.Size())
			defer bar.Finish()
			in = io.TeeReader(in, bar)
		}
	}
	lines := bufio.NewReaderSize(in, 64<<10)
	if mark, err := lines.Peek(3); err == nil && string(mark) == "\ufeff" {
		lines.Discard(3)
	}
	next := readLines(lines)
	if column != "" {
		var err error
		if next, err = readColumn(lines, column, name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	out := a.out
	buffered := bufio.NewWriter(out)
	a.out = buffered
	defer func() { buffered.Flush(); a.out = out }()
	for {
		if a.hashes%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		hash, line, err := next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s, line %d: %w", name, line, err)
		}
		a.hashes++
		f := a.judge(line, hash)
		switch {
		case a.json:
			f.File = name
			a.printJSON(f)
		case f.Scheme != "":
			a.schemes[f.Scheme]++
		case f.Error != "" && len(a.first) < mostListed:
			a.first = append(a.first, fmt.Sprintf("%s, line %d: %s", name, line, f.Error))
		case f.Error != "":
			a.more++
		}
	}
}

// print prints what was found in all files.
func (a *audit) print() {
	for _, text := range a.first {
		fmt.Fprintln(a.out, text)
	}
	if a.more > 0 {
		fmt.Fprintf(a.out, "and %d more; --json lists all\n", a.more)
	}
	t := newTable(3, "form", "version", "cost", "hashes", "time each")
	for _, k := range slices.SortedFunc(maps.Keys(a.kinds), func(x, y kind) int {
		return cmp.Or(cmp.Compare(x.form, y.form), cmp.Compare(x.version, y.version), cmp.Compare(x.cost, y.cost))
	}) {
		t.AppendRow(table.Row{k.form, k.version.String(), k.cost, a.kinds[k], timeOf(k.cost, a.perSecond)})
	}
	if len(a.schemes) > 0 {
		t.AppendSeparator()
	}
	for _, scheme := range slices.Sorted(maps.Keys(a.schemes)) {
		t.AppendRow(table.Row{scheme, "not bcrypt", "", a.schemes[scheme], ""})
	}
	fmt.Fprintf(a.out, "%s\n%d hashes, %d damaged, %d of another scheme, %d below cost %d", t.Render(), a.hashes, a.damaged, a.foreign, a.below, a.policy.Cost)
	good := a.hashes - a.damaged - a.foreign
	if good > 0 {
		fmt.Fprintf(a.out, " (%.1f %% of the bcrypt hashes)", 100*float64(a.below)/float64(good))
	}
	fmt.Fprintln(a.out)
	if good == 0 {
		return
	}

	guesses := 0.0 // seconds, of an attacker for a million guesses at each
	for k, n := range a.kinds {
		guesses += float64(n) * 1e6 / attacker.GuessesPerSecond * math.Exp2(float64(k.cost-attacker.Cost))
	}
	if a.below > 0 {
		fmt.Fprintf(a.out, "to bring those to cost %d as their users log in takes %s of one core here\n",
			a.policy.Cost, hours(float64(a.below)*math.Exp2(float64(a.policy.Cost))/a.perSecond))
	}
	fmt.Fprintf(a.out, "a million guesses at each take %s of %s\n", hours(guesses), attacker.What)
}

// hours returns a number of seconds in hours, or in seconds if they are few.
func hours(seconds float64) string {
	if seconds < 360 {
		return fmt.Sprintf("%.3g seconds", seconds)
	}
	if h := seconds / 3600; h >= 1000 {
		return fmt.Sprintf("%.0f hours", h)
	}
	return fmt.Sprintf("%.3g hours", seconds/3600)
}

// longest is the longest line of a file that is read, in bytes.
const longest = 1 << 20

// readLines returns a function that returns the next hash and its line: the line, or what is after
// its first colon, without quotes. Blank lines and comments are passed over.
func readLines(in *bufio.Reader) func() (hash string, line int, err error) {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 64<<10), longest)
	lines.Split(scanLines)
	line := 0
	return func() (string, int, error) {
		for lines.Scan() {
			line++
			text := bytes.TrimSpace(lines.Bytes())
			if len(text) == 0 || text[0] == '#' {
				continue
			}
			return hashIn(string(text)), line, nil
		}
		err := lines.Err()
		if errors.Is(err, bufio.ErrTooLong) {
			err = fmt.Errorf("it has more than %d bytes", longest)
		}
		return "", line + 1, cmp.Or(err, io.EOF)
	}
}

// scanLines is bufio.ScanLines, for lines that end in CR alone too.
func scanLines(data []byte, atEOF bool) (advance int, token []byte, err error) {
	i := bytes.IndexAny(data, "\r\n")
	switch {
	case i < 0:
		return bufio.ScanLines(data, atEOF)
	case data[i] == '\n' || i+1 < len(data) && data[i+1] != '\n':
		return i + 1, data[:i], nil
	case i+1 < len(data):
		return i + 2, data[:i], nil
	case atEOF:
		return i + 1, data[:i], nil
	}
	return 0, nil, nil // CR at the end: LF may follow
}

// hashIn returns the hash in a line: all of it, or what is after the first colon, as in htpasswd,
// and before the next, as in passwd. A pair of quotes around it is dropped.
func hashIn(text string) string {
	if _, after, ok := strings.Cut(text, ":"); ok {
		text, _, _ = strings.Cut(after, ":")
		text = strings.TrimSpace(text)
	}
	for _, quote := range []string{`"`, "'"} {
		if len(text) >= 2 && strings.HasPrefix(text, quote) && strings.HasSuffix(text, quote) {
			return text[1 : len(text)-1]
		}
	}
	return text
}

// readColumn is readLines for a column of CSV or TSV. A number is the column's, and then there is
// no header; anything else is its name in the header.
func readColumn(in *bufio.Reader, column, file string) (func() (hash string, line int, err error), error) {
	records := csv.NewReader(in)
	records.ReuseRecord = true
	records.FieldsPerRecord = -1
	records.LazyQuotes = false
	records.Comma = separator(in, file)
	read := func() ([]string, int, error) {
		record, err := records.Read()
		var parse *csv.ParseError
		if errors.As(err, &parse) {
			return nil, parse.Line, parse.Err
		}
		if err != nil {
			return nil, 0, err
		}
		line, _ := records.FieldPos(0)
		return record, line, nil
	}

	index, err := strconv.Atoi(column)
	switch {
	case err == nil && index < 1:
		return nil, fmt.Errorf("--column is %s, want 1 or more, or a name", column)
	case err == nil:
		index--
	default:
		header, line, err := read()
		if err == io.EOF {
			return nil, errors.New("it is empty, and has no header")
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		if index = slices.Index(header, column); index < 0 {
			index = slices.IndexFunc(header, func(name string) bool { return strings.EqualFold(strings.TrimSpace(name), column) })
		}
		if index < 0 {
			return nil, fmt.Errorf("the header has no column %q", column)
		}
	}
	return func() (string, int, error) {
		record, line, err := read()
		if err != nil {
			return "", line, err
		}
		if index >= len(record) {
			return "", line, nil
		}
		return record[index], line, nil
	}, nil
}

// separator returns what separates columns: a tab in a file named so or where the first line has
// one, and a semicolon where it has that and no comma.
func separator(in *bufio.Reader, file string) rune {
	start, _ := in.Peek(4 << 10)
	first, _, _ := bytes.Cut(start, []byte("\n"))
	switch {
	case strings.HasSuffix(strings.ToLower(file), ".tsv") || bytes.ContainsRune(first, '\t'):
		return '\t'
	case bytes.ContainsRune(first, ';') && !bytes.ContainsRune(first, ','):
		return ';'
	}
	return ','
}
