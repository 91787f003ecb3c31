package job

import (
	"errors"
	"fmt"
	"net/mail"
	"strings"
)

// MaxAddress bounds a mail address, in bytes.
const MaxAddress = 254

// ReadAddress reads a mail address that tierq is asked to write to: local@host in ASCII, nothing around it, no quoted local part (what some
// server takes apart in another way), no address literal. An international domain is written in its xn-- form. The error continues a
// sentence whose subject is the address, and does not repeat it.
func ReadAddress(s string) error {
	switch {
	case s == "":
		return errors.New("is missing")
	case len(s) > MaxAddress:
		return fmt.Errorf("has %d bytes, the most is %d", len(s), MaxAddress)
	}
	for i := range len(s) {
		switch c := s[i]; {
		case c > '~':
			return errors.New("is not ASCII; write the domain in its xn-- form")
		case c <= ' ' || strings.IndexByte("\"(),:;<>[\\]", c) >= 0:
			return errors.New("has a blank, a quote or another character that does not belong in local@host")
		}
	}
	at := strings.LastIndexByte(s, '@')
	a, err := mail.ParseAddress(s)
	if err != nil || a.Name != "" || a.Address != s || at > 64 || !isName(s[at+1:]) {
		return errors.New("is not a mail address like local@example.org")
	}
	return nil
}
