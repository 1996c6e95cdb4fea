package main

import (
	"example.com/bcrypt"
	xbcrypt "golang.org/x/crypto/bcrypt"
)

// A peer is a bcrypt implementation: compare hashes password at the cost of hash and
// reports whether they match.
type peer struct {
	name    string
	label   string // in pictures
	compare func(hash, password []byte) bool
}

// peers has this package first and x/crypto, to which the others are put in ratio,
// second. With the build tag libxcrypt, libxcrypt is third.
var peers = []peer{
	{"this", "this package", func(hash, password []byte) bool { return bcrypt.CompareHashAndPassword(hash, password) == nil }},
	{"x-crypto", "golang.org/x/crypto/bcrypt", func(hash, password []byte) bool { return xbcrypt.CompareHashAndPassword(hash, password) == nil }},
}
