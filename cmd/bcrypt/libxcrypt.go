//go:build libxcrypt

package main

// #cgo LDFLAGS: -lcrypt
// #include <crypt.h>
// #include <stdlib.h>
import "C"

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"
)

// libxcrypt is the crypt(3) of most Linux distributions. On Debian: apt-get install
// libcrypt-dev.
func init() {
	peers = slices.Insert(peers, 3, timed("libxcrypt", func(password []byte, cost int) ([]byte, error) {
		key, setting := C.CString(string(password)), C.CString(fmt.Sprintf("$2b$%02d$CCCCCCCCCCCCCCCCCCCCC.", cost))
		data := (*C.struct_crypt_data)(C.calloc(1, C.sizeof_struct_crypt_data))
		defer func() {
			C.free(unsafe.Pointer(key))
			C.free(unsafe.Pointer(setting))
			C.free(unsafe.Pointer(data))
		}()
		hash := C.crypt_r(key, setting, data)
		if hash == nil {
			return nil, errors.New("crypt_r refused")
		}
		return []byte(C.GoString(hash)), nil
	}))
}
