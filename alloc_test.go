//go:build !race

package bcrypt

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// This file is left out with the race detector, which makes sync.Pool drop at random
// what is put in.

func TestAllocations(t *testing.T) {
	password, hash := []byte("U*U"), []byte(strings.Replace(sample, "05", "04", 1))
	generate := testing.AllocsPerRun(50, func() { GenerateFromPassword(password, MinCost) })
	compare := testing.AllocsPerRun(50, func() { CompareHashAndPassword(hash, password) })
	require.LessOrEqual(t, generate, 2.0)
	require.LessOrEqual(t, compare, 1.0)
}
