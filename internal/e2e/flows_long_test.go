//go:build long

package e2e

// The size of the random flow, and how often a server is killed or Redis emptied while it runs.
const flowSize, flowKills = 200, 15
