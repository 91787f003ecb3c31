package httpapi

import "net/http"

// shown is what a request shows of its caller: the header Authorization, all its values; else, of a browser that logged
// in, the session in its cookie; nothing if neither is there.
func (a *api) shown(r *http.Request) (authorization []string, session string) {
	if header := r.Header["Authorization"]; len(header) > 0 {
		return header, ""
	}
	if len(r.Header["Cookie"]) == 0 || a.open() || !ownPage(r) {
		return nil, ""
	}
	return nil, sessionIn(r, a.Doors.CookieName(a.secure(r)))
}

// sessionIn is the session that a request has in the cookie of this name; "" for a text that cannot be one, and for one
// of two: a neighbour's site may have set it.
func sessionIn(r *http.Request, name string) string {
	all := r.CookiesNamed(name)
	if len(all) != 1 || all[0].Quoted || len(all[0].Value) > maxSessionText {
		return ""
	}
	text := all[0].Value
	for i := range len(text) {
		c := text[i]
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '_' && c != '-' && c != '.' {
			return ""
		}
	}
	return text
}

// maxSessionText is longer than any session.
const maxSessionText = 128

// ownPage says whether a request comes from a page of this server, or from nobody's: typed in, or not from a browser. A
// browser sends the cookie by itself, and SameSite=Strict does not keep it from pages of the same site, such as those
// of another port: of theirs only links are followed, and what a page asks for who followed one comes without a mode.
// What changes something is refused from all of them, see origin.
func ownPage(r *http.Request) bool {
	if r.Header.Get("Sec-Fetch-Site") == "same-site" {
		mode := r.Header.Get("Sec-Fetch-Mode")
		return (r.Method == http.MethodGet || r.Method == http.MethodHead) && (mode == "navigate" || mode == "")
	}
	return sameOrigin(r)
}

// sameOrigin says whether a request comes from a page of this very server, or from none. A GET is looked at as closely
// as what changes something.
func sameOrigin(r *http.Request) bool {
	strict := *r
	strict.Method = http.MethodPost
	return crossOrigin.Check(&strict) == nil
}
