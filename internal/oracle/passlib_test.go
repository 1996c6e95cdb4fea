package oracle

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"example.com/bcrypt"
	"github.com/stretchr/testify/require"
)

// passlibScript answers one JSON object a line: it verifies a hash of ours, and makes one
// of each version of bcrypt-sha256.
const passlibScript = `
import json, sys
from passlib.hash import bcrypt_sha256
for line in sys.stdin:
    q = json.loads(line)
    password = bytes.fromhex(q["password"])
    print(json.dumps({
        "verifies": bcrypt_sha256.verify(password, q["hash"]),
        "made": [bcrypt_sha256.using(version=v, rounds=4).hash(password) for v in (1, 2)],
    }))
`

// bcrypt-sha256 hashes verify both ways between this package and the live passlib, Debian's
// python3-passlib. Without it the test is skipped; with BCRYPT_INTEROP set, as in CI, it fails.
func TestPasslib(t *testing.T) {
	if err := exec.Command("/usr/bin/python3", "-c", "import passlib").Run(); err != nil {
		if os.Getenv("BCRYPT_INTEROP") != "" {
			t.Fatal("passlib is missing: apt-get install python3-passlib")
		}
		t.Skip("passlib is missing")
	}
	hasher := &bcrypt.Hasher{Cost: bcrypt.MinCost, Long: bcrypt.PrehashLong}
	var passwords [][]byte
	var questions bytes.Buffer
	ask := func(password []byte) {
		hash, err := hasher.Hash(context.Background(), password)
		require.NoError(t, err)
		passwords = append(passwords, password)
		require.NoError(t, json.NewEncoder(&questions).Encode(map[string]string{"password": hex.EncodeToString(password), "hash": hash}))
	}
	for _, password := range randomPasswords(50) {
		ask(bytes.ReplaceAll(password, []byte{0}, []byte{1})) // passlib refuses NUL
	}
	ask([]byte(strings.Repeat("long ", 100)))

	cmd := exec.Command("/usr/bin/python3", "-W", "ignore", "-c", passlibScript)
	cmd.Stdin, cmd.Stderr = &questions, os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err)
	answers := json.NewDecoder(bytes.NewReader(out))
	for _, password := range passwords {
		var answer struct {
			Verifies bool
			Made     []string
		}
		require.NoError(t, answers.Decode(&answer))
		require.True(t, answer.Verifies, "%x", password)
		require.Len(t, answer.Made, 2)
		for i, hash := range answer.Made {
			require.NoError(t, hasher.Verify(context.Background(), hash, password), "%x %s", password, hash)
			require.Equal(t, i == 0, hasher.NeedsRehash(hash))
		}
	}
}
