package pages

import (
	"cmp"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tierq/tierq/web"
)

const (
	cookieName = "tierq_key"
	stays      = 12 * time.Hour
	mostKey    = 128 // longer than any key
)

// keyCookie keeps a key where no script reads it and no other site's page sends it; "" takes it away.
func keyCookie(key string, secure bool) *http.Cookie {
	c := &http.Cookie{Name: cookieName, Value: key, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: secure, MaxAge: -1}
	if key != "" {
		c.MaxAge = int(stays / time.Second)
	}
	return c
}

func hasCookie(r *http.Request) bool { return len(r.CookiesNamed(cookieName)) > 0 }

// getLogin is /login: the form. Where nobody needs a key, there is nothing to do. Who followed another site's link comes without the cookie he
// may well have: the page is loaded once more, by itself and so with the cookie, and leads on to where he wished to go.
func (p *Pages) getLogin(w http.ResponseWriter, r *http.Request) {
	next, me := ownPath(r.URL.Query().Get("next")), p.who(r)
	if me.Open || me.Name != "" && next != "/" {
		see(w, next)
		return
	}
	if r.Header.Get("Sec-Fetch-Site") == "cross-site" {
		w.Header().Set("Refresh", "0")
	}
	p.showLogin(w, r, http.StatusOK, next, "")
}

func (p *Pages) showLogin(w http.ResponseWriter, r *http.Request, status int, next, trouble string) {
	v := web.LoginView{Frame: p.frame(r), Next: next}
	v.Here = next
	v.Trouble = cmp.Or(trouble, v.Trouble)
	p.show(w, r, status, func(w io.Writer) error { return p.o.Set.Login(w, v) })
}

// postLogin tries a key by asking the API who its caller is, and lets the browser keep one that is right.
func (p *Pages) postLogin(w http.ResponseWriter, r *http.Request) {
	f, err := p.form(r)
	if err != nil {
		p.fail(w, r, err)
		return
	}
	next, key := ownPath(f.Get("next")), strings.TrimSpace(f.Get("key"))
	if key == "" {
		p.showLogin(w, r, http.StatusBadRequest, next, "Type a key.")
		return
	}
	var me caller
	err = &apiError{Status: http.StatusUnauthorized}
	if fitsCookie(key) {
		err = p.ask(with(r, "Authorization", "Bearer "+key), http.MethodGet, mePath, nil, &me)
	}
	switch {
	case err == nil && me.Name != "":
		http.SetCookie(w, keyCookie(key, me.Secure || r.TLS != nil))
		see(w, next)
	case err == nil || refusedWith(err, http.StatusUnauthorized):
		if p.who(r).Open { // a server without keys refuses every key, or takes it for none
			see(w, next)
			return
		}
		p.showLogin(w, r, http.StatusUnauthorized, next, "That key opens nothing here: it is wrong, has expired or was revoked.")
	default:
		if r.Context().Err() != nil {
			return
		}
		e := p.refusalIn(r, err)
		trouble := e.Detail
		if e.RetryAfter > 0 {
			s := strconv.Itoa(int(e.RetryAfter / time.Second))
			w.Header().Set("Retry-After", s)
			trouble += " It makes sense again in " + s + " s."
		}
		p.showLogin(w, r, e.Status, next, trouble)
	}
}

// postLogout takes the key away.
func (p *Pages) postLogout(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, keyCookie("", r.TLS != nil || p.who(r).Secure))
	see(w, "/")
}

// fitsCookie says whether a key can be kept in a cookie as it is. Every key that was made here can.
func fitsCookie(key string) bool {
	for i := range len(key) {
		if c := key[i]; (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '_' && c != '-' {
			return false
		}
	}
	return len(key) <= mostKey
}

// ownPath is a path of this server to go to, with its query, "/" for whatever might lead elsewhere: browsers take a backslash for a slash, and
// pass over tabs and line ends.
func ownPath(next string) string {
	path, _, _ := strings.Cut(next, "?")
	if len(next) > 2000 || !strings.HasPrefix(path, "/") || strings.Contains(path, "//") || strings.ContainsAny(path, `\#`) {
		return "/"
	}
	for i := range len(next) {
		if next[i] <= ' ' || next[i] > '~' {
			return "/"
		}
	}
	u, err := url.Parse(next)
	if err != nil || u.IsAbs() || u.Host != "" || u.Path == "/login" || u.Path == "/logout" {
		return "/"
	}
	return next
}
