package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// workerJob is a job as a worker gets it.
type workerJob struct {
	JobID, Type, Queue, Tier, Lease string
	Payload                         json.RawMessage
	Attempt, RetryCount             int
	EndsInMs                        int64
}

// claims makes a claim with a key ("" = none). The body has the members besides the worker's name.
func (s *server) claims(key, worker, members string) []workerJob {
	s.t.Helper()
	a := s.asks(key, http.MethodPost, "/api/worker/claim", fmt.Sprintf(`{"worker":%q,%s}`, worker, members))
	var r struct{ Jobs []workerJob }
	if err := json.Unmarshal(a.body, &r); err != nil || a.status != http.StatusOK {
		s.t.Fatalf("claim: %d %s", a.status, a.body)
	}
	return r.Jobs
}

// reports makes a call about one lease, and returns its outcome or its error code.
func (s *server) reports(key, verb, lease, members string) string {
	s.t.Helper()
	a := s.asks(key, http.MethodPost, "/api/worker/"+verb, fmt.Sprintf(`{"lease":%q%s}`, lease, members))
	var r struct{ Outcome, ErrorCode string }
	if err := json.Unmarshal(a.body, &r); err != nil {
		s.t.Fatalf("%s: %d %s", verb, a.status, a.body)
	}
	return r.Outcome + r.ErrorCode
}

// Workers of other programs run jobs of types that no server knows: each job has one outcome, the better tier goes
// first, and any process takes any call. A worker that is silent past its lease changes nothing any more.
func TestWorkersElsewhere(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	a := c.start("TIERQ_ROLES=api")
	b := c.start("TIERQ_ROLES=api")
	d := c.start("TIERQ_ROLES=api,worker,recovery")
	all := []*server{a, b, d}
	if got := a.ask("paid", `{"type":"RESIZE"}`); got.status != 422 || got.code() != "UNKNOWN_JOB_TYPE" {
		t.Errorf("a type that nobody knows: %d %s", got.status, got.body)
	}
	a.changes(http.MethodPut, "/admin/queues/pictures", `{"types":["RESIZE"],"maxProcessingSeconds":600}`, 200)
	for _, s := range all { // they read the queues once a second
		testkit.Eventually(t, 20*time.Second, "the queue is known", func() (bool, string) {
			got := do(t, http.MethodGet, s.base+"/admin/queues/pictures", "")
			return got.status == 200, string(got.body)
		})
	}
	public := a.submit("public", `{"type":"RESIZE","payload":{"width":1}}`)
	paid := b.submit("paid", `{"type":"RESIZE","payload":{"width":2}}`)
	first := a.claims("", "w1", `"queues":["pictures"]`)
	if len(first) != 1 || first[0].JobID != paid || first[0].Type != "RESIZE" || first[0].Queue != "pictures" ||
		string(first[0].Payload) != `{"width":2}` || first[0].EndsInMs > 600_000 || first[0].EndsInMs < 500_000 {
		t.Fatalf("the first claim got %+v", first)
	}
	if got := b.reports("", "complete", first[0].Lease, `,"result":{"width":4}`); got != "COMPLETED" {
		t.Errorf("completed at another process: %s", got)
	}
	if got := d.reports("", "complete", first[0].Lease, `,"result":{"width":4}`); got != "COMPLETED" {
		t.Errorf("the same report again: %s", got)
	}
	if p := d.await(paid, "COMPLETED", 20*time.Second); string(p.Result) != `{"width":4}` {
		t.Errorf("its result is %s", p.Result)
	}

	// The worker of this one is silent: the watch takes the job back, and a retry is spent.
	silent := b.claims("", "w2", `"queues":["pictures"],"leaseSeconds":5`)
	if len(silent) != 1 || silent[0].JobID != public {
		t.Fatalf("the second claim got %+v", silent)
	}
	var next []workerJob
	testkit.Eventually(t, 60*time.Second, "the job is taken back", func() (bool, string) {
		next = a.claims("", "w3", `"queues":["pictures"],"wait":"5s"`)
		return len(next) == 1, ""
	})
	if next[0].JobID != public || next[0].Attempt != 2 || next[0].RetryCount != 1 {
		t.Errorf("the third claim got %+v", next)
	}
	for _, s := range all {
		for verb, members := range map[string]string{"complete": `,"result":1`, "fail": "", "release": ""} {
			if got := s.reports("", verb, silent[0].Lease, members); got != "LEASE_LOST" {
				t.Errorf("the silent worker's %s: %s", verb, got)
			}
		}
	}
	edited := next[0].Lease[:30] + string(next[0].Lease[30]^1) + next[0].Lease[31:]
	if got := a.reports("", "complete", edited, ""); got != "LEASE_LOST" && got != "INVALID_REQUEST" {
		t.Errorf("an edited lease: %s", got)
	}
	if got := d.reports("", "complete", next[0].Lease, ""); got != "COMPLETED" {
		t.Errorf("the third worker: %s", got)
	}
	c.quiet(20 * time.Second)
}

// A claim that is repeated with its id gets the same jobs; a worker that was cut off gets none, and its job is with the
// next one at once, at no cost.
func TestWorkersElsewhere_Repeats(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	a, b := c.start("TIERQ_ROLES=api,recovery"), c.start("TIERQ_ROLES=api")
	for _, s := range []*server{a, b} { // an open server: a claim declares its queue
		if got := s.claims("", "w", `"queues":["pictures"]`); len(got) != 0 {
			t.Fatalf("%+v", got)
		}
	}
	submit := func() string { return a.submit("paid", `{"type":"RESIZE","queue":"pictures"}`) }
	id := submit()
	first := a.claims("", "w1", `"queues":["pictures"],"claimId":"one"`)
	again := b.claims("", "w1", `"queues":["pictures"],"claimId":"one"`)
	if len(first) != 1 || len(again) != 1 || first[0].JobID != id || again[0].JobID != id || again[0].Attempt != 1 {
		t.Fatalf("first %+v, again %+v", first, again)
	}
	if got := b.reports("", "complete", first[0].Lease, ""); got != "LEASE_LOST" {
		t.Errorf("the first answer's lease: %s", got)
	}
	if got := a.reports("", "complete", again[0].Lease, ""); got != "COMPLETED" {
		t.Errorf("the second answer's lease: %s", got)
	}

	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.base+"/api/worker/claim",
		strings.NewReader(`{"worker":"gone","queues":["pictures"],"wait":"60s"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	cut := make(chan struct{})
	go func() {
		defer close(cut)
		if resp, err := http.DefaultClient.Do(req); err == nil {
			_ = resp.Body.Close()
		}
	}()
	<-time.After(500 * time.Millisecond) // it waits by then; if not, it finds no job either
	cancel()
	<-cut
	id = submit()
	got := b.claims("", "next", `"queues":["pictures"],"wait":"10s"`)
	if len(got) != 1 || got[0].JobID != id || got[0].RetryCount != 0 {
		t.Fatalf("the next worker got %+v", got)
	}
	if got := b.reports("", "complete", got[0].Lease, ""); got != "COMPLETED" {
		t.Error(got)
	}
	c.quiet(20 * time.Second)
}

// On a server with keys only a worker's key claims, and a lease is its key's alone.
func TestWorkersElsewhere_Keys(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	s := c.start("TIERQ_ROLES=api,recovery")
	s.changes(http.MethodPut, "/admin/queues/pictures", "", 200)
	boss := s.makeKey("", http.MethodPost, "/admin/keys", adminKey)
	key := func(name, role string) string {
		return s.makeKey(boss.Key, http.MethodPost, "/admin/keys", fmt.Sprintf(`{"name":%q,"role":%q}`, name, role)).Key
	}
	one, two, ci := key("one", "worker"), key("two", "worker"), key("ci", "submit")
	claims := func(key, queue string) answer {
		return s.asks(key, http.MethodPost, "/api/worker/claim", fmt.Sprintf(`{"worker":"w","queues":[%q]}`, queue))
	}
	wants(t, claims("", "pictures"), 401, "UNAUTHORIZED")
	wants(t, claims(ci, "pictures"), 403, "FORBIDDEN")
	wants(t, claims(one, "films"), 404, "UNKNOWN_QUEUE")
	wants(t, s.asks(one, http.MethodGet, "/api/jobs", ""), 403, "FORBIDDEN")
	a := s.asks(ci, http.MethodPost, "/paid/submit", `{"type":"RESIZE","queue":"pictures"}`)
	if a.status != http.StatusAccepted {
		t.Fatalf("%d %s", a.status, a.body)
	}
	got := s.claims(one, "w", `"queues":["pictures"],"claimId":"c"`)
	if len(got) != 1 {
		t.Fatalf("%+v", got)
	}
	if jobs := s.claims(two, "w", `"queues":["pictures"],"claimId":"c"`); len(jobs) != 0 {
		t.Errorf("another key's claim of the same names got %+v", jobs)
	}
	if word := s.reports(two, "complete", got[0].Lease, ""); word != "LEASE_LOST" {
		t.Errorf("another key's report: %s", word)
	}
	beat := s.asks(two, http.MethodPost, "/api/worker/heartbeat", fmt.Sprintf(`{"leases":[{"lease":%q}]}`, got[0].Lease))
	if !bytes.Contains(beat.body, []byte(`"word":"LOST"`)) {
		t.Errorf("another key's heartbeat: %s", beat.body)
	}
	beat = s.asks(one, http.MethodPost, "/api/worker/heartbeat",
		fmt.Sprintf(`{"leases":[{"lease":%q,"save":1,"checkpoint":{"page":1}}]}`, got[0].Lease))
	if !bytes.Contains(beat.body, []byte(`"word":"OK"`)) {
		t.Errorf("its own heartbeat: %s", beat.body)
	}
	if word := s.reports(one, "release", got[0].Lease, ""); word != "RELEASED" {
		t.Errorf("its own report: %s", word)
	}
	a = claims(one, "pictures")
	if !bytes.Contains(a.body, []byte(`"checkpoint":{"page":1}`)) {
		t.Errorf("the next attempt has no checkpoint: %s", a.body)
	}
}

// A worker's key that names a queue declares it by its first claim, at any process, and claims of no other queue. A key
// that is bound to a tier gets jobs of this tier only, even if a better one waits.
func TestWorkersElsewhere_BoundKeys(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	s := c.start("TIERQ_ROLES=api,recovery")
	boss := s.makeKey("", http.MethodPost, "/admin/keys", adminKey)
	other := c.start("TIERQ_ROLES=api")
	key := func(members string) string {
		return s.makeKey(boss.Key, http.MethodPost, "/admin/keys", `{"name":"k",`+members+`}`).Key
	}
	films := key(`"role":"worker","queues":["films"]`)
	public := key(`"role":"worker","queues":["films"],"tiers":["PUBLIC"]`)
	free := key(`"role":"worker"`)
	ci := key(`"role":"submit"`)
	claims := func(s *server, key, members string) answer {
		return s.asks(key, http.MethodPost, "/api/worker/claim", `{"worker":"w",`+members+`}`)
	}
	wants(t, claims(s, free, `"queues":["films"]`), 404, "UNKNOWN_QUEUE")
	wants(t, claims(s, films, `"queues":["main"]`), 403, "FORBIDDEN")
	wants(t, claims(s, films, `"queues":["films","main"]`), 403, "FORBIDDEN")
	wants(t, s.asks(boss.Key, http.MethodGet, "/admin/queues/films", ""), 404, "UNKNOWN_QUEUE") // a refusal declares none
	wants(t, s.asks(boss.Key, http.MethodPost, "/admin/keys", `{"name":"x","role":"submit","queues":["films"]}`), 400,
		"INVALID_REQUEST")
	testkit.Eventually(t, 20*time.Second, "the other process knows the key, whose claim declares the queue", func() (bool,
		string) {
		a := claims(other, films, `"queues":["films"]`)
		return a.status == http.StatusOK, string(a.body)
	})
	testkit.Eventually(t, 20*time.Second, "every process knows the queue", func() (bool, string) {
		a := s.asks(boss.Key, http.MethodGet, "/admin/queues/films", "")
		return a.status == http.StatusOK, string(a.body)
	})
	submit := func(tier string) string {
		return accepted(t, s.asks(ci, http.MethodPost, "/"+tier+"/submit", `{"type":"RESIZE","queue":"films"}`))
	}
	paid, last := submit("paid"), submit("public")
	wants(t, claims(s, public, `"queues":["films"],"tiers":["PAID"]`), 403, "FORBIDDEN")
	if got := s.claims(public, "w", `"queues":["films"],"max":5`); len(got) != 1 || got[0].JobID != last {
		t.Errorf("the key of one tier got %+v", got)
	}
	if got := s.claims(films, "w", `"queues":["films"],"max":5`); len(got) != 1 || got[0].JobID != paid {
		t.Errorf("the key of all tiers got %+v", got)
	}
	testkit.Eventually(t, 20*time.Second, "the log of changes has the declaration", func() (bool, string) {
		a := s.asks(boss.Key, http.MethodGet, "/admin/audit", "")
		return bytes.Contains(a.body, []byte(`"action":"queue.put","target":"films"`)), string(a.body)
	})
}

// An embedded server is killed while external workers hold jobs. No job is lost, and the kill costs no retry.
func TestWorkersElsewhere_EmbeddedKill(t *testing.T) {
	t.Parallel()
	bin, dir := testkit.BuildTierq(t, "failpoint"), t.TempDir()
	start := func() *server { return startServer(t, bin, "TIERQ_ADDR=127.0.0.1:0", "TIERQ_DATA_DIR="+dir) }
	s := start()
	s.changes(http.MethodPut, "/admin/queues/pictures", "", 200)
	var ids []string
	for range 3 {
		ids = append(ids, s.submit("paid", `{"type":"RESIZE","queue":"pictures"}`))
	}
	held := s.claims("", "w", `"queues":["pictures"],"max":2`)
	if len(held) != 2 {
		t.Fatalf("%+v", held)
	}
	if got := s.reports("", "complete", held[0].Lease, ""); got != "COMPLETED" {
		t.Fatal(got)
	}
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	s = start()
	attempts := map[string]int{}
	testkit.Eventually(t, 60*time.Second, "the other jobs are claimed again", func() (bool, string) {
		for _, j := range s.claims("", "w", `"queues":["pictures"],"max":5,"wait":"2s"`) {
			attempts[j.JobID] = j.Attempt
			if got := s.reports("", "complete", j.Lease, ""); got != "COMPLETED" {
				t.Errorf("%s: %s", j.JobID, got)
			}
		}
		return len(attempts) == 2, fmt.Sprint(attempts)
	})
	if attempts[held[1].JobID] != 2 || attempts[ids[2]] != 1 {
		t.Errorf("attempts %v; held were %+v", attempts, held)
	}
	for _, id := range ids {
		if p := s.await(id, "COMPLETED", 20*time.Second); p.RetryCount != 0 {
			t.Errorf("%s has %d retries", id, p.RetryCount)
		}
	}
}

// fences are the words behind the marks that begin a program in a page.
var fences = map[string]string{"go": "go", "python": "python", "node": "js"}

// The workers of docs/WORKERS.md run as they are written there.
func TestWorkersElsewhere_AsDocumented(t *testing.T) {
	t.Parallel()
	for language, cause := range map[string]string{
		"go": "PERMANENT_ERROR", "python": "HANDLER_ERROR", "node": "HANDLER_ERROR",
	} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			runsAsDocumented(t, language, fenced(t, "../../docs/WORKERS.md", fences[language]), cause)
		})
	}
}

// runsAsDocumented runs a worker that doubles the width of pictures. cause is that of a payload of another form.
func runsAsDocumented(t *testing.T, language, text, cause string) {
	p := workerOf(t, language, text)
	c := newCluster(t)
	s := c.start("TIERQ_ROLES=api,recovery")
	program := p.start(t, s)
	testkit.Eventually(t, 30*time.Second, "its first claim declares the queue", func() (bool, string) {
		return do(t, http.MethodGet, s.base+"/admin/queues/pictures", "").status == http.StatusOK, program.Output()
	})
	ids := map[string]int{}
	for n := range 20 {
		ids[s.submit("paid", fmt.Sprintf(`{"type":"RESIZE","queue":"pictures","payload":{"width":%d}}`, n))] = n
	}
	broken := s.submit("public", `{"type":"RESIZE","queue":"pictures","payload":[]}`)
	for id, n := range ids {
		if p := s.await(id, "COMPLETED", 30*time.Second); string(p.Result) != fmt.Sprintf(`{"width":%d}`, 2*n) &&
			string(p.Result) != fmt.Sprintf(`{"width": %d}`, 2*n) {
			t.Errorf("job %d has the result %s", n, p.Result)
		}
	}
	if p := s.await(broken, "FAILED", 60*time.Second); p.FailureCause == nil || *p.FailureCause != cause {
		t.Errorf("a handler that fails: %+v", p)
	}
	if err := program.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if code, err := program.WaitExit(ctx); err != nil || code != 0 {
		t.Errorf("after SIGTERM: exit %d, %v", code, err)
	}
	c.quiet(20 * time.Second)
}
