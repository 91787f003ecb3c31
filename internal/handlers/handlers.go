// Package handlers holds the job types a tierq server runs out of the box.
package handlers

import "github.com/tierq/tierq/internal/job"

// Register adds the built-in job types to r. It panics if r knows one of them already.
func Register(r *job.Registry) {
	job.Handle(r, "SIMULATION", simulate)
	registerFaults(r)
}
