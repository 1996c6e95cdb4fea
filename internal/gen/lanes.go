package main

import (
	"bytes"
	"fmt"
)

// maxLanes is the number of lanes of the widest kernel. The generated file says why.
const maxLanes = 5

// lanes writes maxLanes, and the kernels that run an iteration of several lanes in
// lock-step.
func lanes(b *bytes.Buffer) {
	fmt.Fprintf(b, `// maxLanes is how many hashes a core can run at once. More gain nothing. Measured on an
// Intel Xeon of 2023 (Emerald Rapids, 48 KiB of L1 data cache, one hardware thread a core
// in sight), nanoseconds a round and lane at 1 to 8 lanes are
//
//	4.18  2.19  1.56  1.25  1.10  1.09  1.13  1.17
//
// At five lanes the core issues five instructions a cycle; from six on, lanes are spilled.
// Five lanes take 21 KiB. Two hardware threads that share an L1 cache of 32 KiB cannot both
// hold five, and no such machine has been measured. There are spells on this one in which
// five lanes take twice as long while one lane does not, as a busy sibling thread would
// cause. Even then five are faster than one.
const maxLanes = %d

`, maxLanes)
	fmt.Fprint(b, `// kernels[n] runs one iteration of the first n lanes. It does for n lanes what lane.iterate
// does for one.
//
// A round of one lane spends most of its time waiting for the round before, so a core has
// room for the rounds of others. A kernel takes all lanes through lane.encipher in step:
// round i of the first lane, of the second, and so on, then round i+1. The halves l and r
// of a lane's block are variables, because an array would put them in memory. The lanes are
// one array, because a pointer for each would take a register. The two lines of a round are
// written out, because a call of state.round costs 3 %.
var kernels = [maxLanes + 1]func(*[maxLanes]lane){
	1: func(n *[maxLanes]lane) { n[0].iterate() },
`)
	for width := 2; width <= maxLanes; width++ {
		fmt.Fprintf(b, "%d: iterate%d,\n", width, width)
	}
	fmt.Fprintf(b, "}\n")
	for width := 2; width <= maxLanes; width++ {
		kernel(b, width)
	}
}

func kernel(b *bytes.Buffer, width int) {
	each := func(format string) {
		for lane := range width {
			fmt.Fprintf(b, format+"\n", lane)
		}
	}
	fmt.Fprintf(b, "\nfunc iterate%d(n *[maxLanes]lane) {\n", width)
	fmt.Fprintf(b, "for k := range 2 { // the key, then the salt\n")
	each("n[%[1]d].mix(&n[%[1]d].keys[k])")
	fmt.Fprintf(b, "var ")
	for lane := range width {
		if lane > 0 {
			fmt.Fprintf(b, ", ")
		}
		fmt.Fprintf(b, "l%[1]d, r%[1]d", lane)
	}
	fmt.Fprintf(b, " uint32\n")
	fmt.Fprintf(b, "for i := 0; i < len(n[0].state)-1; i += 2 {\n")
	each("l%[1]d ^= n[%[1]d].state[0]")
	for i := 1; i <= 16; i++ {
		from, to := "l", "r"
		if i%2 == 0 {
			from, to = to, from
		}
		round := fmt.Sprintf("%[2]s%%[1]d ^= n[%%[1]d].state[%[3]d]\n"+
			"%[2]s%%[1]d ^= ((n[%%[1]d].state[box0+int(%[1]s%%[1]d>>24)]"+
			" + n[%%[1]d].state[box1+int(byte(%[1]s%%[1]d>>16))])"+
			" ^ n[%%[1]d].state[box2+int(byte(%[1]s%%[1]d>>8))])"+
			" + n[%%[1]d].state[box3+int(byte(%[1]s%%[1]d))]", from, to, i)
		fmt.Fprintf(b, "\n// round %d\n", i)
		each(round)
	}
	fmt.Fprintf(b, "\n")
	each("l%[1]d, r%[1]d = r%[1]d^n[%[1]d].state[17], l%[1]d\n" +
		"n[%[1]d].state[i], n[%[1]d].state[i+1] = l%[1]d, r%[1]d")
	fmt.Fprintf(b, "}\n}\n}\n")
}
