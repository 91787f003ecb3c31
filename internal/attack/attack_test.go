package attack

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tierq/tierq/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testkit.Main(m)) }

// Every attack that can be tried over a network, on a server with its stores: none gives way. Each is a subtest named by its id.
func TestAttacks(t *testing.T) {
	target, stop, err := Own(t.Context())
	defer stop()
	if err != nil {
		t.Fatal(err)
	}
	defer target.client.CloseIdleConnections()
	target.patience = 10 * time.Second // everything else is being tested beside it

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

// Every attack has one place here, and every place is an attack of docs/ATTACKS.md.
func TestEveryAttackIsThere_A01_A64(t *testing.T) {
	seen := map[string]bool{}
	for _, a := range All() {
		if seen[a.ID] || a.What == "" || (a.try == nil) == (a.why == "") {
			t.Errorf("%s: %+v", a.ID, a)
		}
		seen[a.ID] = true
	}
	page, err := os.ReadFile("../../docs/ATTACKS.md")
	if err != nil {
		t.Fatal(err)
	}
	for n := range 64 {
		id := fmt.Sprintf("A%02d", n+1)
		if !seen[id] {
			t.Errorf("%s is not here", id)
		}
		if !regexp.MustCompile(`(?m)^\| ` + id + ` \|`).Match(page) {
			t.Errorf("%s is not in docs/ATTACKS.md", id)
		}
	}
	if len(seen) != 64 {
		t.Errorf("%d attacks", len(seen))
	}
}

// Only this machine is attacked, and only what is asked for is printed.
func TestAim_LoopbackOnly(t *testing.T) {
	for _, url := range []string{"http://192.0.2.1:8080", "http://example.org", "https://127.0.0.1", "http://127.0.0.1.example.org",
		"http://user@192.0.2.1", "", "x", "http://localhost.example.org/"} {
		if _, err := Aim(t.Context(), url, "tq_x"); err == nil {
			t.Errorf("%q was taken", url)
		}
	}
}

// A trial in which something else comes back than was wanted is broken, and says what.
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
