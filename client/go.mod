module github.com/tierq/tierq/client

go 1.26.0
