//go:build unix

package httpapi

import "syscall"

// fileLimit returns how many files the process may open. known is false if the system does not say.
func fileLimit() (files uint64, known bool) {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return 0, false
	}
	return l.Max, true
}
