package httpapi

import "net/http"

// shown returns the credentials of a request: all values of the header Authorization; or, without that header, the
// session in a browser's cookie. The cookie does not count on an open server, nor if ownPage refuses the request.
func (a *api) shown(r *http.Request) (authorization []string, session string) {
	if header := r.Header["Authorization"]; len(header) > 0 {
		return header, ""
	}
	if len(r.Header["Cookie"]) == 0 || a.open() || !ownPage(r) {
		return nil, ""
	}
	return nil, sessionIn(r, a.Doors.CookieName(a.secure(r)))
}

// sessionIn returns the session in the cookie of this name. It returns "" for a text that cannot be a session, and
// if there are two such cookies: a page of a neighbouring host may have set one of them.
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

// ownPage reports whether a request comes from a page of this server, or from no page: the address was typed in, or
// the client is not a browser. A browser sends the cookie by itself, and SameSite=Strict does not keep it from
// pages of the same site, such as those of another port. From such a page ownPage accepts a GET that follows a link
// (its mode is navigate), and a GET without a mode: that is what our page asks the API for after such a link. It
// accepts no change from there, see origin.
func ownPage(r *http.Request) bool {
	if r.Header.Get("Sec-Fetch-Site") == "same-site" {
		mode := r.Header.Get("Sec-Fetch-Mode")
		return (r.Method == http.MethodGet || r.Method == http.MethodHead) && (mode == "navigate" || mode == "")
	}
	return sameOrigin(r)
}

// sameOrigin reports whether a request comes from a page of this very server, or from no page. It checks a GET as
// strictly as a request that changes something.
func sameOrigin(r *http.Request) bool {
	strict := *r
	strict.Method = http.MethodPost
	return crossOrigin.Check(&strict) == nil
}
