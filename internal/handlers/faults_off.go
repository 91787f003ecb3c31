//go:build !failpoint

package handlers

import "github.com/tierq/tierq/internal/handler"

// registerFaults adds nothing: the job types that kill and hang exist only in test builds.
func registerFaults(*handler.Registry) {}
