package worker

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/loop"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeQueue is a queue in memory. A function field that is set answers instead of it.
type fakeQueue struct {
	claim    func(job.ClaimRequest) (job.ClaimReply, error)
	complete func([]job.Completion) ([]job.EndReply, error)
	fail     func([]job.Failure) ([]job.EndReply, error)
	release  func([]job.Release) ([]job.EndReply, error)

	mu        sync.Mutex
	ready     []job.Job
	requests  []job.ClaimRequest
	completed []job.Completion
	failed    []job.Failure
	released  []job.Release
	endedAt   []time.Time
}

func (q *fakeQueue) Claim(_ context.Context, _ int, r job.ClaimRequest) (job.ClaimReply, error) {
	q.mu.Lock()
	q.requests = append(q.requests, r)
	q.mu.Unlock()
	if q.claim != nil {
		return q.claim(r)
	}
	return q.pop(r), nil
}

func (q *fakeQueue) pop(r job.ClaimRequest) job.ClaimReply {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(r.Max, len(q.ready))
	reply := job.ClaimReply{Next: math.Inf(1)}
	for _, j := range q.ready[:n] {
		j.Attempt++
		reply.Leases = append(reply.Leases, job.Lease{Job: j, Token: fmt.Sprint("nonce:", r.Number)})
	}
	q.ready = q.ready[n:]
	if len(q.ready) > 0 {
		reply.Next = 1e13
	}
	return reply
}

// asked returns the claims that arrived so far.
func (q *fakeQueue) asked() []job.ClaimRequest {
	q.mu.Lock()
	defer q.mu.Unlock()
	return cloned(q.requests)
}

func (q *fakeQueue) push(jobs ...job.Job) {
	q.mu.Lock()
	q.ready = append(q.ready, jobs...)
	q.mu.Unlock()
}

func record[T any](q *fakeQueue, into *[]T, batch []T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	*into = append(*into, batch...)
	for range batch {
		q.endedAt = append(q.endedAt, time.Now())
	}
}

func (q *fakeQueue) Complete(_ context.Context, _ int, batch []job.Completion) ([]job.EndReply, error) {
	record(q, &q.completed, batch)
	if q.complete != nil {
		return q.complete(batch)
	}
	return all(job.OK, len(batch)), nil
}

func (q *fakeQueue) Fail(_ context.Context, _ int, batch []job.Failure) ([]job.EndReply, error) {
	record(q, &q.failed, batch)
	if q.fail != nil {
		return q.fail(batch)
	}
	return all(job.OK, len(batch)), nil
}

func (q *fakeQueue) Release(_ context.Context, _ int, batch []job.Release) ([]job.EndReply, error) {
	record(q, &q.released, batch)
	if q.release != nil {
		return q.release(batch)
	}
	return all(job.OK, len(batch)), nil
}

// endings returns the endings that arrived so far.
func (q *fakeQueue) endings() (completed []job.Completion, failed []job.Failure, released []job.Release) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return cloned(q.completed), cloned(q.failed), cloned(q.released)
}

// times returns when each ending arrived so far, of any kind.
func (q *fakeQueue) times() []time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	return cloned(q.endedAt)
}

func cloned[T any](s []T) []T { return append([]T(nil), s...) }

func all(w job.Word, n int) []job.EndReply {
	replies := make([]job.EndReply, n)
	for i := range replies {
		replies[i] = job.EndReply{Word: w, At: endTime}
	}
	return replies
}

var endTime = time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)

type fakePulse struct {
	word func(job.Beat) (job.Word, error) // if set, answers for one lease

	mu      sync.Mutex
	beats   []beatSeen // the answered ones
	batches []int
}

type beatSeen struct {
	job.Beat
	at time.Time
}

func (f *fakePulse) Heartbeat(_ context.Context, _ int, batch []job.Beat) ([]job.Word, error) {
	words := make([]job.Word, len(batch))
	for i, b := range batch {
		words[i] = job.OK
		if f.word != nil {
			w, err := f.word(b)
			if err != nil {
				return nil, err
			}
			words[i] = w
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.batches = append(f.batches, len(batch))
	for _, b := range batch {
		f.beats = append(f.beats, beatSeen{b, time.Now()})
	}
	return words, nil
}

func (f *fakePulse) seen() []beatSeen {
	f.mu.Lock()
	defer f.mu.Unlock()
	return cloned(f.beats)
}

func (f *fakePulse) sizes() []int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return cloned(f.batches)
}

// fakeBell holds at most one token, as Redis does.
type fakeBell struct {
	token loop.Signal
	wait  func(context.Context) error // if set, answers Wait

	mu    sync.Mutex
	waits int
	rings int
}

func (b *fakeBell) Wait(ctx context.Context, _ int) error {
	b.mu.Lock()
	b.waits++
	b.mu.Unlock()
	if b.wait != nil {
		return b.wait(ctx)
	}
	t := time.NewTimer(time.Second)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-b.token:
	case <-t.C:
	}
	return nil
}

func (b *fakeBell) Ring(context.Context, int) error {
	b.mu.Lock()
	b.rings++
	b.mu.Unlock()
	b.token.Set()
	return nil
}

func (b *fakeBell) seen() (waits, rings int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waits, b.rings
}

type fakeRecorder struct {
	refuse bool

	mu     sync.Mutex
	offers []job.Outcome
	wakes  int
}

func (r *fakeRecorder) Offer(o job.Outcome) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.offers = append(r.offers, o)
	return !r.refuse
}

func (r *fakeRecorder) Wake() {
	r.mu.Lock()
	r.wakes++
	r.mu.Unlock()
}

func (r *fakeRecorder) seen() (offers []job.Outcome, wakes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return cloned(r.offers), r.wakes
}

// rig is a pool with fakes around it.
type rig struct {
	*Pool
	queue    *fakeQueue
	pulse    *fakePulse
	bell     *fakeBell
	recorder *fakeRecorder
	logs     *lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// newRig makes a pool of two slots whose only job type, WORK, is handled by fn. The pool is not started.
func newRig(fn func(ctx context.Context) (string, error), change ...func(*Config)) *rig {
	r := &rig{
		queue:    &fakeQueue{},
		pulse:    &fakePulse{},
		bell:     &fakeBell{token: loop.NewSignal()},
		recorder: &fakeRecorder{},
		logs:     &lockedBuffer{},
	}
	registry := handler.NewRegistry()
	handler.Register(registry, "WORK", func(ctx context.Context, _ struct{}) (string, error) { return fn(ctx) })
	plans := &job.PlanBook{}
	plans.Set(job.DefaultPlans())
	cfg := Config{
		Slots: 2, Partitions: 1, HeartbeatInterval: 500 * time.Millisecond, ResultLimit: 1024, DrainTimeout: 30 * time.Second,
		Registry: registry, Plans: plans, Log: slog.New(slog.NewTextHandler(r.logs, nil)), Nonce: "nonce",
	}
	for _, c := range change {
		c(&cfg)
	}
	r.Pool = New(cfg, r.queue, r.pulse, r.bell, r.recorder)
	return r
}

func (r *rig) start(t testing.TB) {
	t.Helper()
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) stop(t testing.TB) {
	t.Helper()
	if err := r.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

// after waits in a synctest bubble until d has passed and all goroutines are blocked.
func after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// until blocks a handler until its context ends, and returns the cause.
func until(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// work returns the n-th job of a tier.
func work(n int, tier job.Tier) job.Job {
	return job.Job{ID: job.ID(fmt.Sprintf("0197b1d2-0000-7000-8000-%010d00", n)), Generation: 1, Tier: tier, Type: "WORK",
		Status: job.Processing, MaxRetries: 5}
}
