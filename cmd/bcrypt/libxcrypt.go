//go:build libxcrypt

package main

import (
	"errors"
	"fmt"
	"slices"

	"example.com/bcrypt/internal/libxcrypt"
)

func init() {
	peers = slices.Insert(peers, 3, timed("libxcrypt", func(password []byte, cost int) ([]byte, error) {
		hash := libxcrypt.Crypt(password, fmt.Sprintf("$2b$%02d$CCCCCCCCCCCCCCCCCCCCC.", cost))
		if hash == "" {
			return nil, errors.New("crypt_r refused")
		}
		return []byte(hash), nil
	}))
}
