package oracle

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"example.com/bcrypt"
	"github.com/stretchr/testify/require"
)

// A real OpenLDAP server: users whose {CRYPT} hashes this package made can bind, and hashes that it
// makes for a new password verify here. With BCRYPT_INTEROP set it must be installed.
func TestInteropSlapd(t *testing.T) {
	if os.Getenv("BCRYPT_INTEROP") == "" {
		t.Skip("set BCRYPT_INTEROP=1 where slapd is installed")
	}
	dir, err := os.MkdirTemp("", "slapd") // the path of a socket is short
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	require.NoError(t, os.Mkdir(filepath.Join(dir, "db"), 0o700))
	config := fmt.Sprintf(`include /etc/ldap/schema/core.schema
modulepath /usr/lib/ldap
moduleload back_mdb
password-hash {CRYPT}
password-crypt-salt-format "$2b$04$%%.22s"
database mdb
suffix "dc=x"
rootdn "cn=admin,dc=x"
rootpw secret
directory %s/db
`, dir)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "slapd.conf"), []byte(config), 0o600))
	socket := "ldapi://" + url.QueryEscape(filepath.Join(dir, "socket"))
	server := exec.Command("/usr/sbin/slapd", "-f", filepath.Join(dir, "slapd.conf"), "-h", socket, "-d", "0")
	server.Stderr = os.Stderr
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		server.Process.Kill()
		server.Wait()
	})

	// ldap runs a client of LDAP as a user.
	ldap := func(program, dn, password, input string, args ...string) (string, error) {
		cmd := exec.Command(program, append([]string{"-x", "-H", socket, "-D", dn, "-w", password}, args...)...)
		cmd.Stdin = strings.NewReader(input)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	admin := func(program, input string, args ...string) string {
		t.Helper()
		out, err := ldap(program, "cn=admin,dc=x", "secret", input, args...)
		require.NoError(t, err, out)
		return out
	}
	require.Eventually(t, func() bool {
		_, err := ldap("ldapwhoami", "cn=admin,dc=x", "secret", "")
		return err == nil
	}, 20*time.Second, 50*time.Millisecond)
	admin("ldapadd", "dn: dc=x\nobjectClass: dcObject\nobjectClass: organization\no: x\ndc: x\n")

	hasher := &bcrypt.Hasher{Cost: 4, Long: bcrypt.TruncateLong}
	for i, password := range formPasswords {
		if password == "" || strings.Contains(password, "\x00") || !utf8.ValidString(password) { // no argument of a program
			continue
		}
		dn := fmt.Sprintf("cn=user%d,dc=x", i)
		hash, err := hasher.Hash(context.Background(), []byte(password))
		require.NoError(t, err)
		admin("ldapadd", fmt.Sprintf("dn: %s\nobjectClass: person\ncn: user%d\nsn: x\nuserPassword: {CRYPT}%s\n", dn, i, hash))
		out, err := ldap("ldapwhoami", dn, password, "")
		require.NoError(t, err, "%q: %s", password, out)
		_, err = ldap("ldapwhoami", dn, "wrong", "")
		require.Error(t, err)

		admin("ldappasswd", "", "-s", password, dn)
		stored := admin("ldapsearch", "", "-LLL", "-o", "ldif-wrap=no", "-b", dn, "userPassword")
		_, encoded, ok := strings.Cut(stored, "userPassword:: ")
		require.True(t, ok, stored)
		made, err := base64.StdEncoding.DecodeString(strings.TrimSpace(encoded))
		require.NoError(t, err)
		checkForm(t, "ldap", string(made), password)
	}
}
