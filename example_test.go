package bcrypt_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"example.com/bcrypt"
)

// At start-up, choose the cost. Then hash at sign-up and compare at login.
func Example() {
	cost, err := bcrypt.Calibrate(250 * time.Millisecond)
	if err != nil {
		// A slow or busy host must not keep the service down, nor weaken its hashes.
		log.Printf("hashing is slower than it should be: %v", err)
		cost = bcrypt.SafeMinCost
	}

	hash, err := bcrypt.GenerateFromPassword([]byte("correct horse"), cost)
	if err != nil {
		log.Fatal(err) // store nothing
	}

	err = bcrypt.CompareHashAndPassword(hash, []byte("correct horse"))
	fmt.Println(err)
	// Output: <nil>
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
		log.Print(err) // ours: what is stored is not a hash
	}
	// Output: welcome
}

// A hash whose cost is below today's is replaced at the next login, when the password is
// at hand.
func ExampleCost() {
	stored := []byte("$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW")

	cost, err := bcrypt.Cost(stored)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(cost, cost < 12)
	// Output: 5 true
}

// A host that is too slow, or too busy when it starts, must not keep the service down: it
// goes on at the lowest safe cost, and says so loudly.
func ExampleCalibrate() {
	cost, err := bcrypt.Calibrate(time.Second)
	if err != nil {
		// cost is 0 now, and would be refused. After a *CostTooSlowError a hash takes
		// longer than it should; after any other error this host cannot be measured.
		log.Printf("ALERT: password hashing: %v; going on at cost %d", err, bcrypt.SafeMinCost)
		cost = bcrypt.SafeMinCost
	}
	fmt.Println(cost >= bcrypt.SafeMinCost)
	// Output: true
}

// With evidence for the log, a limit on the time of a hash among others, and a demand on
// how many logins the host can take.
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

// For a fleet the cost was calibrated once, on an idle host of its class, and stands in the
// configuration: all hosts agree on it, and none measures the others at their start. At
// start-up each only checks that it is not slower than its class.
func ExampleCalibrator_pinnedCost() {
	const pinned = 10 // from the configuration

	check := bcrypt.Calibrator{MaxDuration: time.Second, MinCost: pinned, MaxCost: pinned}
	if _, err := check.Run(context.Background()); err != nil {
		log.Printf("ALERT: password hashing: %v", err) // and go on: the cost is the policy
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
