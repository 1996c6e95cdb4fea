// Package oracle holds tests of package bcrypt against golang.org/x/crypto. It is a
// module of its own so that x/crypto stays out of the go.mod, go.sum and module graph of
// the library and of those who import it.
package oracle
