package handler

import (
	"errors"
	"fmt"
	"net/mail"
	"strings"
)

const maxAddress = 254 // bytes

// ReadAddress checks a mail address that a payload asks tierq to write to: local@host in ASCII, at most 254 bytes.
// It refuses a display name or angle brackets around the address, a quoted local part (mail servers read it in
// different ways) and an address literal. An international domain must be in its xn-- form. The error continues a
// sentence whose subject is the address, and does not repeat the address.
func ReadAddress(s string) error {
	switch {
	case s == "":
		return errors.New("is missing")
	case len(s) > maxAddress:
		return fmt.Errorf("has %d bytes, the most is %d", len(s), maxAddress)
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
