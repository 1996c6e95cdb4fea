package bcrypt

import (
	"bytes"
	"flag"
	"go/ast"
	"go/build"
	"go/doc"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write testdata/api.txt")

// The exported API is what testdata/api.txt lists, so no change of it is an accident. After a
// change that is meant, run go test -run TestAPI -update . and add a line to CHANGELOG.md.
func TestAPI(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("some files of the package are another system's")
	}
	pkg, err := build.ImportDir(".", 0)
	require.NoError(t, err)
	var listing bytes.Buffer
	for _, name := range pkg.GoFiles {
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, name, nil, parser.SkipObjectResolution) // without comments
		require.NoError(t, err)
		if !ast.FileExports(file) {
			continue
		}
		for _, declaration := range file.Decls {
			switch d := declaration.(type) {
			case *ast.FuncDecl:
				d.Body = nil
			case *ast.GenDecl:
				if d.Tok == token.IMPORT {
					continue
				}
			}
			require.NoError(t, format.Node(&listing, files, declaration))
			listing.WriteString("\n\n")
		}
	}
	const golden = "testdata/api.txt"
	if *update {
		require.NoError(t, os.WriteFile(golden, listing.Bytes(), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), listing.String())
}

// Every exported thing has an example in the manual, or a reason why not.
func TestExamples(t *testing.T) {
	reasons := map[string]string{
		"Calibration":            "ExampleCalibrator logs one",
		"CalibrationPass":        "a part of Calibration",
		"CalibrationProgress":    "what the command's progress bar shows",
		"Calibrator.Run":         "ExampleCalibrator",
		"CostTime":               "a part of Calibration",
		"CostTooHighError":       "nobody but the operator has to act on it: its text says all",
		"CostTooSlowError":       "ExampleCalibrator",
		"Form":                   "ExampleInspect",
		"HashInfo":               "ExampleInspect",
		"HashVersionTooNewError": "of x/crypto's contract: any error that is no mismatch, in ExampleCompareHashAndPassword",
		"Hasher.NeedsRehash":     "ExampleHasher_migration",
		"Hasher.Validate":        "Example",
		"InvalidCostError":       "of x/crypto's contract: a mistake in the program",
		"InvalidHashPrefixError": "as HashVersionTooNewError",
		"LongPasswords":          "ExampleHasher_migrationFromTruncation",
		"NotBcryptError":         "ExampleInspect",
		"Stats":                  "ExampleHasher_Stats",
		"StopReason":             "a part of Calibration",
		"Version":                "ExampleHashWithSalt",
		"Warning":                "a part of Calibration, whose text is for people",
		"WarningCode":            "a part of Warning",
	}
	names, err := filepath.Glob("*.go")
	require.NoError(t, err)
	files := token.NewFileSet()
	var parsed []*ast.File
	for _, name := range names {
		file, err := parser.ParseFile(files, name, nil, parser.ParseComments)
		require.NoError(t, err)
		parsed = append(parsed, file)
	}
	manual, err := doc.NewFromFiles(files, parsed, "example.com/bcrypt")
	require.NoError(t, err)
	require.NotEmpty(t, manual.Examples)

	examples := map[string]int{}
	for _, f := range manual.Funcs {
		examples[f.Name] = len(f.Examples)
	}
	for _, typ := range manual.Types {
		examples[typ.Name] = len(typ.Examples)
		for _, f := range typ.Funcs {
			examples[f.Name] = len(f.Examples)
		}
		for _, m := range typ.Methods {
			if m.Name != "Error" && m.Name != "Is" && m.Name != "String" {
				examples[typ.Name+"."+m.Name] = len(m.Examples)
			}
		}
	}
	for name, n := range examples {
		if reason := reasons[name]; (n == 0) != (reason != "") {
			t.Errorf("%s has %d examples, and the reason %q for none", name, n, reason)
		}
		delete(reasons, name)
	}
	require.Empty(t, reasons, "reasons for what is not exported")
}
