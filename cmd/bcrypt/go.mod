module example.com/bcrypt/cmd/bcrypt

go 1.25

require (
	example.com/bcrypt v0.0.0
	github.com/spf13/cobra v1.10.2
)

require (
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/spf13/pflag v1.0.9 // indirect
)

replace example.com/bcrypt => ../..
