module example.com/bcrypt/internal/oracle

go 1.26.0

require (
	example.com/bcrypt v0.0.0
	github.com/stretchr/testify v1.12.1
	golang.org/x/crypto v0.59.0
)

require go.yaml.in/yaml/v3 v3.0.5 // indirect

replace example.com/bcrypt => ../..
