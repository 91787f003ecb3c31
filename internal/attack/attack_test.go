package attack

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tierq/tierq/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testkit.Main(m)) }

// A server with its stores holds every attack that can be tried over a network. Each attack is a subtest named by
// its id.
func TestAttacks(t *testing.T) {
	testkit.Calm(t)
	target, stop, err := Own(t.Context())
	defer stop()
	if err != nil {
		t.Fatal(err)
	}
	defer target.client.CloseIdleConnections()
	target.patience = 30 * time.Second // other tests run beside it

	all := target.Sweep(context.WithoutCancel(t.Context()), func(Attack) bool { return true }, func(Attack) {})
	for _, r := range all {
		t.Run(r.ID, func(t *testing.T) {
			if r.Verdict != Held && (r.Verdict != Absent || r.try != nil) {
				t.Errorf("%s: sent %s; came back %s; %s", r.Verdict, r.Sent, r.Back, r.Why)
			}
		})
	}
	var table strings.Builder
	Table(&table, all)
	t.Log("\n" + table.String())
}

// Every attack is listed once, and is a row of docs/proof/ATTACKS.md.
func TestEveryAttackIsThere(t *testing.T) {
	t.Attr("proves", "A01 A64")
	page, err := os.ReadFile("../../docs/proof/ATTACKS.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{} // the page's points: "- **A01**: ..." and the indented lines below it
	for _, point := range strings.Split(string(page), "\n- **")[1:] {
		id, text, _ := strings.Cut(point, "**: ")
		rows[id], _, _ = strings.Cut(text, "\n\n")
	}
	seen := map[string]bool{}
	for _, a := range All() {
		if seen[a.ID] || a.What == "" || (a.try == nil) == (a.why == "") {
			t.Errorf("%s: %+v", a.ID, a)
		}
		seen[a.ID] = true
		// An attack that is not tried here names the test that tries it. The attack's row names that test too.
		tests := regexp.MustCompile(`[^,\s]+`).FindAllString(rows[a.ID], -1)
		if test := regexp.MustCompile(`Test\w+`).FindString(a.why); a.try == nil &&
			(test == "" || !slices.Contains(tests, test)) {
			t.Errorf("%s is tried by %q, which is not in its row", a.ID, test)
		}
	}
	for n := range 68 {
		id := fmt.Sprintf("A%02d", n+1)
		if !seen[id] {
			t.Errorf("%s is not here", id)
		}
		if rows[id] == "" {
			t.Errorf("%s is not in docs/proof/ATTACKS.md", id)
		}
	}
	if len(seen) != 68 {
		t.Errorf("%d attacks", len(seen))
	}
}

// Aim refuses every server that is not on a loopback address.
func TestAim_LoopbackOnly(t *testing.T) {
	for _, url := range []string{"http://192.0.2.1:8080", "http://example.org", "https://127.0.0.1",
		"http://127.0.0.1.example.org",
		"http://user@192.0.2.1", "", "x", "http://localhost.example.org/"} {
		if _, err := Aim(t.Context(), url, "tq_x"); err == nil {
			t.Errorf("%q was taken", url)
		}
	}
}

// A trial in which another answer than those wanted comes back is broken, and its result says which answer.
func TestTrial_SaysWhatIsBroken(t *testing.T) {
	x := &trial{}
	x.want("a", answer{status: 404, body: []byte(`{"errorCode":"JOB_NOT_FOUND"}`), bare: true}, "404 JOB_NOT_FOUND")
	if r := x.result(); r.Verdict != Held || r.Back != "1 x 404 JOB_NOT_FOUND" {
		t.Errorf("%+v", r)
	}
	x.want("b", answer{status: 200}, "404")
	x.want("c", answer{status: 500, body: []byte("panic: goroutine 7 [running]")}, "500")
	r := x.result()
	if r.Verdict != Broken || r.Sent != "a and 2 more" || !strings.Contains(r.Why, "b: 200, want 404") ||
		!strings.Contains(r.Why, "says goroutine 7") {
		t.Errorf("%+v", r)
	}
	var table strings.Builder
	r.Attack = All()[0]
	if Table(&table, []Result{r}) != 1 || !strings.Contains(table.String(), "0 held, 1 broken, 0 not here") {
		t.Error(table.String())
	}
}

// A server that asks honest callers to come again is serving if it does so once and for a short time, and
// otherwise not.
func TestServed_NotWhileItIsUnwell(t *testing.T) {
	t.Parallel()
	var asked, well atomic.Int64 // well is the first request that the server accepts
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) >= well.Load() {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"errorCode":"SYSTEM_UNHEALTHY"}`)
	}))
	defer server.Close()
	target := &Target{host: strings.TrimPrefix(server.URL, "http://"), client: newClient(), patience: time.Second}
	defer target.client.CloseIdleConnections()
	for from, want := range map[int64]Verdict{3: Held, 20: Broken} {
		well.Store(from)
		asked.Store(0)
		x := &trial{target: target}
		x.served(t.Context())
		if r := x.result(); r.Verdict != want {
			t.Errorf("well from request %d on: %+v", from, r)
		}
	}
}
