package e2e

import (
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/testkit"
)

// browser keeps cookies as browsers do: by host, for all ports. It follows no redirect.
type browser struct {
	t *testing.T
	http.Client
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	b := &browser{t: t}
	b.Jar, b.Timeout = jar, 10*time.Second
	b.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return b
}

// sends posts a form as the page with that form would.
func (b *browser) sends(s *server, path string, form url.Values) answer {
	b.t.Helper()
	a, err := tryOn(&b.Client, http.MethodPost, s.base+path, form.Encode(),
		"Content-Type", "application/x-www-form-urlencoded", "Origin", s.base)
	if err != nil {
		b.t.Fatal(err)
	}
	return a
}

func (b *browser) opens(s *server, path string) answer {
	b.t.Helper()
	a, err := tryOn(&b.Client, http.MethodGet, s.base+path, "")
	if err != nil {
		b.t.Fatal(err)
	}
	return a
}

// logsIn gives the browser a session of the key, and returns the cookies of the login.
func (b *browser) logsIn(s *server, key string) []*http.Cookie {
	b.t.Helper()
	a := b.sends(s, "/login", url.Values{"key": {key}, "next": {"/dashboard"}})
	if a.status != http.StatusSeeOther || a.header.Get("Location") != "/dashboard" {
		b.t.Fatalf("the login: %d %s", a.status, a.body)
	}
	return (&http.Response{Header: a.header}).Cookies()
}

// is waits until the server names the owner of the browser's session; "" = no session: the browser is sent to the
// login.
func (b *browser) is(s *server, name string) {
	b.t.Helper()
	testkit.Eventually(b.t, 10*time.Second, fmt.Sprintf("the browser is %q at %s", name, s.base), func() (bool, string) {
		page := b.opens(s, "/dashboard")
		if led := page.header.Get("Location"); name == "" {
			return page.status == http.StatusSeeOther && strings.HasPrefix(led, "/login"), fmt.Sprint(page.status, led)
		}
		return page.status == http.StatusOK && strings.Contains(string(page.body), name), fmt.Sprint(page.status, page.header)
	})
}

// A browser gets a session and never its key. The session ends on all servers by logout, by revocation of the key,
// and when Redis loses its data.
func TestSessions(t *testing.T) {
	t.Attr("proves", "A05")
	t.Parallel()
	c := newCluster(t)
	_, text := run(t, c.bin, nil, "keys", "generate")
	root := strings.TrimSpace(text)
	a, b := c.start("TIERQ_ROLES=api", "TIERQ_ADMIN_KEY="+root), c.start("TIERQ_ROLES=api", "TIERQ_ADMIN_KEY="+root)
	ann := a.makeKey(root, http.MethodPost, "/admin/keys", `{"name":"ann-of-the-desk","role":"admin"}`)
	soon(t, ann.Key, http.StatusOK, a, b)
	const name = "ann-of-the-desk"

	annsBrowser := newBrowser(t)
	given := annsBrowser.logsIn(a, ann.Key)
	secret := ann.Key[len("tq_")+16+1:]
	for _, cookie := range given {
		if strings.Contains(cookie.Value, secret) {
			t.Errorf("the cookie %s holds the key: %s", cookie.Name, cookie.Value)
		}
	}
	annsBrowser.is(a, name)
	annsBrowser.is(b, name)
	for _, key := range c.rdb.Keys(t.Context(), "*session*").Val() {
		if n := c.rdb.ZCard(t.Context(), key).Val(); n != 1 || c.rdb.PTTL(t.Context(), key).Val() <= 0 {
			t.Errorf("%s has %d sessions, and %s to live", key, n, c.rdb.PTTL(t.Context(), key).Val())
		}
		for _, kept := range c.rdb.ZRange(t.Context(), key, 0, -1).Val() {
			for _, cookie := range given {
				if cookie.Value != "" && strings.Contains(cookie.Value, kept) {
					t.Errorf("Redis keeps what opens the door: %s", kept)
				}
			}
		}
	}

	// A second browser logs out. The first one's session stays valid.
	other := newBrowser(t)
	stolen := other.logsIn(b, ann.Key)
	other.is(a, name)
	other.sends(b, "/logout", url.Values{})
	other.is(a, "")
	for _, cookie := range stolen { // a copy of the cookie is no longer valid
		at, _ := url.Parse(a.base)
		other.Jar.SetCookies(at, []*http.Cookie{cookie})
	}
	other.is(b, "")
	other.is(a, "")
	annsBrowser.is(a, name)

	// Another server on this host does not accept this one's session, and a login there ends none.
	neighbour := startServer(t, c.bin, "TIERQ_ADDR=127.0.0.1:0", "TIERQ_DATA_DIR="+t.TempDir(), "TIERQ_ADMIN_KEY="+root)
	annsBrowser.is(neighbour, "")
	annsBrowser.logsIn(neighbour, root)
	annsBrowser.is(neighbour, "TIERQ_ADMIN_KEY")
	annsBrowser.is(a, name)

	// The number of a key's sessions is limited, and the oldest one is removed. The test adds 99 more, and one login.
	for n := range 99 {
		later := redis.Z{Score: float64(time.Now().Add(13 * time.Hour).UnixMilli()), Member: fmt.Sprint(n)}
		c.rdb.ZAdd(t.Context(), "{tierq}:sessions:"+ann.ID, later)
	}
	newBrowser(t).logsIn(a, ann.Key)
	for _, key := range c.rdb.Keys(t.Context(), "*session*").Val() {
		if n := c.rdb.ZCard(t.Context(), key).Val(); n != 100 {
			t.Errorf("%s has %d sessions", key, n)
		}
	}
	annsBrowser.is(a, "")

	// After a FLUSHALL the session's cookie has another name. A server learns it when it notices the loss.
	if err := c.rdb.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	a.waitFor("Redis has a new incarnation", 15*time.Second)
	b.waitFor("Redis has a new incarnation", 15*time.Second)
	annsBrowser.is(a, "")
	annsBrowser.logsIn(a, ann.Key)
	annsBrowser.is(b, name)

	a.asks(root, http.MethodDelete, "/admin/keys/"+ann.ID, "")
	annsBrowser.is(a, "")
	annsBrowser.is(b, "")
}

// An upgrade happens while keys and sessions are in use. A browser with an earlier version's cookie, which held
// the key, is asked to log in, without an error. Sessions survive the replacement of the processes one by one, and
// callers with keys are not affected.
func TestSessions_Upgrade(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	_, text := run(t, c.bin, nil, "keys", "generate")
	root := strings.TrimSpace(text)
	start := func() *server { return c.start("TIERQ_ROLES=api", "TIERQ_ADMIN_KEY="+root) }
	first, second := start(), start()
	at, err := url.Parse(first.base)
	if err != nil {
		t.Fatal(err)
	}
	b := newBrowser(t)
	b.Jar.SetCookies(at, []*http.Cookie{{Name: "tierq_key", Value: root, Path: "/", HttpOnly: true}})
	for _, path := range []string{"/dashboard", "/dashboard/jobs", "/dashboard/stream"} {
		a := b.opens(first, path)
		led, want := a.header.Get("Location"), http.StatusSeeOther
		if path == "/dashboard/stream" { // a script of a page requests it
			want = http.StatusUnauthorized
		}
		if a.status != want || want == http.StatusSeeOther && !strings.HasPrefix(led, "/login") {
			t.Errorf("%s: %d to %q: %s", path, a.status, led, a.body)
		}
	}
	for _, path := range []string{"/", "/login?next=%2Fdashboard", "/submit"} {
		if a := b.opens(first, path); a.status != http.StatusOK || !strings.Contains(string(a.body), "Log in") {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	b.logsIn(first, root)
	for _, cookie := range b.Jar.Cookies(at) {
		if cookie.Name == "tierq_key" {
			t.Error("the login left the key in the browser")
		}
	}
	const name = "TIERQ_ADMIN_KEY"
	b.is(second, name)
	for _, s := range []**server{&first, &second} {
		if code, _ := (*s).terminate(20 * time.Second); code != 0 {
			t.Errorf("exit %d", code)
		}
		*s = start()
		b.is(*s, name)
		if a := (*s).asks(root, http.MethodGet, "/admin/keys", ""); a.status != http.StatusOK {
			t.Errorf("with the key: %d %s", a.status, a.body)
		}
	}
	b.sends(second, "/logout", url.Values{})
	b.is(first, "")
}
