package main

import (
	"fmt"
	"testing"

	"example.com/bcrypt"
)

// The names are key=value pairs, so that benchstat can put implementations side by side:
// benchstat -col /impl.
func BenchmarkCompare(b *testing.B) {
	password := []byte("correct horse battery staple")
	for _, cost := range []int{8, 10} {
		hash, err := bcrypt.GenerateFromPassword(password, cost)
		if err != nil {
			b.Fatal(err)
		}
		for _, p := range peers {
			b.Run(fmt.Sprintf("cost=%d/impl=%s", cost, p.name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if !p.compare(hash, password) {
						b.Fatal("mismatch")
					}
				}
			})
		}
	}
}
