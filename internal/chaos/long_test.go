//go:build long

package chaos

const tried = "."
