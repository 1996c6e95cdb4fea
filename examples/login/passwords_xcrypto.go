//go:build xcrypto

package main

import (
	"context"
	"errors"
	"log"

	"example.com/bcrypt"
	xcrypto "golang.org/x/crypto/bcrypt"
)

type passwords = *peer

// newPasswords makes the service hash with golang.org/x/crypto/bcrypt at the same cost, as
// services do that have nothing else: no line, no deadline, no upgrade.
func newPasswords(h *bcrypt.Hasher) passwords {
	decoy, err := xcrypto.GenerateFromPassword(nil, h.Cost)
	if err != nil {
		log.Fatal(err)
	}
	return &peer{h.Cost, decoy}
}

type peer struct {
	cost  int
	decoy []byte // for users who do not exist
}

func (p *peer) Hash(_ context.Context, password []byte) (string, error) {
	hash, err := xcrypto.GenerateFromPassword(password, p.cost)
	if errors.Is(err, xcrypto.ErrPasswordTooLong) {
		err = bcrypt.ErrPasswordTooLong
	}
	return string(hash), err
}

func (p *peer) VerifyAndUpgrade(_ context.Context, hash string, password []byte) (newHash string, err error) {
	if hash == "" {
		xcrypto.CompareHashAndPassword(p.decoy, password)
		return "", bcrypt.ErrMismatchedHashAndPassword
	}
	err = xcrypto.CompareHashAndPassword([]byte(hash), password)
	if errors.Is(err, xcrypto.ErrMismatchedHashAndPassword) {
		err = bcrypt.ErrMismatchedHashAndPassword
	}
	return "", err
}

func (p *peer) Stats() bcrypt.Stats { return bcrypt.Stats{} }
