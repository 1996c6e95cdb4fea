package main

import (
	"bytes"
	"fmt"
	"math/big"
)

// words is the number of words of the state: 18 of the P-array and four S-boxes of 256.
const words = 18 + 4*256

// tables writes the state that Blowfish starts from: the P-array, then the S-boxes,
// filled with the hexadecimal digits of the fraction of π (Schneier, "Description of a
// New Variable-Length Key, 64-Bit Block Cipher (Blowfish)", 1994).
func tables(b *bytes.Buffer) {
	fmt.Fprintf(b, `// initialState is the Blowfish state before any key: the first %d words of the fraction of
// π, as in Schneier's paper of 1994.
var initialState = [18 + 4*256]uint32{
`, words)
	for i, w := range piFraction(words) {
		fmt.Fprintf(b, "%#08x,", w)
		if i%6 == 5 || i == words-1 {
			fmt.Fprintln(b)
		}
	}
	fmt.Fprintln(b, "}")
}

// piFraction returns the first n 32-bit words of π - 3, by Machin's formula,
// π = 16 arctan(1/5) - 4 arctan(1/239), in fixed-point arithmetic.
func piFraction(n int) []uint32 {
	const guard = 64 // extra bits, which absorb the rounding of the series' terms
	bits := uint(32*n + guard)

	pi := new(big.Int).Mul(big.NewInt(16), arctanInverse(5, bits))
	pi.Sub(pi, new(big.Int).Mul(big.NewInt(4), arctanInverse(239, bits)))
	pi.Rsh(pi, guard)

	mask := big.NewInt(1<<32 - 1)
	out := make([]uint32, n)
	for i := n - 1; i >= 0; i-- {
		out[i] = uint32(new(big.Int).And(pi, mask).Uint64())
		pi.Rsh(pi, 32)
	}
	return out
}

// arctanInverse returns arctan(1/x) times 2^bits, by Gregory's series: the sum of
// (-1)^k / ((2k+1) x^(2k+1)).
func arctanInverse(x int64, bits uint) *big.Int {
	power := new(big.Int).Lsh(big.NewInt(1), bits)
	power.Quo(power, big.NewInt(x))
	square := big.NewInt(x * x)
	sum := new(big.Int)
	for k := int64(0); power.Sign() > 0; k++ {
		term := new(big.Int).Quo(power, big.NewInt(2*k+1))
		if k%2 == 0 {
			sum.Add(sum, term)
		} else {
			sum.Sub(sum, term)
		}
		power.Quo(power, square)
	}
	return sum
}
