//go:build long

package sim

const hunted = 1
