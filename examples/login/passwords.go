//go:build !xcrypto

package main

import "example.com/bcrypt"

// The build for the storm's comparison, passwords_xcrypto.go, replaces this.
type passwords = *bcrypt.Hasher

func newPasswords(h *bcrypt.Hasher) passwords { return h }
