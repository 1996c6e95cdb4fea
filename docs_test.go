package bcrypt

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each snippet of docs/migrating.md is the text of an Example, which runs. So is the README's, but
// for what it leaves out.
func TestSnippets(t *testing.T) {
	unindented := regexp.MustCompile(`(?m)^\s+`)
	examples, err := os.ReadFile("example_migrating_test.go")
	require.NoError(t, err)
	code := unindented.ReplaceAllString(string(examples), "")
	text, err := os.ReadFile("docs/migrating.md")
	require.NoError(t, err)
	snippets := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	require.Len(t, snippets, 1+strings.Count(code, "func Example_"))
	for _, snippet := range snippets {
		require.Contains(t, code, unindented.ReplaceAllString(snippet[1], ""))
	}
}
