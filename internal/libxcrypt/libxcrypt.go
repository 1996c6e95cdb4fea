//go:build libxcrypt

// Package libxcrypt calls libxcrypt, the crypt(3) of most Linux distributions, so that tests
// and benchmarks can compare with it. It needs cgo, and on Debian libcrypt-dev, and is built
// only with the tag libxcrypt.
package libxcrypt

// #cgo LDFLAGS: -lcrypt
// #include <crypt.h>
// #include <stdlib.h>
import "C"

import "unsafe"

// Crypt returns what crypt_r(3) makes of a password and a setting: a hash, or "" or a text
// that starts with "*" if it refuses them. The password ends at its first NUL.
func Crypt(password []byte, setting string) string {
	key, s := C.CString(string(password)), C.CString(setting)
	data := (*C.struct_crypt_data)(C.calloc(1, C.sizeof_struct_crypt_data))
	defer func() {
		C.free(unsafe.Pointer(key))
		C.free(unsafe.Pointer(s))
		C.free(unsafe.Pointer(data))
	}()
	return C.GoString(C.crypt_r(key, s, data))
}
