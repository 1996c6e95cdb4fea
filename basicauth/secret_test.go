package basicauth

import (
	"bytes"
	"encoding/base64"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"example.com/bcrypt"
	"github.com/stretchr/testify/require"
)

// A dump of the heap after a request has neither the password nor its base64 in it, once the request
// is garbage: nothing of this package keeps them. What Go's runtime may keep for longer, on stacks
// and in registers, and what net/http has read into its buffers, is beyond that.
func TestNoPasswordInHeap(t *testing.T) {
	secret := func() []byte { // made here, so that it is in no constant
		text := []byte("dpssfdu!ipstf!cbuufsz") // each byte one more than the password's
		for i := range text {
			text[i]--
		}
		return text
	}
	a := newAuth(t)
	// The hash was made elsewhere, so that this process has not seen the password.
	users := must(NewUsers(map[string]string{"ann": strings.Clone("$2y$04$.lt/WVSRSQ7.LvNQdmwxB.TNF//4IbmqnTSn55l/xLNoB3OVzqFsa")}))
	a.Users = users
	func() {
		password := secret()
		defer clear(password)
		pair := append([]byte("ann:"), password...)
		defer clear(pair)
		header := "Basic " + base64.StdEncoding.EncodeToString(pair)
		require.Equal(t, 200, ask(a, header).Code)
		require.Equal(t, 200, ask(a, header).Code)
	}()
	require.Equal(t, 1, a.Stats().Pairs)
	for range 3 {
		runtime.GC()
	}
	path := filepath.Join(t.TempDir(), "heap")
	file, err := os.Create(path)
	require.NoError(t, err)
	debug.WriteHeapDump(file.Fd())
	require.NoError(t, file.Close())
	runtime.KeepAlive(a)
	dump, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, bytes.Contains(dump, []byte("$2y$04$")), "the users' hashes are in the dump, so it is one")
	wanted := secret()
	require.False(t, bytes.Contains(dump, wanted), "the password is in the heap")
	clear(wanted)
}

// FuzzCredentials: any header gives a name and a password that are those of the header, or an error
// that has nothing of it.
func FuzzCredentials(f *testing.F) {
	for _, header := range []string{basic("ann", "ann"), "", "Basic ", "Basic Og==", "basic   " + basic("", ":")[6:], "Bearer x", "Basic =", basic("\xff", "\x00")} {
		f.Add(header)
	}
	f.Fuzz(func(t *testing.T, header string) {
		name, password, err := credentials(header)
		if err != nil {
			require.Equal(t, errMalformed, err)
			return
		}
		require.NotContains(t, name, ":")
		_, encoded, _ := strings.Cut(header, " ")
		require.Equal(t, strings.Trim(encoded, " "), base64.StdEncoding.EncodeToString([]byte(name+":"+string(password))))
	})
}

// FuzzReadUsers: any file gives users, all of whom have a bcrypt hash, or an error that has no byte of
// a hash.
func FuzzReadUsers(f *testing.F) {
	const hash = "$2y$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"
	for _, text := range []string{"ann:" + hash + "\n", "\ufeff#\r\n\r\nann:" + hash + ":x\r\nann:" + hash, ":", "ann", "ann:$6$x", "a:" + hash + "\n\nb:{SHA}x"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		users, warnings, err := ReadUsers(strings.NewReader(text))
		if err != nil {
			require.NotEmpty(t, err.Error())
			require.Nil(t, users)
			return
		}
		require.LessOrEqual(t, len(warnings)+users.Len(), 1+strings.Count(text, "\n"))
		for name, hash := range users.hashes {
			require.NotEmpty(t, name)
			_, err := bcrypt.Inspect(hash)
			require.NoError(t, err)
		}
	})
}
