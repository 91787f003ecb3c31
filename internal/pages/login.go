package pages

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/web"
)

// Sessions are the logins of browsers: pages begin and end them, and the API checks them.
type Sessions interface {
	// Begin makes a session for the key with this text and returns the text that the browser shows, and how long the
	// session lasts. job.ErrUnauthorized: the key is not valid; job.ErrUnavailable: the store does not answer.
	Begin(ctx context.Context, key string) (text string, lasts time.Duration, err error)
	// End ends the session with this text. After job.ErrUnavailable the session may go on.
	End(ctx context.Context, text string) error
	// CookieName returns the name of the cookie that holds a session, over TLS or not.
	CookieName(secure bool) string
}

// keyCookie is the cookie in which versions without sessions stored the key itself. A login and a logout delete
// it.
const keyCookie = "tierq_key"

const mostKey = 128 // longer than any key

// setSession stores a session in a cookie that no script can read and no other site's page can send; "" deletes
// the cookie.
func (p *Pages) setSession(w http.ResponseWriter, secure bool, text string, lasts time.Duration) {
	setCookie(w, p.o.Sessions.CookieName(secure), secure, text, lasts)
}

func setCookie(w http.ResponseWriter, name string, secure bool, text string, lasts time.Duration) {
	c := &http.Cookie{
		Name: name, Value: text, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: secure, MaxAge: -1,
	}
	if text != "" {
		c.MaxAge = int(lasts / time.Second)
	}
	http.SetCookie(w, c)
}

// sessionsOf returns the session cookies of a browser: one, or none.
func (p *Pages) sessionsOf(r *http.Request) []*http.Cookie {
	return append(r.CookiesNamed(p.o.Sessions.CookieName(true)), r.CookiesNamed(p.o.Sessions.CookieName(false))...)
}

// endSession ends the browser's session. After an error the session may go on in the store.
func (p *Pages) endSession(r *http.Request) error {
	var problems []error
	for _, c := range p.sessionsOf(r) {
		problems = append(problems, p.o.Sessions.End(r.Context(), c.Value))
	}
	return errors.Join(problems...)
}

// dropKey deletes the cookie of an earlier version.
func dropKey(w http.ResponseWriter, r *http.Request, secure bool) {
	if len(r.CookiesNamed(keyCookie)) > 0 {
		setCookie(w, keyCookie, secure, "", 0)
	}
}

// getLogin serves /login, the form. If the caller needs no key, it redirects. A caller who followed another site's
// link comes without the cookie, although there may be one: then the page reloads itself, which sends the cookie,
// and redirects to the wanted page.
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

// postLogin checks a key by asking the API for its caller, and gives the browser a session if the key is valid.
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
		p.begin(w, r, key, next, me.Secure || r.TLS != nil)
	case err == nil || refusedWith(err, http.StatusUnauthorized):
		if p.who(r).Open { // a server without keys refuses every key, or ignores it
			see(w, next)
			return
		}
		p.showLogin(w, r, http.StatusUnauthorized, next, wrongKey)
	default:
		if r.Context().Err() != nil {
			return
		}
		e := p.refusalIn(r, err)
		trouble := e.Detail
		if e.RetryAfter > 0 {
			s := strconv.Itoa(int(e.RetryAfter / time.Second))
			w.Header().Set("Retry-After", s)
			trouble += " Try again in " + s + " s."
		}
		p.showLogin(w, r, e.Status, next, trouble)
	}
}

const wrongKey = "This key is not valid: it is wrong, has expired or was revoked."

// begin gives the browser a session for a key that the API has just accepted, in place of an earlier session.
func (p *Pages) begin(w http.ResponseWriter, r *http.Request, key, next string, secure bool) {
	text, lasts, err := p.o.Sessions.Begin(r.Context(), key)
	switch {
	case errors.Is(err, job.ErrUnauthorized):
		p.showLogin(w, r, http.StatusUnauthorized, next, wrongKey)
	case err != nil:
		p.o.Log.WarnContext(r.Context(), "a session could not be stored", "err", err)
		p.showLogin(
			w, r, http.StatusServiceUnavailable, next,
			"The key is valid, but the server cannot store a session now: Redis does not answer, or is full.",
		)
	default:
		if err := p.endSession(r); err != nil {
			p.o.Log.WarnContext(r.Context(), "the session before this login could not be ended", "err", err)
		}
		dropKey(w, r, secure)
		p.setSession(w, secure, text, lasts)
		see(w, next)
	}
}

// postLogout ends the session.
func (p *Pages) postLogout(w http.ResponseWriter, r *http.Request) {
	secure := r.TLS != nil || p.who(r).Secure
	err := p.endSession(r)
	dropKey(w, r, secure)
	p.setSession(w, secure, "", 0)
	if err != nil {
		p.o.Log.WarnContext(r.Context(), "a session could not be ended", "err", err)
		p.back(w, "/", nil, "", say("logout_half", ""))
		return
	}
	see(w, "/")
}

// fitsCookie says whether a key could be stored in a cookie unchanged. Every key that tierq made can.
func fitsCookie(key string) bool {
	for i := range len(key) {
		if c := key[i]; (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '_' && c != '-' {
			return false
		}
	}
	return len(key) <= mostKey
}

// ownPath returns a path of this server, with its query, or "/" for anything that might lead elsewhere: browsers
// treat a backslash as a slash, and ignore tabs and line ends.
func ownPath(next string) string {
	path, _, _ := strings.Cut(next, "?")
	if len(next) > 2000 || !strings.HasPrefix(path, "/") || strings.Contains(path, "//") ||
		strings.ContainsAny(path, `\#`) {
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
