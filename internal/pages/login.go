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

// Sessions are the logins of browsers: pages begin and end them, and the API looks them up.
type Sessions interface {
	// Begin makes a session of the key with this text and returns what the browser shows, and for how long.
	// job.ErrUnauthorized: the key opens nothing; job.ErrUnavailable: nobody can say now.
	Begin(ctx context.Context, key string) (text string, lasts time.Duration, err error)
	// End ends the session with this text. After job.ErrUnavailable it may go on.
	End(ctx context.Context, text string) error
	// CookieName is the name of the cookie that holds a session, over TLS or not.
	CookieName(secure bool) string
}

// keyCookie is the cookie in which versions before sessions kept the key itself. A login and a logout take it away.
const keyCookie = "tierq_key"

const mostKey = 128 // longer than any key

// setSession keeps a session where no script reads it and no other site's page sends it; "" takes it away.
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

// sessionsOf are the sessions that a browser shows: one, or none.
func (p *Pages) sessionsOf(r *http.Request) []*http.Cookie {
	return append(r.CookiesNamed(p.o.Sessions.CookieName(true)), r.CookiesNamed(p.o.Sessions.CookieName(false))...)
}

// endSession ends what the browser shows. After an error it may go on in the store.
func (p *Pages) endSession(r *http.Request) error {
	var problems []error
	for _, c := range p.sessionsOf(r) {
		problems = append(problems, p.o.Sessions.End(r.Context(), c.Value))
	}
	return errors.Join(problems...)
}

// dropKey takes the cookie of an earlier version away.
func dropKey(w http.ResponseWriter, r *http.Request, secure bool) {
	if len(r.CookiesNamed(keyCookie)) > 0 {
		setCookie(w, keyCookie, secure, "", 0)
	}
}

// getLogin is /login: the form. Where nobody needs a key, there is nothing to do. Who followed another site's link
// comes without the cookie he may well have: the page is loaded once more, by itself and so with the cookie, and leads
// on to where he wished to go.
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
		p.begin(w, r, key, next, me.Secure || r.TLS != nil)
	case err == nil || refusedWith(err, http.StatusUnauthorized):
		if p.who(r).Open { // a server without keys refuses every key, or takes it for none
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
			trouble += " It makes sense again in " + s + " s."
		}
		p.showLogin(w, r, e.Status, next, trouble)
	}
}

const wrongKey = "That key opens nothing here: it is wrong, has expired or was revoked."

// begin gives the browser a session of a key that the API has just taken, in place of the one that it may have.
func (p *Pages) begin(w http.ResponseWriter, r *http.Request, key, next string, secure bool) {
	text, lasts, err := p.o.Sessions.Begin(r.Context(), key)
	switch {
	case errors.Is(err, job.ErrUnauthorized):
		p.showLogin(w, r, http.StatusUnauthorized, next, wrongKey)
	case err != nil:
		p.o.Log.WarnContext(r.Context(), "no session was begun", "err", err)
		p.showLogin(
			w, r, http.StatusServiceUnavailable, next,
			"The key is right, but no session can be kept now: Redis does not answer, or is full.",
		)
	default:
		if err := p.endSession(r); err != nil {
			p.o.Log.WarnContext(r.Context(), "the session before this login was not ended", "err", err)
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
		p.o.Log.WarnContext(r.Context(), "a session was not ended", "err", err)
		p.back(w, "/", nil, "", say("logout_half", ""))
		return
	}
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

// ownPath is a path of this server to go to, with its query, "/" for whatever might lead elsewhere: browsers take a
// backslash for a slash, and pass over tabs and line ends.
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
