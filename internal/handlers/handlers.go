// Package handlers holds the job types a tierq server runs out of the box.
package handlers

import "github.com/tierq/tierq/internal/handler"

// Register adds the built-in job types to r. It panics if r knows one of them already.
func Register(r *handler.Registry) {
	handler.Register(r, "SIMULATION", simulate)
	registerFaults(r)
}
