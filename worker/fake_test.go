package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"sync"
	"testing"
	"time"
)

// fakeServer is a server of worker calls: it hands out the jobs of a list, and keeps what it is told.
type fakeServer struct {
	*httptest.Server
	t *testing.T

	mu      sync.Mutex
	jobs    []map[string]any          // to be handed out
	claims  map[string][]string       // the leases of a claim, by its id
	out     map[string]map[string]any // the jobs that were handed out, by lease
	ends    map[string]entry          // the report that ended a lease
	counts  map[string]int            // calls, by verb
	words   map[string]string         // the answer to a lease's heartbeats; "" = OK
	saved   map[string][]string       // checkpoints, by lease, with their numbers
	carried int                       // reports that came with claims
	copies  map[string]bool           // of claims: their ids and repeats
	state   string
	leaseMs int
	most    int         // leases of one heartbeat
	asking  int         // claims that are under way
	hold    func() bool // while it says so, claims wait
	flows   []string    // answers about flows
	asked   []string    // the bodies of such calls

	logs  map[string][]string // lines, by lease
	away  map[string]int      // how often the lines of a lease are refused for now
	tells map[string][]string // the progress in heartbeats, by lease: "step done"

	// fault decides what becomes of the nth call of a verb: 0, it is answered; 1, it is carried out and its answer is
	// lost; above, it is refused with this status.
	fault func(verb string, n int, body []byte) int
	// raw is the answer to the nth call of a verb; "" = as usual.
	raw func(verb string, n int) string
	// refuses is why the server refuses what an entry of a heartbeat has beside its lease; nil = it does not.
	refuses func(b *beat) *refusal
	unknown func(verb string) string // the body of a 404; "" = none
	held    time.Duration            // claims and heartbeats are held for so long
}

func newFake(t *testing.T) *fakeServer {
	s := &fakeServer{
		t: t, claims: map[string][]string{}, out: map[string]map[string]any{}, ends: map[string]entry{}, leaseMs: 30_000,
		copies: map[string]bool{}, counts: map[string]int{}, words: map[string]string{}, saved: map[string][]string{}, state: "run",
		logs: map[string][]string{}, tells: map[string][]string{},
		fault: func(string, int, []byte) int { return 0 }, hold: func() bool { return false },
		raw: func(string, int) string { return "" }, refuses: func(*beat) *refusal { return nil },
		unknown: func(string) string { return "" },
	}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

// add queues a job whose lease is its id.
func (s *fakeServer) add(id, typ, payload string, more ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := map[string]any{
		"jobId": id, "type": typ, "queue": "pictures", "payload": json.RawMessage(payload), "lease": "lease-" + id,
		"attempt": 1, "generation": 1, "checkpoint": nil, "traceId": nil, "leaseForMs": s.leaseMs,
		"heartbeatEveryMs": s.leaseMs / 3, "endsInMs": 600_000,
	}
	for i := 0; i < len(more); i += 2 {
		j[more[i]] = json.RawMessage(more[i+1])
	}
	s.jobs = append(s.jobs, j)
}

func (s *fakeServer) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	verb := path.Base(r.URL.Path)
	s.mu.Lock()
	if s.counts[verb]++; verb == "claim" {
		s.numbered(body)
	}
	fault := s.fault(verb, s.counts[verb], body)
	raw, hold, refusal := s.raw(verb, s.counts[verb]), s.held, s.unknown(verb)
	s.mu.Unlock()
	if verb == "claim" || verb == "heartbeat" {
		<-time.After(hold)
	}
	if refusal != "" {
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, refusal)
		return
	}
	if raw != "" {
		_, _ = io.WriteString(w, raw)
		return
	}
	if fault > 1 {
		w.WriteHeader(fault)
		fmt.Fprintf(w, `{"status":%d,"errorCode":"REFUSED","detail":"by the test"}`, fault)
		return
	}
	answer := map[string]func(context.Context, []byte) any{
		"claim": s.claim, "heartbeat": s.heartbeat, "report": s.report, "inputs": s.flow, "jobs": s.flow, "log": s.log,
	}[verb](r.Context(), body)
	if fault == 1 {
		panic(http.ErrAbortHandler)
	}
	if timed, ok := answer.(map[string]any); ok && hold > 0 {
		timed["heldMs"] = hold.Milliseconds()
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// log keeps the lines of logs, "number text", and which are lost.
func (s *fakeServer) log(_ context.Context, body []byte) any {
	var asked struct {
		Logs []struct {
			Lease string
			From  int
			Lines []*line
		}
	}
	s.read(body, &asked)
	s.mu.Lock()
	defer s.mu.Unlock()
	answers := make([]map[string]any, len(asked.Logs))
	for i, l := range asked.Logs {
		answers[i] = map[string]any{"outcome": "OK"}
		if s.away[l.Lease] > 0 {
			s.away[l.Lease]--
			answers[i] = map[string]any{"error": refusal{Status: 503, ErrorCode: "SYSTEM_UNHEALTHY"}}
			continue
		}
		if s.words[l.Lease] == "LOST" {
			answers[i] = map[string]any{"error": map[string]any{"errorCode": "LEASE_LOST"}}
			continue
		}
		for n, one := range l.Lines {
			text := fmt.Sprint(l.From+n, " lost")
			if one != nil {
				text = fmt.Sprint(l.From+n, " ", one.Level, " ", one.Text, string(one.Attrs))
			}
			if !slices.Contains(s.logs[l.Lease], text) {
				s.logs[l.Lease] = append(s.logs[l.Lease], text)
			}
		}
	}
	return map[string]any{"logs": answers}
}

// flow answers calls about flows: each with the next of the answers.
func (s *fakeServer) flow(_ context.Context, body []byte) any {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, string(body))
	answer := s.flows[0]
	s.flows = s.flows[1:]
	return json.RawMessage(answer)
}

func (s *fakeServer) read(body []byte, into any) {
	if err := json.Unmarshal(body, into); err != nil {
		s.t.Errorf("%v in %s", err, body)
	}
}

// numbered checks that a claim says how often it was sent before. A copy may arrive after a later one.
func (s *fakeServer) numbered(body []byte) {
	var c claimBody
	s.read(body, &c)
	name := fmt.Sprint(c.ID, " ", c.Repeat)
	if s.copies[name] {
		s.t.Errorf("claim %s says repeat %d again", c.ID, c.Repeat)
	}
	s.copies[name] = true
}

func (s *fakeServer) claim(ctx context.Context, body []byte) any {
	var c claimBody
	s.read(body, &c)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asking++
	defer func() { s.asking-- }()
	s.carried += len(c.Reports)
	answers := s.end(c.Reports)
	jobs := []map[string]any{}
	for _, lease := range s.claims[c.ID] {
		if _, ended := s.ends[lease]; !ended {
			jobs = append(jobs, s.out[lease])
		}
	}
	for end := time.Now().Add(time.Duration(c.Wait) * time.Second); len(jobs) == 0; {
		for !s.hold() && len(s.jobs) > 0 && len(jobs) < c.Max {
			lease := s.jobs[0]["lease"].(string)
			s.out[lease] = s.jobs[0]
			jobs, s.jobs = append(jobs, s.jobs[0]), s.jobs[1:]
			s.claims[c.ID] = append(s.claims[c.ID], lease)
		}
		if len(jobs) > 0 || ctx.Err() != nil || time.Now().After(end) && !s.hold() || s.state == "terminate" {
			break
		}
		s.mu.Unlock()
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
		}
		s.mu.Lock()
	}
	return map[string]any{"state": s.state, "claimId": c.ID, "retryAfterMs": 0, "reported": answers, "jobs": jobs}
}

// end takes reports. The first one of a lease counts, and a repeat gets the same answer.
func (s *fakeServer) end(reports []json.RawMessage) []any {
	answers := []any{}
	for _, text := range reports {
		var e entry
		s.read(text, &e)
		if s.words[e.Lease] == "LOST" {
			answers = append(answers, map[string]any{"error": refusal{Status: 409, ErrorCode: "LEASE_LOST"}})
			continue
		}
		if before, again := s.ends[e.Lease]; again && string(encoded(before)) != string(encoded(e)) {
			s.t.Errorf("another report for one lease: %s, %s", encoded(before), encoded(e))
		}
		s.ends[e.Lease] = e
		answers = append(answers, map[string]any{"outcome": "COMPLETED"})
	}
	return answers
}

func (s *fakeServer) report(_ context.Context, body []byte) any {
	var c struct{ Reports []json.RawMessage }
	s.read(body, &c)
	s.mu.Lock()
	defer s.mu.Unlock()
	return map[string]any{"reports": s.end(c.Reports)}
}

func (s *fakeServer) heartbeat(_ context.Context, body []byte) any {
	var c struct{ Leases []beat }
	s.read(body, &c)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.most = max(s.most, len(c.Leases))
	pulses := []pulse{}
	for _, b := range c.Leases {
		word := s.words[b.Lease]
		if word == "" {
			word = "OK"
		}
		refused := s.refuses(&b)
		if refused != nil {
			pulses = append(pulses, pulse{word, int64(s.leaseMs), refused})
			continue
		}
		if b.Save > 0 {
			s.saved[b.Lease] = append(s.saved[b.Lease], fmt.Sprintf("%d=%s", b.Save, b.Checkpoint))
		}
		if p := b.Progress; p != nil {
			s.tells[b.Lease] = append(s.tells[b.Lease], fmt.Sprintf("%d %d of %d %s", p.Step, p.Done, p.Total, p.Note))
		}
		pulses = append(pulses, pulse{Word: word, LeaseForMs: int64(s.leaseMs)})
	}
	return map[string]any{"state": s.state, "leases": pulses}
}

// reported waits for the report of a job, and returns it without its lease.
func (s *fakeServer) reported(id string) string {
	s.t.Helper()
	var e entry
	s.until("the report of "+id, func() (found bool) {
		e, found = s.ends["lease-"+id]
		return found
	})
	e.Lease = ""
	return string(encoded(e))
}

// until waits for a condition, which the server's mutex guards.
func (s *fakeServer) until(what string, holds func() bool) {
	s.t.Helper()
	for end := time.Now().Add(20 * time.Second); ; {
		s.mu.Lock()
		ok := holds()
		s.mu.Unlock()
		if ok {
			return
		}
		if time.Now().After(end) {
			s.t.Fatalf("not within 20 s: %s; %v", what, s.counts)
		}
		<-time.After(time.Millisecond)
	}
}

// with changes what the server does.
func (s *fakeServer) with(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// worker returns a worker of this server, which runs until the test ends or stop is called; stop returns Run's error.
func (s *fakeServer) worker(register func(w *Worker), opts ...Option) (stop func() error) {
	quiet := slog.New(slog.DiscardHandler)
	w := New(s.URL, []string{"pictures"}, append([]Option{WithLog(quiet)}, opts...)...)
	register(w)
	ctx, cancel := context.WithCancel(context.Background())
	var err error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err = w.Run(ctx)
	}()
	stop = func() error {
		cancel()
		<-ended
		return err
	}
	s.t.Cleanup(func() { _ = stop() })
	return stop
}

func names(m map[string]entry) []string {
	var all []string
	for name := range m {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}
