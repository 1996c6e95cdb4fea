package bcrypt_test

import (
	"context"
	"errors"
	"expvar"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"time"

	"example.com/bcrypt"
)

// A service measures the cost and checks its policy at start-up, before the first user comes.
func Example() {
	cost, err := bcrypt.Calibrate(250 * time.Millisecond)
	if err != nil {
		// The machine is too slow. Start anyway, at the lowest safe cost, and tell someone.
		log.Printf("ALERT: password hashing: %v; using cost %d", err, bcrypt.SafeMinCost)
		cost = bcrypt.SafeMinCost
	}
	hasher := &bcrypt.Hasher{Cost: cost, MaxWaiting: 100}
	if err := hasher.Validate(); err != nil {
		log.Fatal(err)
	}

	ctx := context.Background()
	hash, err := hasher.Hash(ctx, []byte("correct horse")) // at sign-up
	if err != nil {
		log.Fatal(err)
	}
	err = hasher.Verify(ctx, hash, []byte("correct horse")) // at login
	fmt.Println(err)
	// Output: <nil>
}

// hasher is the policy in the examples below. A real one has the cost from Calibrate.
var hasher = &bcrypt.Hasher{Cost: 5, MaxWaiting: 100}

// Sign-up: the user can choose a shorter password. Any other error is the service's.
func ExampleHasher_Hash() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()

	hash, err := hasher.Hash(ctx, []byte("correct horse"))
	switch {
	case errors.Is(err, bcrypt.ErrPasswordTooLong):
		fmt.Println("choose a password of at most 72 bytes")
	case err != nil:
		log.Print(err) // hash is ""
	default:
		fmt.Printf("store %s…, %d bytes\n", hash[:7], len(hash))
	}
	// Output: store $2b$05$…, 60 bytes
}

// For a user who does not exist, an empty hash takes as long as a real one.
func ExampleHasher_Verify() {
	users := map[string]string{"ann": "$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"}

	for _, name := range []string{"ann", "bob"} {
		err := hasher.Verify(context.Background(), users[name], []byte("U*U"))
		switch {
		case err == nil:
			fmt.Println(name, "is welcome")
		case errors.Is(err, bcrypt.ErrMismatchedHashAndPassword):
			fmt.Println("wrong name or password")
		default:
			log.Print(err)
		}
	}
	// Output:
	// ann is welcome
	// wrong name or password
}

// Login: a hash that is below the policy is replaced. Only the hash that was verified is
// replaced, so a password that was changed in the meantime stays changed.
func ExampleHasher_VerifyAndUpgrade() {
	stored, err := hasher.Hash(context.Background(), []byte("U*U"))
	if err != nil {
		log.Fatal(err)
	}
	policy := &bcrypt.Hasher{Cost: 6, MaxWaiting: 100}

	newHash, err := policy.VerifyAndUpgrade(context.Background(), stored, []byte("U*U"))
	if err != nil {
		fmt.Println("wrong password")
		return
	}
	if newHash != "" {
		// UPDATE users SET hash = newHash WHERE id = … AND hash = stored
		fmt.Println(stored[:7], "becomes", newHash[:7])
	}
	// Output: $2b$05$ becomes $2b$06$
}

// Load shedding: when too many calls wait, more are refused at once, and clients try again.
func ExampleHasher_loadShedding() {
	login := func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
		defer cancel()
		stored := "" // of r.FormValue("name")
		err := hasher.Verify(ctx, stored, []byte(r.FormValue("password")))
		switch {
		case err == nil:
			fmt.Fprintln(w, "welcome")
		case errors.Is(err, bcrypt.ErrBusy), errors.Is(err, context.DeadlineExceeded):
			w.Header().Set("Retry-After", "1")
			http.Error(w, "busy, try again", http.StatusServiceUnavailable)
		case errors.Is(err, bcrypt.ErrMismatchedHashAndPassword):
			http.Error(w, "wrong name or password", http.StatusUnauthorized)
		case errors.Is(err, bcrypt.ErrPasswordTooLong):
			http.Error(w, "a password has at most 72 bytes", http.StatusBadRequest)
		case r.Context().Err() != nil: // the client has gone
		default:
			log.Print(err) // safe to log: it holds no byte of hash or password
			http.Error(w, "error", http.StatusInternalServerError)
		}
	}

	w := httptest.NewRecorder()
	login(w, httptest.NewRequest("POST", "/login", nil))
	fmt.Println(w.Code)
	// Output: 401
}

// Hashes of golang.org/x/crypto/bcrypt verify as they are, and are replaced at the next login if
// their cost is too low. So do those of htpasswd -B and PHP, whose version is 2y.
func ExampleHasher_migration() {
	for _, stored := range []string{
		"$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW", // x/crypto
		"$2y$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW", // PHP, htpasswd
	} {
		err := hasher.Verify(context.Background(), stored, []byte("U*U"))
		fmt.Println(err, hasher.NeedsRehash(stored))
	}
	// Output:
	// <nil> false
	// <nil> false
}

// In a system that truncates passwords, users log in as before. From then on every byte of their
// password counts.
func ExampleHasher_migrationFromTruncation() {
	password := []byte(strings.Repeat("long ", 20))
	truncating := &bcrypt.Hasher{Cost: 5, Long: bcrypt.TruncateLong, MaxWaiting: 100}
	stored, err := truncating.Hash(context.Background(), password)
	if err != nil {
		log.Fatal(err)
	}

	whole := &bcrypt.Hasher{Cost: 5, Long: bcrypt.PrehashLong, MaxWaiting: 100}
	newHash, err := whole.VerifyAndUpgrade(context.Background(), stored, password)
	fmt.Println(err, newHash[:28])
	fmt.Println(whole.Verify(context.Background(), newHash, password[:72]) != nil)
	// Output:
	// <nil> $bcrypt-sha256$v=2,t=2b,r=5$
	// true
}

func ExampleHasher_Stats() {
	expvar.Publish("bcrypt", expvar.Func(func() any { return hasher.Stats() }))
}

// Inspect says what a table holds: the form of each hash, and the scheme of what is no bcrypt.
func ExampleInspect() {
	for _, stored := range []string{
		"$2y$12$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW",
		"{CRYPT}$2b$10$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW",
		"$argon2id$v=19$m=65536,t=3,p=4$c29tZXNhbHQ$RdescudvJCsgt3ub+b1dWRWJTmaaJObG",
		"$2b$12$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4",
	} {
		info, err := bcrypt.Inspect(stored)
		if foreign := (*bcrypt.NotBcryptError)(nil); errors.As(err, &foreign) {
			fmt.Println("another scheme:", foreign.Scheme)
		} else if err != nil {
			fmt.Println(err)
		} else {
			fmt.Println(info.Form, info.Version, info.Cost)
		}
	}
	// Output:
	// bare 2y 12
	// ldap 2b 10
	// another scheme: argon2id
	// bcrypt: malformed hash: want 60 bytes: the hash is cut off, as by a column that is too narrow, at offset 51
}

func ExampleHashWithSalt() {
	salt := [16]byte{0x10, 0x41, 0x04, 0x10, 0x41, 0x04, 0x10, 0x41, 0x04, 0x10, 0x41, 0x04, 0x10, 0x41, 0x04, 0x10}
	hash, err := bcrypt.HashWithSalt([]byte("U*U"), 5, bcrypt.Version2b, salt)
	fmt.Println(hash, err)
	// Output: $2b$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW <nil>
}

// A service keeps one core free for other work.
func ExampleLimitCores() {
	bcrypt.LimitCores(max(1, runtime.GOMAXPROCS(0)-1))
	defer bcrypt.LimitCores(0)
}

func ExampleGenerateFromPassword() {
	hash, err := bcrypt.GenerateFromPassword([]byte("correct horse"), 12)
	switch {
	case errors.Is(err, bcrypt.ErrPasswordTooLong):
		fmt.Println("choose a password of at most 72 bytes") // tell the user
		return
	case err != nil:
		log.Fatal(err)
	}
	fmt.Printf("%s…, %d bytes\n", hash[:7], len(hash))
	// Output: $2a$12$…, 60 bytes
}

func ExampleCompareHashAndPassword() {
	// A row of the users table.
	stored := []byte("$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW")

	err := bcrypt.CompareHashAndPassword(stored, []byte("U*U"))
	switch {
	case err == nil:
		fmt.Println("welcome")
	case errors.Is(err, bcrypt.ErrMismatchedHashAndPassword):
		fmt.Println("wrong password") // the user's mistake
	default:
		log.Print(err) // ours: the stored text is not a hash
	}
	// Output: welcome
}

// A hash whose cost is too low today is replaced at the next login, when the password is known.
func ExampleCost() {
	stored := []byte("$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW")

	cost, err := bcrypt.Cost(stored)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(cost, cost < 12)
	// Output: 5 true
}

// A machine that is too slow must not keep the service down. It starts at the lowest safe cost
// and raises an alert.
func ExampleCalibrate() {
	cost, err := bcrypt.Calibrate(time.Second)
	if err != nil {
		// cost is 0 now. After a *CostTooSlowError a hash takes longer than the limit. After
		// any other error the machine could not be measured.
		log.Printf("ALERT: password hashing: %v; using cost %d", err, bcrypt.SafeMinCost)
		cost = bcrypt.SafeMinCost
	}
	fmt.Println(cost >= bcrypt.SafeMinCost)
	// Output: true
}

// A Calibrator can also ask for a rate of logins, and returns evidence for the log.
func ExampleCalibrator() {
	calibrator := bcrypt.Calibrator{
		MaxDuration: time.Second,
		MinRate:     2, // logins per second
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	result, err := calibrator.Run(ctx)
	if tooSlow := (*bcrypt.CostTooSlowError)(nil); errors.As(err, &tooSlow) {
		log.Printf("ALERT: %v\n%v", err, result)
		return
	} else if err != nil {
		log.Fatal(err)
	}
	log.Printf("bcrypt calibrated:\n%v", result)
}

// A fleet uses a cost that was calibrated once, on an idle host of the class, and stands in the
// configuration. At start-up each host only checks that it is not slower than its class.
func ExampleCalibrator_pinnedCost() {
	const pinned = 10 // from the configuration

	check := bcrypt.Calibrator{MaxDuration: time.Second, MinCost: pinned, MaxCost: pinned}
	if _, err := check.Run(context.Background()); err != nil {
		log.Printf("ALERT: password hashing: %v", err) // the cost stays: it is the policy
	}

	hash, err := bcrypt.GenerateFromPassword([]byte("correct horse"), pinned)
	fmt.Printf("%s… %v\n", hash[:7], err)
	// Output: $2a$10$… <nil>
}

func ExampleMalformedHashError() {
	_, err := bcrypt.Cost([]byte("$2a$+5$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"))
	if malformed := (*bcrypt.MalformedHashError)(nil); errors.As(err, &malformed) {
		fmt.Println(malformed.Offset, malformed)
	}
	// Output: 4 bcrypt: malformed hash: want a digit of the cost at offset 4
}
