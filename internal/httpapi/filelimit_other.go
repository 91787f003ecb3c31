//go:build !unix

package httpapi

// fileLimit returns known = false: the system has no such limit (Windows).
func fileLimit() (files uint64, known bool) { return 0, false }
