package oracle

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"example.com/bcrypt"
	"github.com/stretchr/testify/require"
)

// A livePeer is a bcrypt in another language, run by a script that reads lines, "make
// VERSION xHEX" or "check HASH xHEX", and answers each: a hash, yes or no, or "-" if it
// does not know the version or take the password.
type livePeer struct {
	name    string
	command []string
	writes  string // versions
	reads   string // of those that we write
	// other2a says that its 2a is crypt_blowfish's, with another digest for ambiguous
	// passwords. Such hashes verify here, but ours of those passwords do not verify there.
	other2a bool
	utf8    bool // it takes no other bytes
}

var livePeers = []livePeer{
	{name: "PHP", command: []string{"php", "peers/peer.php"}, writes: "2a 2b 2x 2y", reads: "2a 2b 2y", other2a: true},
	{name: "Ruby bcrypt", command: []string{"ruby", "peers/peer.rb"}, writes: "2a 2b 2x 2y", reads: "2a 2b 2y", other2a: true},
	{name: "Python bcrypt", command: []string{"/usr/bin/python3", "-W", "ignore", "peers/peer.py", "bcrypt"}, writes: "2a 2b 2y", reads: "2a 2b 2y"},
	{name: "Python passlib", command: []string{"/usr/bin/python3", "-W", "ignore", "peers/peer.py", "passlib"}, writes: "2a 2b 2y", reads: "2a 2b 2y"},
	{name: "Perl crypt (libxcrypt)", command: []string{"perl", "peers/peer.pl"}, writes: "2a 2b 2x 2y", reads: "2a 2b 2y", other2a: true},
	{name: "htpasswd", command: []string{"peers/peer.sh", "htpasswd"}, writes: "2y", reads: "2a 2b 2y", other2a: true},
	{name: "PostgreSQL pgcrypto", command: []string{"peers/peer.sh", "pgcrypto"}, writes: "2a 2x", reads: "2a"},
	{name: "npm bcryptjs", command: []string{"node", "peers/peer.js", "bcryptjs"}, writes: "2a 2b 2y", reads: "2a 2b 2y", utf8: true},
	{name: "npm bcrypt", command: []string{"node", "peers/peer.js", "bcrypt"}, writes: "2a 2b", reads: "2a 2b"},
	{name: "npm @node-rs/bcrypt", command: []string{"node", "peers/peer.js", "@node-rs/bcrypt"}, writes: "2y", reads: "2a 2b 2y"},
}

// ask sends questions to a peer and returns its answers.
func (p livePeer) ask(t *testing.T, questions []string) (answers []string) {
	t.Helper()
	cmd := exec.Command(p.command[0], p.command[1:]...)
	cmd.Stdin = strings.NewReader(strings.Join(questions, "\n") + "\n")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	require.NoError(t, err, "%s", errs.String())
	answers = strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	require.Len(t, answers, len(questions), "%s", errs.String())
	return answers
}

var livePasswords = []string{
	"", "a", strings.Repeat("71", 36)[:71], strings.Repeat("72", 36),
	"\x80\xc4\x9f\xfe", "pässwörd ☃ 密码 🔑", strings.Repeat("🔑", 18),
	"\xff", "\xff\xff\xa3", "\xff\xa3345", "\xd1\x91", strings.Repeat("\xff", 72),
}

// The bcrypts of other languages verify the hashes of this package, and this package verifies
// theirs, in every version that both know. With BCRYPT_INTEROP set, all of them must be there.
func TestInterop(t *testing.T) {
	if os.Getenv("BCRYPT_INTEROP") == "" {
		t.Skip("BCRYPT_INTEROP is not set: .ci/run installs the bcrypts of other languages")
	}
	for _, p := range livePeers {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			p.testWrites(t)
			p.testReads(t)
		})
	}
}

func question(do, what, password string) string {
	return fmt.Sprintf("%s %s x%s", do, what, hex.EncodeToString([]byte(password)))
}

func isUTF8(password string) bool { return strings.ToValidUTF8(password, "") == password }

func (p livePeer) testWrites(t *testing.T) {
	var writes []string
	for _, version := range []string{"2a", "2b", "2x", "2y"} {
		var questions []string
		for _, password := range livePasswords {
			questions = append(questions, question("make", version, password))
		}
		hashes := p.ask(t, questions)
		if hashes[1] == "-" {
			continue
		}
		writes = append(writes, version)
		for i, hash := range hashes {
			password := livePasswords[i]
			if hash == "-" && p.utf8 && !isUTF8(password) {
				continue
			}
			require.Equal(t, "$"+version+"$04$", hash[:min(7, len(hash))], "%q", password)
			require.NoError(t, bcrypt.CompareHashAndPassword([]byte(hash), []byte(password)), "%s %q", hash, password)
			if version == "2x" && strings.Contains(password, "\xff") {
				continue // its bug hides bytes, so that wrong could be right
			}
			wrong := []byte("b" + password)[:min(72, len(password)+1)]
			require.Equal(t, bcrypt.ErrMismatchedHashAndPassword, bcrypt.CompareHashAndPassword([]byte(hash), wrong), "%s %q", hash, password)
		}
	}
	require.Equal(t, p.writes, strings.Join(writes, " "), "versions that it writes")
}

func (p livePeer) testReads(t *testing.T) {
	var reads []string
	for _, version := range []bcrypt.Version{bcrypt.Version2a, bcrypt.Version2b, bcrypt.Version2y} {
		var questions []string
		for i, password := range livePasswords {
			hash, err := bcrypt.HashWithSalt([]byte(password), bcrypt.MinCost, version, [16]byte{byte(i), 1, 2, 3})
			require.NoError(t, err)
			wrong := ("b" + password)[:min(72, len(password)+1)]
			questions = append(questions, question("check", hash, password), question("check", hash, wrong))
		}
		answers := p.ask(t, questions)
		if answers[2] != "yes" {
			for i := 0; i < len(answers); i++ {
				require.NotEqual(t, "yes", answers[i], questions[i])
			}
			continue
		}
		reads = append(reads, version.String())
		for i, password := range livePasswords {
			want := "yes"
			switch {
			case p.utf8 && !isUTF8(password):
				want = "-"
			case p.other2a && version == bcrypt.Version2a && ambiguous([]byte(password)):
				want = "no"
			}
			require.Equal(t, want, answers[2*i], questions[2*i])
			require.NotEqual(t, "yes", answers[2*i+1], questions[2*i+1])
		}
	}
	require.Equal(t, p.reads, strings.Join(reads, " "), "versions that it reads")
}
