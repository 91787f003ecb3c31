package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// polls polls a job that does not exist n times, on several servers in turn, and counts the requests that the rate
// did not refuse. header returns the headers of the i-th request.
func polls(t *testing.T, n int, header func(i int) []string, servers ...*server) (passed int) {
	t.Helper()
	for i := range n {
		a := do(t, http.MethodGet, servers[i%len(servers)].base+"/result/poll?jobId=019de340-01fe-7a58-be69-567cd7d6b700", "",
			header(i)...)
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

// alone reports whether one of the servers had to count by itself for a while: on a busy machine Redis may be too
// slow.
func alone(servers ...*server) bool {
	for _, s := range servers {
		if strings.Contains(s.Output(), "this process counts for itself") {
			return true
		}
	}
	return false
}

// A key has one rate for all processes, and for all addresses that use it. An address has one rate for all its
// requests, whatever its headers claim.
func TestRates(t *testing.T) {
	t.Attr("proves", "A06 A31 A42 S1-P11 S2-P14")
	t.Parallel()
	c := newCluster(t)
	env := []string{"TIERQ_ROLES=api", "TIERQ_ANONYMOUS_RATE=1", "TIERQ_ANONYMOUS_TOTAL=1000000"}
	a, b := c.start(append(env, "TIERQ_TRUSTED_PROXIES=127.0.0.1/32")...),
		c.start(append(env, "TIERQ_TRUSTED_PROXIES=127.0.0.0/8")...)
	direct := c.start(env...)
	boss := a.makeKey("", http.MethodPost, "/admin/keys", adminKey)
	ci := a.makeKey(boss.Key, http.MethodPost, "/admin/keys", `{"name":"ci","role":"submit","rate":0.001,"burst":20}`)
	other := a.makeKey(boss.Key, http.MethodPost, "/admin/keys",
		`{"name":"other","role":"submit","rate":0.001,"burst":20}`)
	soon(t, boss.Key, http.StatusOK, a, b, direct)
	soon(t, "", http.StatusUnauthorized, b, direct)

	from := func(i int) string { return fmt.Sprintf("198.51.%d.%d", i/250, i%250+1) }
	if n := polls(t, 23, func(i int) []string {
		return []string{"Authorization", "Bearer " + ci.Key, "X-Forwarded-For",
			from(i)}
	}, a, b); n != 20 && !alone(a, b) {
		t.Errorf("of one key, from many addresses, over two processes %d passed, not 20", n)
	}
	if n := polls(t, 3, func(int) []string { return []string{"Authorization", "Bearer " + other.Key} }, a, b); n != 3 {
		t.Errorf("of another key %d of 3 passed", n)
	}

	// Behind a trusted proxy each client has a rate of its own.
	if n := polls(t, 10, func(i int) []string { return []string{"X-Forwarded-For", "203.0.113.1, " + from(i)} }, a,
		b); n != 10 {
		t.Errorf("of ten clients behind a proxy %d passed", n)
	}
	spoof := func(i int) []string {
		return []string{"X-Forwarded-For", from(i), "X-Real-IP", from(i), "Forwarded", "for=" + from(i), "True-Client-IP",
			from(i)}
	}
	// A client that is not a trusted proxy cannot change its address by headers, so its rate is soon spent.
	tries := 0
	for polls(t, 1, spoof, direct) == 1 {
		if tries++; tries > 1000 {
			t.Fatal("1000 requests of one address passed at one a second")
		}
	}
	// The same holds behind the proxy, for invented addresses before the client's own.
	tries = 0
	for polls(t, 1, func(int) []string { return []string{"X-Forwarded-For", from(tries) + ", 203.0.113.9"} }, a) == 1 {
		if tries++; tries > 1000 {
			t.Fatal("1000 requests of one address behind a proxy passed at one a second")
		}
	}
}

// An address has one rate for all keys that are used from it, and an entry of a batch counts as a request. Another
// address behind the same proxy has a rate of its own.
func TestRates_OfAnAddress(t *testing.T) {
	t.Attr("proves", "A31")
	t.Parallel()
	const rate = 5 // also the number of requests at once
	s := newCluster(t).start("TIERQ_ADDRESS_RATE=5", "TIERQ_TRUSTED_PROXIES=127.0.0.1/32", "TIERQ_ROLES=api")
	from := func(address, key string) []string {
		return []string{"X-Forwarded-For", address, "Authorization", "Bearer " + key}
	}
	boss := s.makeKey("", http.MethodPost, "/admin/keys", adminKey)
	var keys []string
	for _, name := range []string{"one", "two"} {
		a := do(t, http.MethodPost, s.base+"/admin/keys", `{"name":"`+name+`","role":"submit"}`,
			from("198.51.100.1", boss.Key)...)
		_, key, _ := strings.Cut(string(a.body), `"key":"`)
		key, _, _ = strings.Cut(key, `"`)
		if a.status != http.StatusCreated || key == "" {
			t.Fatalf("%d %s", a.status, a.body)
		}
		keys = append(keys, key)
	}

	// within checks that no more requests passed than the burst and the rate since began allow.
	within := func(what string, passed int, began time.Time) {
		t.Helper()
		most := rate + int(rate*time.Since(began).Seconds()) + 1
		if alone(s) {
			most *= 2
		}
		if passed > most {
			t.Errorf("%s: %d passed, where %d may", what, passed, most)
		}
	}
	testkit.Eventually(t, 30*time.Second, "two keys from one address are refused", func() (bool, string) {
		var group sync.WaitGroup
		var mu sync.Mutex
		passed, began := 0, time.Now()
		for i := range 40 {
			group.Go(func() {
				n := polls(t, 1, func(int) []string { return from("203.0.113.7", keys[i%2]) }, s)
				mu.Lock()
				defer mu.Unlock()
				passed += n
			})
		}
		group.Wait()
		within("two keys by turns", passed, began)
		return passed < 40, fmt.Sprint(passed)
	})
	if n := polls(t, 2, func(i int) []string { return from("203.0.113.8", keys[i]) }, s); n != 2 {
		t.Errorf("from another address %d of 2 passed", n)
	}

	batch := func(address string, n int) answer {
		return do(t, http.MethodPost, s.base+"/paid/submit/batch",
			"["+strings.Repeat(`{"delaySeconds":600},`, n-1)+`{"delaySeconds":600}]`, from(address, keys[0])...)
	}
	// The batch is larger than an address' burst.
	wants(t, batch("203.0.113.9", 20), http.StatusRequestEntityTooLarge, "PAYLOAD_TOO_LARGE")
	entries, began := 0, time.Now()
	for range 10 {
		switch a := batch("203.0.113.10", rate); a.status {
		case http.StatusAccepted:
			entries += rate
		case http.StatusTooManyRequests:
			if a.header.Get("Retry-After") == "" {
				t.Errorf("429 without Retry-After: %v", a.header)
			}
		default:
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	if entries == 0 {
		t.Error("no batch passed")
	}
	within("entries of batches", entries, began)
}
