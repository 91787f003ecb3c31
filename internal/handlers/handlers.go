// Package handlers holds the built-in job types of a tierq server.
package handlers

import "github.com/tierq/tierq/internal/handler"

// Register adds the built-in job types to r. It panics if r knows one of them already.
func Register(r *handler.Registry) {
	handler.Register(r, "SIMULATION", simulate)
	registerFaults(r)
}
