//go:build libxcrypt

package main

// #cgo LDFLAGS: -lcrypt
// #include <crypt.h>
// #include <stdlib.h>
import "C"

import "unsafe"

// libxcrypt is the crypt(3) of most Linux distributions, in C. On Debian:
// apt-get install libcrypt-dev.
func init() {
	peers = append(peers, peer{"libxcrypt", "libxcrypt", func(hash, password []byte) bool {
		key, setting := C.CString(string(password)), C.CString(string(hash))
		data := (*C.struct_crypt_data)(C.calloc(1, C.sizeof_struct_crypt_data))
		defer func() {
			C.free(unsafe.Pointer(key))
			C.free(unsafe.Pointer(setting))
			C.free(unsafe.Pointer(data))
		}()
		return C.GoString(C.crypt_r(key, setting, data)) == string(hash)
	}})
}
