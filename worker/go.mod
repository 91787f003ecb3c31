module github.com/tierq/tierq/worker

go 1.26.0
