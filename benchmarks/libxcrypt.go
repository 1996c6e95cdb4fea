//go:build libxcrypt

package main

import "example.com/bcrypt/internal/libxcrypt"

func init() {
	peers = append(peers, peer{"libxcrypt", "libxcrypt", func(hash, password []byte) bool {
		return libxcrypt.Crypt(password, string(hash)) == string(hash)
	}})
}
