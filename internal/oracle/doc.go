// Package oracle tests package bcrypt against golang.org/x/crypto and other bcrypts. It is a
// module of its own, so that x/crypto stays out of the go.mod, the go.sum and the module
// graph of the library and of its users.
package oracle
