//go:build !race

package bcrypt

// raceEnabled is whether the program was built with the race detector.
const raceEnabled = false
