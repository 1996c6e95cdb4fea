package main

import (
	"example.com/bcrypt"
	xbcrypt "golang.org/x/crypto/bcrypt"
)

// A peer is a bcrypt implementation. compare hashes password with the cost and salt of hash,
// and reports whether they match.
type peer struct {
	name    string
	label   string // in pictures
	compare func(hash, password []byte) bool
}

// peers starts with this package and x/crypto; ratios are to x/crypto. The build tag
// libxcrypt adds libxcrypt.
var peers = []peer{
	{"this", "this package", func(hash, password []byte) bool { return bcrypt.CompareHashAndPassword(hash, password) == nil }},
	{"x-crypto", "golang.org/x/crypto/bcrypt", func(hash, password []byte) bool { return xbcrypt.CompareHashAndPassword(hash, password) == nil }},
}
