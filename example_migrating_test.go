package bcrypt_test

import (
	"context"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"log"
	"strings"

	"example.com/bcrypt"
)

// These are the snippets of docs/migrating.md. A test compares them.

// migrate logs one user in with the policy of a new service, and says what is stored afterwards.
func migrate(hasher *bcrypt.Hasher, stored, password string) {
	newHash, err := hasher.VerifyAndUpgrade(context.Background(), stored, []byte(password))
	if err != nil {
		log.Fatal(err)
	}
	if newHash == "" {
		newHash = stored
	}
	fmt.Println(newHash[:7])
}

func Example_migrateFromXCrypto() {
	stored := "$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"
	hasher := &bcrypt.Hasher{Cost: 5} // Calibrate's

	migrate(hasher, stored, "U*U")
	// Output: $2a$05$
}

func Example_migrateFromSpring() {
	stored := "{bcrypt}$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"
	hasher := &bcrypt.Hasher{Cost: 5, Long: bcrypt.PrehashLong} // Spring's truncates at 72 bytes

	newHash, err := hasher.VerifyAndUpgrade(context.Background(), stored, []byte("U*U"))
	fmt.Println(strings.HasPrefix(newHash, "$bcrypt-sha256$"), err)
	// Output: true <nil>
}

func Example_migrateFromDjango() {
	// BCryptSHA256PasswordHasher: every byte of a password counts.
	stored := "bcrypt_sha256$$2b$04$l4JkN.V8cRYkfYhi72JIi.SiUdCH702s74lDKTCNRx.6zz3dkhNSG"
	hasher := &bcrypt.Hasher{Cost: 5, Long: bcrypt.PrehashLong}

	newHash, err := hasher.VerifyAndUpgrade(context.Background(), stored, []byte("a"))
	fmt.Println(strings.HasPrefix(newHash, "$bcrypt-sha256$"), err)
	// Output: true <nil>
}

func Example_migrateFromWordPress() {
	stored := "$wp$2y$04$X8uq/FGjhNHD9rcdLd0P4OD.qBFyQvIgs3lteMDdpEh0RwnNS4frK"
	hasher := &bcrypt.Hasher{Cost: 5, Long: bcrypt.PrehashLong}

	// WordPress trims passwords. Trim here too, or "secret " works today and not tomorrow.
	password := []byte(strings.Trim(" a ", " \t\n\r\x00\x0b"))
	newHash, err := hasher.VerifyAndUpgrade(context.Background(), stored, password)
	fmt.Println(strings.HasPrefix(newHash, "$bcrypt-sha256$"), err)
	// Output: true <nil>
}

func Example_migrateFromPHP() {
	// password_hash of PHP, Laravel's too. It truncates at 72 bytes.
	stored := "$2y$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"
	hasher := &bcrypt.Hasher{Cost: 5, Version: bcrypt.Version2y, Long: bcrypt.TruncateLong}

	migrate(hasher, stored, "U*U")
	// Output: $2y$05$
}

func Example_migrateFromSymfony() {
	hasher := &bcrypt.Hasher{Cost: 5, Long: bcrypt.TruncateLong}

	// Symfony's NativePasswordHasher gives bcrypt a digest of a long password, or of one with a NUL.
	symfony := func(password string) []byte {
		if len(password) <= 72 && !strings.Contains(password, "\x00") {
			return []byte(password)
		}
		sum := sha512.Sum512([]byte(password))
		return []byte(base64.StdEncoding.EncodeToString(sum[:])) // 88 bytes, of which 72 count
	}
	stored := "$2y$05$stkK4DSfD8qCs9ariaxqQOBswmNjpYPrN9qZA4ollsI.00doMZj52"
	err := hasher.Verify(context.Background(), stored, symfony(strings.Repeat("long ", 20)))
	fmt.Println(err)
	// Output: <nil>
}

func Example_migrateFromDevise() {
	const pepper = "pepper of config.pepper"
	hasher := &bcrypt.Hasher{Cost: 5, Long: bcrypt.TruncateLong} // Ruby's bcrypt truncates at 72 bytes

	// Devise appends the pepper to each password.
	devise := func(password string) []byte { return []byte(password + pepper) }
	stored, err := hasher.Hash(context.Background(), devise("correct horse"))
	if err != nil {
		log.Fatal(err)
	}
	err = hasher.Verify(context.Background(), stored, devise("correct horse"))
	fmt.Println(err)
	// Output: <nil>
}

func Example_migrateFromLDAP() {
	hasher := &bcrypt.Hasher{Cost: 5}
	for _, stored := range []string{
		"{CRYPT}$2b$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW",     // OpenLDAP, 389 Directory Server
		"{BLF-CRYPT}$2y$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW", // Dovecot
	} {
		migrate(hasher, stored, "U*U")
	}
	// Output:
	// $2b$05$
	// $2b$05$
}

func Example_migrateFromAuth0() {
	// The passwordHash of an export.
	stored := "$2b$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"
	hasher := &bcrypt.Hasher{Cost: 5, Long: bcrypt.TruncateLong}

	migrate(hasher, stored, "U*U")
	// Output: $2b$05$
}

// All have moved when no row needs a rehash.
func Example_migrationDone() {
	hasher := &bcrypt.Hasher{Cost: 5}
	rows := []string{
		"$2b$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW",
		"{bcrypt}$2a$10$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW",
	}
	remaining := 0
	for _, stored := range rows {
		if hasher.NeedsRehash(stored) {
			remaining++
		}
	}
	fmt.Println(remaining, "users have not logged in yet")
	// Output: 1 users have not logged in yet
}
