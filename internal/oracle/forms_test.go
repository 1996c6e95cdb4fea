package oracle

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"unicode/utf8"

	"example.com/bcrypt"
	"github.com/stretchr/testify/require"
)

var vectors = flag.String("vectors", "", "with BCRYPT_INTEROP: a file to which to write the hashes that the peers make, as in testdata/forms.jsonl")

// formPeers are the programs that store bcrypt hashes in another form, and the forms that each
// writes.
var formPeers = []struct {
	livePeer
	forms string
}{
	{livePeer{name: "passlib 1.7.4", command: []string{"/usr/bin/python3", "-W", "ignore", "peers/forms.py", "passlib"}}, "ldap django django-sha256 bcrypt-sha256-v1 bcrypt-sha256"},
	{livePeer{name: "Django 3.2.25", command: []string{"/usr/bin/python3", "-W", "ignore", "peers/forms.py", "django"}}, "django django-sha256"},
	{livePeer{name: "WordPress's and Nextcloud's formulas in PHP 8.2", command: []string{"php", "peers/forms.php"}}, "wordpress nextcloud"},
	{livePeer{name: "Dovecot 2.3.19, doveadm pw", command: []string{"peers/forms.sh", "dovecot"}}, "dovecot dovecot-b64 dovecot-hex ldap"},
}

// formPasswords have 0, 1, 71, 72, 73 and 200 bytes, UTF-8, bytes that are not, blanks at both ends
// and NULs.
var formPasswords = []string{
	"", "a", strings.Repeat("x", 71), strings.Repeat("x", 72), strings.Repeat("x", 73), strings.Repeat("0123456789", 20),
	"pässwörd ☃ 密码", "\xff\xff\xa3", " both ends ", "\t\r\n\v many \v\n\r\t", "\x00NUL\x00", "a\x00b", "no-break\u00a0", "\u00a0no-break",
}

// keyOf returns what a form gives to bcrypt in place of a password, a second time: written from
// the docs of each system, and not with the package's own code.
func keyOf(form, password string) string {
	switch form {
	case "django-sha256":
		return fmt.Sprintf("%x", sha256.Sum256([]byte(password)))
	case "wordpress":
		mac := hmac.New(sha512.New384, []byte("wp-sha384"))
		mac.Write([]byte(strings.Trim(password, " \n\r\t\v\x00")))
		return base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	return password
}

// wrap returns the text that a form stores for a bare hash.
func wrap(form, bare string) string {
	switch form {
	case "dovecot-b64":
		return "{BLF-CRYPT.B64}" + base64.StdEncoding.EncodeToString([]byte(bare))
	case "dovecot-hex":
		return "{BLF-CRYPT.HEX}" + hex.EncodeToString([]byte(bare))
	}
	return map[string]string{
		"ldap": "{CRYPT}", "django": "bcrypt$", "django-sha256": "bcrypt_sha256$", "wordpress": "$wp", "nextcloud": "1|", "dovecot": "{BLF-CRYPT}",
	}[form] + bare
}

// Hashes of each peer verify here in the form in which it stores them, and hashes of this package,
// put into that form, verify there. passlib's own bcrypt-sha256 is in TestPasslib.
func TestInteropForms(t *testing.T) {
	var made []map[string]string
	for _, p := range formPeers {
		t.Run(p.name, func(t *testing.T) {
			if _, err := exec.LookPath(p.command[0]); os.Getenv("BCRYPT_INTEROP") == "" {
				t.Skip("set BCRYPT_INTEROP=1 where the peers are installed")
			} else {
				require.NoError(t, err)
			}
			for _, form := range strings.Fields(p.forms) {
				var makes, checks, wrongs []string
				for i, password := range formPasswords {
					makes = append(makes, fmt.Sprintf("make %s x%x", form, password))
					if strings.HasPrefix(form, "bcrypt-sha256") {
						continue
					}
					key := []byte(keyOf(form, password))
					version := bcrypt.Version2b
					if form == "wordpress" || form == "nextcloud" {
						version = bcrypt.Version2y
					}
					ours, err := bcrypt.HashWithSalt(key[:min(len(key), 72)], 4, version, [16]byte{byte(i)})
					require.NoError(t, err)
					checks = append(checks, fmt.Sprintf("check %s %s x%x", form, wrap(form, ours), password))
					wrongs = append(wrongs, fmt.Sprintf("check %s %s x%x", form, wrap(form, ours), "wrong"))
				}
				for i, hash := range p.ask(t, makes) {
					if hash == "-" {
						require.True(t, strings.Contains(formPasswords[i], "\x00") || formPasswords[i] == "" || !utf8.ValidString(formPasswords[i]), "%q", formPasswords[i])
						continue
					}
					checkForm(t, form, hash, formPasswords[i])
					made = append(made, map[string]string{"source": p.name + ", " + form, "password_hex": hex.EncodeToString([]byte(formPasswords[i])), "hash": hash})
				}
				if len(checks) == 0 {
					continue
				}
				refused := 0
				for i, answer := range p.ask(t, checks) {
					if answer == "-" {
						refused++
						continue
					}
					require.Equal(t, "yes", answer, "%s: %q", form, formPasswords[i])
				}
				require.LessOrEqual(t, refused, 4)
				for _, answer := range p.ask(t, wrongs) {
					require.Equal(t, "no", answer, form)
				}
			}
		})
	}
	if *vectors != "" {
		var out bytes.Buffer
		for _, v := range made {
			require.NoError(t, json.NewEncoder(&out).Encode(v))
		}
		require.NoError(t, os.WriteFile(*vectors, out.Bytes(), 0o644))
	}
}

// checkForm checks a hash that a peer made of password.
func checkForm(t *testing.T, form, hash, password string) {
	t.Helper()
	info, err := bcrypt.Inspect(hash)
	require.NoError(t, err, hash)
	require.EqualValues(t, strings.TrimSuffix(strings.TrimSuffix(form, "-b64"), "-hex"), info.Form)
	require.Zero(t, info.Padding)
	whole := &bcrypt.Hasher{Cost: 4, Long: bcrypt.PrehashLong}
	for _, h := range []*bcrypt.Hasher{{Cost: 4, Long: bcrypt.TruncateLong}, whole} {
		require.NoError(t, h.Verify(context.Background(), hash, []byte(password)), "%s %q", hash, password)
		require.ErrorIs(t, h.Verify(context.Background(), hash, []byte("wrong")), bcrypt.ErrMismatchedHashAndPassword)
		require.Equal(t, form != "bcrypt-sha256", h.NeedsRehash(hash), hash)
	}
	upgraded, err := whole.VerifyAndUpgrade(context.Background(), hash, []byte(password))
	require.NoError(t, err)
	if form != "bcrypt-sha256" {
		require.False(t, whole.NeedsRehash(upgraded), upgraded)
		require.NoError(t, whole.Verify(context.Background(), upgraded, []byte(password)))
	}
}

// A CHAR(72) column pads a hash with blanks. It verifies, and is not hashed anew forever.
func TestInteropPadded(t *testing.T) {
	server := os.Getenv("BCRYPT_PGCRYPTO")
	if server == "" {
		t.Skip("set BCRYPT_PGCRYPTO to the URL of a database")
	}
	h := &bcrypt.Hasher{Cost: 4}
	hash, err := h.Hash(context.Background(), []byte("password"))
	require.NoError(t, err)
	out, err := exec.Command("psql", "-qXAt", server, "-c", "CREATE TEMPORARY TABLE users (hash char(72)); INSERT INTO users VALUES ('"+hash+"'); SELECT hash || '' || '|' || octet_length(hash), hash FROM users").Output()
	require.NoError(t, err)
	line := strings.TrimSuffix(string(out), "\n")
	_, padded, ok := strings.Cut(line, "|72|")
	require.True(t, ok, line)
	require.Len(t, padded, 72)
	require.NoError(t, h.Verify(context.Background(), padded, []byte("password")))
	require.False(t, h.NeedsRehash(padded))
	info, err := bcrypt.Inspect(padded)
	require.NoError(t, err)
	require.Equal(t, 12, info.Padding)
}
