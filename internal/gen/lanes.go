package main

import (
	"bytes"
	"fmt"
)

// widest is the number of lanes of the widest kernel: maxLanes of the package, which
// says there why.
const widest = 5

// lanes writes the kernels that run an iteration of several lanes in lock-step.
func lanes(b *bytes.Buffer) {
	fmt.Fprint(b, `// kernels has for each width the function that runs an iteration of the first so many
// lanes. What lane.iterate is for one lane, these are for several.
//
// A round of one lane waits for its predecessor most of the time, so a core has room for
// those of others. A kernel goes through the rounds of lane.encipher with all lanes in
// step: round i of the first lane, of the second, and so on, then round i+1. The halves
// l and r of a lane's block are variables, since in an array they would be in memory; the
// lanes are one array, since a pointer for each would take a register. The two lines of
// a round are written out, and not a call of state.round, which costs 3 %.
var kernels = [maxLanes + 1]func(*[maxLanes]lane){
	1: func(n *[maxLanes]lane) { n[0].iterate() },
`)
	for width := 2; width <= widest; width++ {
		fmt.Fprintf(b, "%d: iterate%d,\n", width, width)
	}
	fmt.Fprintf(b, "}\n")
	for width := 2; width <= widest; width++ {
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
