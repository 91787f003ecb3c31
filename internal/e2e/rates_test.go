package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// polls asks for a job that nobody has, n times, by turns of several servers, and counts what was not refused for its rate. header says what the
// n-th request carries beside.
func polls(t *testing.T, n int, header func(i int) []string, servers ...*server) (passed int) {
	t.Helper()
	for i := range n {
		a := do(t, http.MethodGet, servers[i%len(servers)].base+"/result/poll?jobId=019de340-01fe-7a58-be69-567cd7d6b700", "", header(i)...)
		switch a.status {
		case http.StatusNotFound:
			passed++
		case http.StatusTooManyRequests:
			if a.header.Get("Retry-After") == "" {
				t.Errorf("429 without Retry-After: %v", a.header)
			}
		default:
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	return passed
}

// alone says whether one of them had to count by itself for a while: on a busy machine Redis may take too long to answer.
func alone(servers ...*server) bool {
	for _, s := range servers {
		if strings.Contains(s.Output(), "this process counts for itself") {
			return true
		}
	}
	return false
}

// A key's rate is one for all processes, and for all addresses that it is used from; an address' rate is one for all that it asks, whatever it
// says of itself.
func TestRates_A06_A31_A42_S1_P11_S2_P14(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	env := []string{"TIERQ_ROLES=api", "TIERQ_ANONYMOUS_RATE=1"}
	a, b := c.start(append(env, "TIERQ_TRUSTED_PROXIES=127.0.0.1/32")...), c.start(append(env, "TIERQ_TRUSTED_PROXIES=127.0.0.0/8")...)
	direct := c.start(env...)
	boss := a.makeKey("", http.MethodPost, "/admin/keys", adminKey)
	ci := a.makeKey(boss.Key, http.MethodPost, "/admin/keys", `{"name":"ci","role":"submit","rate":0.001,"burst":20}`)
	other := a.makeKey(boss.Key, http.MethodPost, "/admin/keys", `{"name":"other","role":"submit","rate":0.001,"burst":20}`)
	soon(t, boss.Key, http.StatusOK, a, b, direct)
	soon(t, "", http.StatusUnauthorized, b, direct)

	from := func(i int) string { return fmt.Sprintf("198.51.%d.%d", i/250, i%250+1) }
	if n := polls(t, 23, func(i int) []string { return []string{"Authorization", "Bearer " + ci.Key, "X-Forwarded-For", from(i)} }, a, b); n != 20 && !alone(a, b) {
		t.Errorf("of one key, from many addresses, over two processes %d passed, not 20", n)
	}
	if n := polls(t, 3, func(int) []string { return []string{"Authorization", "Bearer " + other.Key} }, a, b); n != 3 {
		t.Errorf("of another key %d of 3 passed", n)
	}

	// Behind a trusted proxy each client is one.
	if n := polls(t, 10, func(i int) []string { return []string{"X-Forwarded-For", "203.0.113.1, " + from(i)} }, a, b); n != 10 {
		t.Errorf("of ten clients behind a proxy %d passed", n)
	}
	spoof := func(i int) []string {
		return []string{"X-Forwarded-For", from(i), "X-Real-IP", from(i), "Forwarded", "for=" + from(i), "True-Client-IP", from(i)}
	}
	// Whoever is none may say what he likes: he is one, and what he may ask at once is soon spent.
	tries := 0
	for polls(t, 1, spoof, direct) == 1 {
		if tries++; tries > 1000 {
			t.Fatal("1000 requests of one address passed at one a second")
		}
	}
	// The same behind the proxy, for the addresses that a client makes up before his own.
	tries = 0
	for polls(t, 1, func(int) []string { return []string{"X-Forwarded-For", from(tries) + ", 203.0.113.9"} }, a) == 1 {
		if tries++; tries > 1000 {
			t.Fatal("1000 requests of one address behind a proxy passed at one a second")
		}
	}
}
