module example.com/bcrypt/benchmarks

go 1.25

require (
	example.com/bcrypt v0.0.0
	golang.org/x/crypto v0.48.0
)

replace example.com/bcrypt => ..
