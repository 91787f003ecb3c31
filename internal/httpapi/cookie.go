package httpapi

import (
	"net/http"
	"strings"
)

// keyCookie is where a browser that logged in keeps its key. The page /login sets it: HttpOnly, SameSite=Strict, and Secure where it came over TLS.
const keyCookie = "tierq_key"

// shown is the key that a request shows, as the header Authorization has it: this header, all its values; else, of a browser that logged in, its
// cookie; nil if neither is there.
func (a *api) shown(r *http.Request) []string {
	if header := r.Header["Authorization"]; len(header) > 0 {
		return header
	}
	if len(r.Header["Cookie"]) == 0 || a.open() || !ownPage(r) {
		return nil // browsers know no ports: an open server may be sent the cookie of another one on this machine
	}
	if key, ok := keyIn(r); ok {
		return []string{"Bearer " + key}
	}
	return nil
}

// keyIn is the key that a request has in its cookie. What cannot be one, and one of two, is none: a neighbour's site may have set it.
func keyIn(r *http.Request) (key string, ok bool) {
	all := r.CookiesNamed(keyCookie)
	if len(all) != 1 || all[0].Quoted {
		return "", false
	}
	key = all[0].Value
	if len(key) > maxKeyText || !strings.HasPrefix(key, "tq_") {
		return "", false
	}
	for i := range len(key) {
		if c := key[i]; (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '_' && c != '-' {
			return "", false
		}
	}
	return key, true
}

// maxKeyText is longer than any key.
const maxKeyText = 128

// ownPage says whether a request comes from a page of this server, or from nobody's: typed in, or not from a browser. A browser sends the cookie by
// itself, and SameSite=Strict does not keep it from pages of the same site, such as those of another port: of theirs only links are followed, and
// what a page asks for who followed one comes without a mode. What changes something is refused from all of them, see origin.
func ownPage(r *http.Request) bool {
	if r.Header.Get("Sec-Fetch-Site") == "same-site" {
		mode := r.Header.Get("Sec-Fetch-Mode")
		return (r.Method == http.MethodGet || r.Method == http.MethodHead) && (mode == "navigate" || mode == "")
	}
	strict := *r
	strict.Method = http.MethodPost // a GET is looked at as closely
	return crossOrigin.Check(&strict) == nil
}
