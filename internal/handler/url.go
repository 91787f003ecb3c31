package handler

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

const maxURL = 2048 // bytes

// ReadURL parses a URL that a payload asks tierq to call: absolute, http or https, at most 2048 bytes of printable
// ASCII, without user name and fragment. Its host is a name (letters, digits, hyphens and underscores) or an
// address in its canonical spelling: ReadURL refuses texts that some programs read as an address and others as a
// name. The error continues a sentence whose subject is the URL, and does not repeat the URL. ReadURL does not
// check whether tierq may call the address: the code that calls it does.
func ReadURL(s string) (*url.URL, error) {
	switch {
	case s == "":
		return nil, errors.New("is missing")
	case len(s) > maxURL:
		return nil, fmt.Errorf("has %d bytes, the most is %d", len(s), maxURL)
	case strings.Contains(s, "#"):
		return nil, errors.New("has a fragment (#)")
	}
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c > '~' || strings.IndexByte("\"<>\\^`{|}", c) >= 0 {
			return nil, errors.New("has a character that must be escaped in a URL")
		}
	}
	u, err := url.Parse(s)
	if err != nil {
		return nil, errors.New("is not a URL") // the parser's error quotes the URL
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("is neither http nor https")
	case u.Host == "" || u.Opaque != "":
		return nil, errors.New("has no host")
	case u.User != nil:
		return nil, errors.New("has a user name in it")
	case !isHost(u.Hostname(), u.Host[0] == '['):
		return nil, errors.New("has a host that is neither a name nor an address")
	case !isPort(strings.TrimPrefix(strings.TrimPrefix(u.Host, "["+u.Hostname()+"]"), u.Hostname())):
		return nil, errors.New("has a port that is not in 1..65535")
	}
	return u, nil
}

// isPort checks the text behind the host: nothing, or a colon and a port without leading zeros.
func isPort(s string) bool {
	if s == "" {
		return true
	}
	n, err := strconv.ParseUint(s[1:], 10, 16)
	return err == nil && n > 0 && s[1] != '0'
}

func isHost(s string, bracketed bool) bool {
	if a, err := netip.ParseAddr(s); err == nil {
		return a.Is6() == bracketed && a.Zone() == "" && !a.Is4In6()
	}
	return !bracketed && isName(s)
}

// isName checks a host name. It refuses names whose last label is a number, because some programs read 127.1,
// 0x7f000001 and 017700000001 as addresses.
func isName(s string) bool {
	if len(s) > 253 {
		return false
	}
	labels := strings.Split(s, ".")
	for _, l := range labels {
		if l == "" || len(l) > 63 || l[0] == '-' || l[len(l)-1] == '-' || strings.Trim(l, alphanumeric+"-_") != "" {
			return false
		}
	}
	last := strings.ToLower(labels[len(labels)-1])
	number := strings.Trim(last, "0123456789") == "" ||
		strings.HasPrefix(last, "0x") && strings.Trim(last[2:], "0123456789abcdef") == ""
	return !number
}

const alphanumeric = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
