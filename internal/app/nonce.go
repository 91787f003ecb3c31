package app

import (
	"crypto/rand"
	"fmt"
	"os"
	"strings"
)

// newNonce names this process in lease tokens and in the history of attempts: host, pid, and enough random bytes
// to be unique.
func newNonce() string {
	host, _ := os.Hostname()
	host = strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '-', r == '.':
			return r
		}
		return -1
	}, host)
	if len(host) > 24 {
		host = host[:24]
	}
	chance := make([]byte, 4)
	_, _ = rand.Read(chance) // never fails, says crypto/rand
	return fmt.Sprintf("%s-%d-%x", host, os.Getpid(), chance)
}
