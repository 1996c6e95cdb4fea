package bcrypt_test

import (
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

func ExampleCalibrate() {
	cost, err := bcrypt.Calibrate(time.Second)
	if slow := (*bcrypt.CostTooSlowError)(nil); errors.As(err, &slow) {
		log.Printf("cost %d takes %v here", slow.Cost, slow.Elapsed)
		cost = bcrypt.SafeMinCost
	} else if err != nil {
		log.Fatal(err)
	}
	fmt.Println(cost >= bcrypt.SafeMinCost)
	// Output: true
}

func ExampleMalformedHashError() {
	_, err := bcrypt.Cost([]byte("$2a$+5$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"))
	if malformed := (*bcrypt.MalformedHashError)(nil); errors.As(err, &malformed) {
		fmt.Println(malformed.Offset, malformed)
	}
	// Output: 4 bcrypt: malformed hash: want a digit of the cost at offset 4
}
