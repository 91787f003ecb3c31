package faktory

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// world is the rest of tierq: its jobs are in memory. It answers as the other rooms do.
type world struct {
	t  *testing.T
	mu sync.Mutex

	queues   map[string]job.Queue
	ready    []job.Job // in the order of their coming
	leases   map[string]job.Lease
	ended    map[string]job.Ending // by sealed lease
	claims   []job.WorkerClaim
	released int
	books    map[string]map[string]job.HeldLease
	beats    []job.WorkerBeat
	sights   []job.WorkerSight
	asked    map[string]job.WorkerState
	dead     []job.DeadLetter
	waiting  []job.Job // scheduled
	did      []string  // what MUTATE and FLUSH asked for
	made     int
	totals   [2]int64

	open  bool
	keys  map[string]key
	wrong int
	down  error // of every call of the stores
	most  int   // how many jobs run at most; 0 = any number
	fails int   // so many ends get the error down
}

// key is an API key with its passwords.
type key struct {
	caller    job.Caller
	passwords []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{
		t: t, open: true, queues: map[string]job.Queue{}, leases: map[string]job.Lease{}, ended: map[string]job.Ending{},
		books: map[string]map[string]job.HeldLease{}, asked: map[string]job.WorkerState{}, keys: map[string]key{},
	}
}

// serve starts a gateway over a world.
func (w *world) serve(change ...func(*Config)) *Server {
	w.t.Helper()
	c := Config{Addr: "127.0.0.1:0", Deps: Deps{
		Clock: time.Now, Submit: w, Leases: w, Book: w, Queues: w, Pauses: w, Counts: w, Jobs: jobsOf{w},
		Plans: w, Schemas: w, Keys: w, Rates: w,
	}}
	for _, f := range change {
		f(&c)
	}
	s := New(c)
	if err := s.Start(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			w.t.Error(err)
		}
	})
	return s
}

func (w *world) locked(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

func (w *world) Submit(_ context.Context, s job.Submission) (job.Accepted, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down != nil {
		return job.Accepted{}, w.down
	}
	w.made++
	j := job.Job{
		ID: job.ID(fmt.Sprintf("%032d%04d", 0, w.made)), Generation: 1, Tier: s.Tier, Type: s.Type, Owner: s.Owner,
		Options: s.Options, Payload: s.Payload, MaxRetries: s.MaxRetries, ArrivedAt: time.Now(), RunAt: s.RunAt,
		Status: job.Pending,
	}
	if s.Delayed() {
		j.Status = job.Scheduled
		w.waiting = append(w.waiting, j)
	} else {
		w.ready = append(w.ready, j)
	}
	return job.Accepted{ID: j.ID}, nil
}

func (w *world) SubmitBatch(ctx context.Context, batch []job.Submission) ([]job.Accepted, []error) {
	accepted, errs := make([]job.Accepted, len(batch)), make([]error, len(batch))
	for i := range batch {
		accepted[i], errs[i] = w.Submit(ctx, batch[i])
	}
	return accepted, errs
}

func (w *world) Claim(ctx context.Context, c job.WorkerClaim) ([]job.WorkerLease, error) {
	w.locked(func() { w.claims = append(w.claims, c) })
	for end := time.Now().Add(c.Wait); ; {
		if leases, err := w.claimNow(c); len(leases) > 0 || err != nil || !time.Now().Before(end) {
			return leases, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(2 * time.Millisecond):
		}
	}
}

func (w *world) claimNow(c job.WorkerClaim) (leases []job.WorkerLease, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down != nil {
		return nil, w.down
	}
	if w.most > 0 && len(w.leases)-len(w.ended) >= w.most {
		return nil, &job.RateError{In: time.Second}
	}
	w.ready = slices.DeleteFunc(w.ready, func(j job.Job) bool {
		if len(leases) == c.Max || !slices.Contains(c.Queues, j.QueueName()) ||
			len(c.Tiers) > 0 && !slices.Contains(c.Tiers, j.Tier) {
			return false
		}
		j.Attempt++
		j.StartedAt = time.Now()
		l := job.Lease{Job: j, Token: c.Worker}
		sealed := fmt.Sprintf("v1.%s.%s.%d", c.Key, j.ID, j.Attempt)
		w.leases[sealed] = l
		leases = append(leases, job.WorkerLease{Lease: l, Sealed: sealed, For: c.Lease})
		return true
	})
	return leases, nil
}

func (w *world) GiveBack(leases []job.WorkerLease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range leases {
		w.released++
		delete(w.leases, fmt.Sprintf("v1.%s.%s.%d", "", leases[i].ID, leases[i].Attempt))
		w.ready = append(w.ready, leases[i].Job)
	}
}

func (w *world) Heartbeat(_ context.Context, _ string, beats []job.WorkerBeat) ([]job.WorkerPulse, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	pulses := make([]job.WorkerPulse, len(beats))
	for i, b := range beats {
		w.beats = append(w.beats, b)
		pulses[i].Word = job.Lost
		if _, runs := w.leases[b.Sealed]; runs {
			pulses[i].Word = job.OK
		}
	}
	return pulses, nil
}

func (w *world) End(_ context.Context, _ string, reports []job.WorkerReport) []job.WorkerEnd {
	w.mu.Lock()
	defer w.mu.Unlock()
	ends := make([]job.WorkerEnd, len(reports))
	for i, r := range reports {
		l, runs := w.leases[r.Sealed]
		switch {
		case w.fails > 0:
			w.fails--
			ends[i].Err = job.ErrUnavailable
			continue
		case !runs:
			ends[i].Err = job.ErrLeaseLost
			continue
		}
		ends[i].ID, ends[i].How = l.ID, job.EndCompleted
		delete(w.leases, r.Sealed)
		if r.Kind == job.DidFail {
			l.LastError, l.RetryCount = r.Error, l.RetryCount+1
			if ends[i].How = job.EndRetried; l.RetryCount > l.MaxRetries {
				ends[i].How = job.EndFailed
				w.dead = append(w.dead, job.DeadLetter{Job: l.Job})
			} else {
				w.ready = append(w.ready, l.Job)
			}
		}
		w.ended[r.Sealed] = ends[i].How
	}
	return ends
}

func (w *world) See(s job.WorkerSight) { w.locked(func() { w.sights = append(w.sights, s) }) }

func (w *world) Asked(_, worker string) job.WorkerState {
	w.mu.Lock()
	defer w.mu.Unlock()
	return cmp.Or(w.asked[worker], job.WorkerRuns)
}

func (w *world) HoldLeases(_ context.Context, key, worker string, held []job.HeldLease) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down != nil {
		return w.down
	}
	book := w.books[key+" "+worker]
	if book == nil {
		book = map[string]job.HeldLease{}
		w.books[key+" "+worker] = book
	}
	for _, h := range held {
		book[h.Field] = h
	}
	return nil
}

func (w *world) HeldLeases(_ context.Context, key, worker string) (held []job.HeldLease, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.books[key+" "+worker] {
		held = append(held, h)
	}
	return held, w.down
}

func (w *world) DropLeases(_ context.Context, refs []job.HeldRef) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range refs {
		delete(w.books[r.Key+" "+r.Worker], r.Field)
	}
	return nil
}

func (w *world) CountFaktory(_ context.Context, processed, failures int64) error {
	w.locked(func() { w.totals[0], w.totals[1] = w.totals[0]+processed, w.totals[1]+failures })
	return nil
}

func (w *world) FaktoryTotals(context.Context) (processed, failures int64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.totals[0], w.totals[1], w.down
}

func (w *world) ForgetFaktoryTotals(context.Context) error {
	w.locked(func() { w.totals = [2]int64{} })
	return nil
}

func (w *world) Find(name string) (job.Queue, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	q, known := w.queues[name]
	return q, known
}

func (w *world) All() (all []job.Queue) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, q := range w.queues {
		all = append(all, q)
	}
	return all
}

func (w *world) ForFaktory(_ context.Context, name string, on bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	q := w.queues[name]
	q.Name, q.Faktory = name, on
	if err := q.Check(); err != nil {
		return err
	}
	w.queues[name] = q
	return nil
}

func (w *world) DeleteQueue(_ context.Context, name string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.leases {
		if l.QueueName() == name {
			return job.ErrQueueInUse
		}
	}
	delete(w.queues, name)
	return nil
}

func (w *world) Pause(_ context.Context, p job.Pause) (job.Pause, error) {
	w.locked(func() { w.did = append(w.did, "pause "+p.Scope) })
	return p, nil
}

func (w *world) Resume(_ context.Context, scope string) (job.Pause, bool, error) {
	w.locked(func() { w.did = append(w.did, "resume "+scope) })
	return job.Pause{}, true, nil
}

func (w *world) PurgeQueue(_ context.Context, name string) (cancelled int, more bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ready = slices.DeleteFunc(w.ready, func(j job.Job) bool {
		if j.QueueName() == name {
			cancelled++
		}
		return j.QueueName() == name
	})
	return cancelled, false, w.down
}

func (w *world) QueueCounts(context.Context) (map[string]job.QueueCount, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	counts := map[string]job.QueueCount{}
	add := func(queue string, f func(*job.QueueCount)) {
		n := counts[queue]
		f(&n)
		counts[queue] = n
	}
	for i := range w.ready {
		add(w.ready[i].QueueName(), func(n *job.QueueCount) { n.Ready++ })
	}
	for i := range w.waiting {
		add(w.waiting[i].QueueName(), func(n *job.QueueCount) {
			n.Scheduled++
			if w.waiting[i].RetryCount == 0 {
				n.Delayed++
			}
		})
	}
	for _, l := range w.leases {
		add(l.QueueName(), func(n *job.QueueCount) { n.Running++ })
	}
	return counts, w.down
}

func (w *world) OldestIn(_ context.Context, queue string) (time.Time, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.ready {
		if w.ready[i].QueueName() == queue {
			return w.ready[i].ArrivedAt, nil
		}
	}
	return time.Time{}, nil
}

func (w *world) CountDead(_ context.Context, queue string) (n int64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.dead {
		if queue == "" || w.dead[i].QueueName() == queue {
			n++
		}
	}
	return n, nil
}

func (w *world) Plan(t job.Tier) (job.Plan, bool) {
	for _, p := range job.DefaultPlans() {
		if p.Tier == t {
			return p, true
		}
	}
	return job.Plan{}, false
}

func (w *world) Check(schema string, payload []byte) error {
	if !strings.Contains(string(payload), schema) {
		return &job.PayloadError{Field: "args", Reason: "lacks " + schema}
	}
	return nil
}

func (w *world) Open() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.open
}

func (w *world) Gateway(_ context.Context, id string) (job.Caller, []string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	k, known := w.keys[id]
	if !known {
		return job.Caller{}, nil, job.ErrUnauthorized
	}
	k.caller.Key.ID = id
	return k.caller, k.passwords, nil
}

func (w *world) CountAddress(context.Context, netip.Addr) error { return nil }

func (w *world) Spend(_ context.Context, c *job.Caller, n int) job.Allowance {
	if float64(n) > c.Key.Rate {
		return job.Allowance{Limited: true, RetryIn: 3 * time.Second}
	}
	return job.Allowance{Limited: true}
}

func (w *world) CountWrong(context.Context, netip.Addr) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.wrong++; w.wrong > 3 {
		return &job.RateError{In: time.Second}
	}
	return nil
}

func (w *world) NoteUse(string) {}

// client is a connection to a gateway.
type client struct {
	t  *testing.T
	nc net.Conn
	in *bufio.Reader
}

// connects connects, and returns the client with the server's greeting.
func connects(t *testing.T, s *Server) (*client, string) {
	t.Helper()
	nc, err := net.Dial("tcp", s.Bound())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	c := &client{t: t, nc: nc, in: bufio.NewReader(nc)}
	return c, c.reads()
}

// dial connects, and says HELLO with some members.
func dial(t *testing.T, s *Server, members string) *client {
	t.Helper()
	c, _ := connects(t, s)
	c.is("HELLO {"+members+`"v":2}`, "+OK")
	return c
}

// reads returns the next reply: a line, or the text of a $.
func (c *client) reads() string {
	c.t.Helper()
	_ = c.nc.SetReadDeadline(time.Now().Add(20 * time.Second))
	line, err := c.in.ReadString('\n')
	if err != nil {
		return "closed: " + line
	}
	line = strings.TrimSuffix(line, "\r\n")
	if !strings.HasPrefix(line, "$") || line == "$-1" {
		return line
	}
	n, _ := strconv.Atoi(line[1:])
	text := make([]byte, n+2)
	if _, err := readFull(c.in, text); err != nil {
		return "closed: " + line
	}
	return string(text[:n])
}

func readFull(in *bufio.Reader, text []byte) (n int, err error) {
	for n < len(text) && err == nil {
		var more int
		more, err = in.Read(text[n:])
		n += more
	}
	return n, err
}

func (c *client) sends(line string) {
	c.t.Helper()
	if _, err := c.nc.Write([]byte(line + "\r\n")); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) asks(line string) string {
	c.t.Helper()
	c.sends(line)
	return c.reads()
}

// is sends a command and checks the reply.
func (c *client) is(line, want string) {
	c.t.Helper()
	if got := c.asks(line); got != want {
		c.t.Errorf("%.100s: %s, want %s", line, got, want)
	}
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.After(20 * time.Second); !is(); {
		select {
		case <-end:
			t.Fatalf("still not: %s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}
