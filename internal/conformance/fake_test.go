package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// fake is a server of worker calls. It hands out jobs, keeps what it is told, and checks what it hears.
type fake struct {
	*httptest.Server
	leaseFor, every time.Duration // of each job: its lease, and between heartbeats

	mu     sync.Mutex
	queue  []*job          // to be handed out
	jobs   map[string]*job // by id
	leases map[string]*job // by each lease that they ever had
	claims map[string]*claimed
	calls  map[string][]time.Time // by verb
	asking int                    // claims under way
	wrong  []string               // what no worker may do
	lapses bool                   // a lease may end without a heartbeat: the test ends processes
	script func(verb string, n int, body []byte) *act
}

// job is a job of the fake server.
type job struct {
	id, typ string
	payload json.RawMessage
	more    map[string]any // other fields of the claim's answer
	endsIn  time.Duration
	holds   func() bool // while it says so, the job is not handed out

	lease    string     // of the attempt under way; "" = it waits
	claims   []*claimed // that it was handed out to
	attempt  int
	handed   time.Time
	until    time.Time // the lease ends then
	ends     time.Time // the maximum processing time is over then
	word     string    // the answer to heartbeats; "" = OK
	report   json.RawMessage
	reported time.Time
	beats    []time.Time
	saved    []string
	told     []told
	lines    []line
}

type told struct {
	at   time.Time
	step int64
	done int64
	note string
}

type claimed struct {
	leases  []string
	repeat  int // the highest one
	copies  map[int]bool
	history []string // of its answers, for messages
}

func newFake(t testing.TB) *fake {
	f := &fake{
		leaseFor: 6 * time.Second, every: 1500 * time.Millisecond, jobs: map[string]*job{}, leases: map[string]*job{},
		claims: map[string]*claimed{}, calls: map[string][]time.Time{},
	}
	f.Server = httptest.NewServer(http.HandlerFunc(f.serve))
	t.Cleanup(func() {
		f.CloseClientConnections() // a claim may be waiting
		f.Close()
	})
	return f
}

// add queues a job.
func (f *fake) add(id, typ, payload string, change ...func(*job)) *job {
	j := &job{id: id, typ: typ, payload: json.RawMessage(payload), endsIn: 10 * time.Minute}
	for _, c := range change {
		c(j)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.jobs[id] = j
	f.queue = append(f.queue, j)
	return j
}

func (f *fake) serve(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	verb := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	f.mu.Lock()
	f.calls[verb] = append(f.calls[verb], began)
	n := len(f.calls[verb])
	valid := f.strict(verb, body)
	var a *act
	if f.script != nil {
		a = f.script(verb, n, body)
	}
	f.mu.Unlock()
	if a == nil {
		a = &act{}
	}
	if !valid {
		a = refused(400, "MALFORMED", "the body is not valid JSON")
	}
	if a.early() {
		a.write(w, r, nil)
		return
	}
	carry := map[string]func(context.Context, []byte) map[string]any{
		"claim": f.claim, "heartbeat": f.heartbeat, "report": f.reports, "log": f.logs,
		"inputs": f.inputs, "jobs": f.flow,
	}[verb]
	if carry == nil {
		a = refused(404, "NOT_FOUND", "there is no such endpoint")
		a.write(w, r, nil)
		return
	}
	answer := carry(r.Context(), body)
	f.mu.Lock()
	f.left(answer)
	if verb == "claim" || verb == "heartbeat" {
		answer["heldMs"] = time.Since(began).Milliseconds()
	}
	if c := f.claims[fmt.Sprint(answer["claimId"])]; c != nil {
		said := fmt.Sprintf("repeat %d: %d jobs, lost: %v", c.repeat, len(answer["jobs"].([]any)), a.lost)
		c.history = append(c.history, said)
	}
	f.mu.Unlock()
	a.write(w, r, answer)
}

// expire takes jobs back whose lease has ended. f.mu is held.
func (f *fake) expire() {
	now := time.Now()
	for _, j := range f.jobs {
		if j.lease == "" || j.report != nil || j.word == "LOST" || now.Before(j.until) {
			continue
		}
		if !f.lapses {
			f.wrongf("no heartbeat of %s (%s %.60s) came within its lease", j.lease, j.typ, j.payload)
		}
		j.lease = ""
		f.queue = append(f.queue, j)
	}
}

// until waits for a condition, which f.mu guards. It returns whether it came to hold.
func (f *fake) until(most time.Duration, holds func() bool) bool {
	for end := time.Now().Add(most); ; <-time.After(5 * time.Millisecond) {
		f.mu.Lock()
		f.expire()
		ok := holds()
		f.mu.Unlock()
		if ok || time.Now().After(end) {
			return ok
		}
	}
}

// await waits for the report of a job.
func (f *fake) await(t testing.TB, id string, most time.Duration) report {
	t.Helper()
	if !f.until(most, func() bool { return f.jobs[id].report != nil }) {
		t.Fatalf("no report of %s within %s", id, most)
	}
	return f.reportOf(id)
}

// count returns how many calls of a verb came since a time.
func (f *fake) count(verb string, since time.Time) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, at := range f.calls[verb] {
		if at.After(since) {
			n++
		}
	}
	return n
}

// with changes the fake while it serves.
func (f *fake) with(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}
