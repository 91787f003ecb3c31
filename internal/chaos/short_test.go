//go:build !long

package chaos

const tried = "two-look|acknowledge before"
