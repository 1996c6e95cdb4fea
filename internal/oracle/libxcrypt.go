//go:build libxcrypt

package oracle

// #cgo LDFLAGS: -lcrypt
// #include <crypt.h>
// #include <stdlib.h>
import "C"

import "unsafe"

// crypt is crypt_r of libxcrypt, the crypt(3) of most Linux distributions. On Debian:
// apt-get install libcrypt-dev. Go allows no cgo in test files, so it stands here.
func crypt(password []byte, setting string) string {
	key, s := C.CString(string(password)), C.CString(setting)
	data := (*C.struct_crypt_data)(C.calloc(1, C.sizeof_struct_crypt_data))
	defer func() {
		C.free(unsafe.Pointer(key))
		C.free(unsafe.Pointer(s))
		C.free(unsafe.Pointer(data))
	}()
	return C.GoString(C.crypt_r(key, s, data))
}
