//go:build long

package archive_test

// longFlows makes the random flows as large and as many as make long has them.
const longFlows = true
