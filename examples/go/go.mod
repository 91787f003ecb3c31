module example.com/pictures

go 1.26.0

require (
	github.com/tierq/tierq/client v0.1.0
	github.com/tierq/tierq/worker v0.1.0
)

// In a checkout the libraries are those beside the example. A program elsewhere has no such lines.
replace (
	github.com/tierq/tierq/client => ../../client
	github.com/tierq/tierq/worker => ../../worker
)
