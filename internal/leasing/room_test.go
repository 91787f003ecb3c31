package leasing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

// seen is an Observer that counts.
type seen struct {
	mu      sync.Mutex
	started int
	ended   []string
}

func (s *seen) Started(*job.Lease, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started++
}

func (s *seen) Ended(l *job.Lease, how job.Ending, cause job.Cause, _ time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = append(s.ended, fmt.Sprintf("%s %s %s %s", l.Type, l.QueueName(), how, cause))
}

// world is a room over a queue with the scripts, with the declared queues films and a:b.
type world struct {
	asks job.AskBook
	most map[string]int // leases that a key may hold
	*Room
	*queuetest.Env
	seen   *seen
	told   chan job.ID // jobs that have ended
	untold error       // of the call that hears of an end
	looks  looks
}

// looks counts the calls of each claim that Redis has answered.
type looks struct {
	*queue.Queue
	mu sync.Mutex
	of map[string]int // by the claim's id
}

func (l *looks) Claim(ctx context.Context, partition int, r job.ClaimRequest) (job.ClaimReply, error) {
	reply, err := l.Queue.Claim(ctx, partition, r)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of[r.Elsewhere.ID]++
	return reply, err
}

func (l *looks) count(id string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.of[id]
}

func eachWorld(t *testing.T, partitions int, test func(t *testing.T, w *world)) {
	t.Helper()
	queuetest.EachWith(t, func(o *queue.Options) {
		o.Partitions, o.Queues = partitions, &job.QueueBook{}
		o.Queues.Set([]job.Queue{{Name: "films", Limit: 1000}, {Name: "a:b", Limit: 1000}})
	}, func(t *testing.T, e *queuetest.Env) { test(t, newWorld(t, e)) })
}

func newWorld(t *testing.T, e *queuetest.Env) *world {
	t.Helper()
	w := &world{Env: e, seen: &seen{}, told: make(chan job.ID, 1000)}
	w.looks.Queue, w.looks.of = e.Queue, map[string]int{}
	w.Room = New(Config{
		Asks:       &w.asks,
		Partitions: e.Options.Partitions, PriorityBase: e.Options.PriorityBase, Strict: e.Queue.Strict(), ResultLimit: 1024,
		Seats: e.Queue, Most: func(keyID string) int { return w.most[keyID] },
		Plans: e.Plans, Queue: &w.looks, Doorbell: e.Queue, Sealer: e.View, Observe: w.seen,
		Log: slog.New(slog.DiscardHandler),
		Ended: func(_ context.Context, id job.ID) error {
			w.told <- id
			return w.untold
		},
	})
	if err := w.Room.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := w.Room.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return w
}

// into submits jobs of a tier into a queue of a partition.
func (w *world) into(t *testing.T, partition int, name string, tier job.Tier, n int) (ids []job.ID) {
	t.Helper()
	for range n {
		s := queuetest.Job(tier)
		s.ID, s.Queue, s.Type = queuetest.NewID(partition), name, "RESIZE"
		replies, err := w.Env.Submit(t.Context(), partition, []job.Submission{s})
		if err != nil || replies[0].Word != job.OK {
			t.Fatal(replies, err)
		}
		ids = append(ids, s.ID)
	}
	return ids
}

func claim(id string, most int, wait time.Duration, queues ...string) job.WorkerClaim {
	return job.WorkerClaim{Key: "key", Worker: "w", ID: id, Queues: queues, Max: most, Wait: wait, Lease: time.Minute}
}

func (w *world) claims(t *testing.T, c job.WorkerClaim) []job.WorkerLease {
	t.Helper()
	leases, err := w.Room.Claim(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return leases
}

func idsOf(leases []job.WorkerLease) (ids []job.ID) {
	for _, l := range leases {
		ids = append(ids, l.ID)
	}
	return ids
}

func done(sealed string) job.WorkerReport {
	return job.WorkerReport{Sealed: sealed, Report: job.Report{Result: []byte(`{"ok":true}`)}}
}

// near says whether a time is as far ahead as it was a moment ago.
func near(at time.Time, ahead time.Duration) bool {
	left := time.Until(at)
	return left <= ahead && left > ahead-10*time.Second
}

// A worker claims, beats and reports; whatever it shows a second time changes nothing.
func TestLife(t *testing.T) {
	t.Parallel()
	eachWorld(t, 1, func(t *testing.T, w *world) {
		ids := w.into(t, 0, "films", job.Paid, 3)
		leases := w.claims(t, claim("c1", 5, 0, "films"))
		if !slices.Equal(idsOf(leases), ids) || leases[0].Type != "RESIZE" || leases[0].For != time.Minute ||
			!near(leases[0].Until, time.Minute) || !near(leases[0].Ends, 50*time.Second) || leases[0].Worker != "key.w" {
			t.Fatalf("claimed %+v", leases)
		}
		pulses, err := w.Heartbeat(t.Context(), "key", []job.WorkerBeat{
			{Sealed: leases[0].Sealed, Save: 1, Checkpoint: []byte(`{"page":1}`)},
			{Sealed: leases[1].Sealed, Extend: time.Hour},
		})
		if err != nil || pulses[0].Word != job.OK || pulses[1].Word != job.OK || !near(pulses[0].Until, time.Minute) ||
			!near(pulses[1].Until, time.Hour) {
			t.Errorf("pulses %+v, %v", pulses, err)
		}
		reports := []job.WorkerReport{
			done(leases[0].Sealed),
			{Sealed: leases[1].Sealed, Report: job.Report{Kind: job.DidFail, Error: "no", RetryAfter: time.Hour}},
			{Sealed: leases[2].Sealed, Report: job.Report{Kind: job.GaveBack}},
		}
		for range 2 { // a report counts once, and its repeat gets the same answer
			ends := w.End(t.Context(), "key", reports)
			if e := ends[0]; e.Err != nil || e.How != job.EndCompleted || e.ID != ids[0] || e.At.IsZero() {
				t.Errorf("completed %+v", e)
			}
			if e := ends[1]; e.Err != nil || e.How != job.EndRetried || e.Cause != job.HandlerError || e.RetryCount != 1 ||
				e.MaxRetries != 5 || !e.RunAt.Equal(e.At.Add(time.Hour)) {
				t.Errorf("failed %+v", e)
			}
			if e := ends[2]; e.Err != nil || e.How != job.EndReleased || !e.RunAt.IsZero() {
				t.Errorf("released %+v", e)
			}
		}
		w.untold = job.ErrUnavailable
		if e := w.End(t.Context(), "key", reports[:1])[0]; !errors.Is(e.Err, job.ErrUnavailable) {
			t.Errorf("SQL did not take the end, and its worker was told %+v", e)
		}
		w.untold = nil
		if len(w.told) != 3 {
			t.Errorf("the room told of %d ends", len(w.told))
		}
		out, err := w.TakeOutbox(t.Context(), 0, 10) // no lead: any process may write the outcome at once
		if err != nil || len(out) != 1 || out[0].ID != ids[0] || string(out[0].Result) != `{"ok":true}` {
			t.Errorf("the outbox has %+v, %v", out, err)
		}
		if next := w.claims(t, claim("c2", 5, 0, "films")); len(next) != 1 || next[0].ID != ids[2] || next[0].Attempt != 2 {
			t.Errorf("claimed then %+v", next)
		}
		if w.seen.started != 4 || !slices.Contains(w.seen.ended, "RESIZE films RETRIED HANDLER_ERROR") {
			t.Errorf("observed %+v", w.seen)
		}
	})
}

// A lease that another key shows, that was edited, or whose job another attempt holds, is lost: nothing changes.
func TestForeignLeases(t *testing.T) {
	t.Parallel()
	eachWorld(t, 1, func(t *testing.T, w *world) {
		w.into(t, 0, "films", job.Paid, 1)
		sealed := w.claims(t, claim("c1", 1, 0, "films"))[0].Sealed
		for what, c := range map[string]struct {
			key, sealed string
			want        error
		}{
			"another key":     {"other", sealed, job.ErrLeaseLost},
			"no key":          {"", sealed, job.ErrLeaseLost},
			"edited":          {"key", sealed[:40] + "AAAA" + sealed[44:], job.ErrLeaseLost},
			"cut":             {"key", sealed[:3+(len(sealed)-7)/4*4], job.ErrLeaseLost},
			"no lease at all": {"key", "lease", job.ErrBadLease},
		} {
			if e := w.End(t.Context(), c.key, []job.WorkerReport{done(c.sealed)})[0]; !errors.Is(e.Err, c.want) {
				t.Errorf("%s: %+v", what, e)
			}
			pulses, err := w.Heartbeat(t.Context(), c.key, []job.WorkerBeat{{Sealed: c.sealed}})
			bad := errors.Is(c.want, job.ErrBadLease)
			if err != nil || pulses[0].Word != job.Lost || errors.Is(pulses[0].Err, job.ErrBadLease) != bad {
				t.Errorf("%s: %+v, %v", what, pulses, err)
			}
		}
		again := w.claims(t, claim("c1", 1, 0, "films"))[0].Sealed // the claim is repeated: the first lease is over
		if e := w.End(t.Context(), "key", []job.WorkerReport{done(sealed)})[0]; !errors.Is(e.Err, job.ErrLeaseLost) {
			t.Errorf("the first answer's lease: %+v", e)
		}
		other := newWorld(t, w.Env) // any process takes the report
		if e := other.End(t.Context(), "key", []job.WorkerReport{done(again)})[0]; e.How != job.EndCompleted {
			t.Errorf("the repeated claim's lease: %+v", e)
		}
	})
}

// Claims that wait are served in their order, also where some wait for other queues.
func TestWaiting(t *testing.T) {
	t.Parallel()
	for _, partitions := range []int{1, 3} {
		t.Run(fmt.Sprint(partitions, " partitions"), func(t *testing.T) {
			t.Parallel()
			eachWorld(t, partitions, func(t *testing.T, w *world) {
				got := make([]chan []job.ID, 3)
				for i, queues := range [][]string{{"films"}, {"a:b"}, {"a:b", "films"}} {
					got[i] = make(chan []job.ID, 1)
					go func() {
						leases, err := w.Room.Claim(t.Context(), claim(fmt.Sprint("c", i), 1, 30*time.Second, queues...))
						if err != nil {
							t.Error(err)
						}
						got[i] <- idsOf(leases)
					}()
					// it waits, and has found nothing
					waitFor(t, func() bool { return w.line() == i+1 && w.looks.count(fmt.Sprint("c", i)) >= partitions })
				}
				for _, step := range []struct {
					queue string
					who   int
				}{{"films", 0}, {"films", 2}, {"a:b", 1}} {
					id := w.into(t, partitions-1, step.queue, job.Public, 1)
					select {
					case ids := <-got[step.who]:
						if !slices.Equal(ids, id) {
							t.Errorf("claim %d got %v, not %v", step.who, ids, id)
						}
					case <-time.After(20 * time.Second):
						t.Fatalf("claim %d got nothing", step.who)
					}
				}
			})
		})
	}
}

// line is how many claims wait.
func (w *world) line() int {
	w.waiters.mu.Lock()
	defer w.waiters.mu.Unlock()
	return len(w.waiters.line)
}

func waitFor(t *testing.T, is func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); {
		if time.Now().After(end) {
			t.Fatal("it did not happen in 20 s")
		}
		<-time.After(time.Millisecond)
	}
}

// The jobs of a claim whose worker has gone are with the next worker within a second, at no cost.
func TestGone(t *testing.T) {
	t.Parallel()
	eachWorld(t, 1, func(t *testing.T, w *world) {
		id := w.into(t, 0, "films", job.Paid, 1)[0]
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if leases, err := w.Room.Claim(ctx, claim("gone", 1, time.Second, "films")); !errors.Is(err, context.Canceled) ||
			leases != nil {
			t.Fatalf("%+v, %v", leases, err)
		}
		began := time.Now()
		leases := w.claims(t, claim("next", 1, 10*time.Second, "films"))
		if len(leases) != 1 || leases[0].ID != id || leases[0].RetryCount != 0 || time.Since(began) > 5*time.Second {
			t.Fatalf("after %s: %+v", time.Since(began), leases)
		}
		w.GiveBack(leases[0:1]) // its answer could not be sent
		if again := w.claims(t, claim("third", 1, 10*time.Second, "films")); len(again) != 1 || again[0].RetryCount != 0 {
			t.Errorf("%+v", again)
		}
	})
}

// A worker that repeated its claim keeps its jobs, although the process of the first answer releases them.
func TestGoneButRepeated(t *testing.T) {
	t.Parallel()
	eachWorld(t, 1, func(t *testing.T, w *world) {
		w.into(t, 0, "films", job.Paid, 1)
		first := w.claims(t, claim("c", 1, 0, "films"))
		other := newWorld(t, w.Env)
		second := other.claims(t, claim("c", 1, 0, "films"))
		w.GiveBack(first[0:1])
		waitFor(t, func() bool { return w.idle() })
		if e := w.End(t.Context(), "key", []job.WorkerReport{done(second[0].Sealed)})[0]; e.How != job.EndCompleted {
			t.Errorf("%+v", e)
		}
	})
}

// idle says whether no report is under way.
func (w *world) idle() bool {
	for p := range w.lanes {
		for _, l := range w.lanes[p] {
			l.mu.Lock()
			busy := l.busy
			l.mu.Unlock()
			if busy {
				return false
			}
		}
	}
	return true
}

// With several partitions a claim takes the best tier first, and a repeat finds its jobs wherever they are.
func TestPartitions(t *testing.T) {
	t.Parallel()
	eachWorld(t, 3, func(t *testing.T, w *world) {
		public := w.into(t, 0, "films", job.Public, 2)
		paid := w.into(t, 2, "films", job.Paid, 2)
		unpaid := w.into(t, 1, "a:b", job.Unpaid, 1)
		first := w.claims(t, claim("c1", 5, 0, "films", "a:b"))
		if !slices.Equal(idsOf(first), paid) {
			t.Errorf("first %v, not %v", idsOf(first), paid)
		}
		if again := w.claims(t, claim("c1", 5, 0, "films", "a:b")); !slices.Equal(idsOf(again), paid) {
			t.Errorf("again %v, not %v", idsOf(again), paid)
		}
		if second := w.claims(t, claim("c2", 5, 0, "films", "a:b")); !slices.Equal(idsOf(second), unpaid) {
			t.Errorf("then %v, not %v", idsOf(second), unpaid)
		}
		c := claim("c3", 5, 0, "films")
		c.Tiers = []job.Tier{job.Paid, job.Unpaid}
		if got := w.claims(t, c); len(got) != 0 {
			t.Errorf("PAID and UNPAID have %v", idsOf(got))
		}
		c = claim("c4", 5, 0, "films")
		c.Tiers = []job.Tier{job.Public, job.Unpaid}
		if got := w.claims(t, c); !slices.Equal(idsOf(got), public) {
			t.Errorf("UNPAID and PUBLIC have %v, not %v", idsOf(got), public)
		}
		for _, tiers := range [][]job.Tier{{job.Paid, job.Public}, {"GOLD"}} {
			c.Tiers = tiers
			if _, err := w.Room.Claim(t.Context(), c); !errors.Is(err, job.ErrBadTiers) {
				t.Errorf("%v: %v", tiers, err)
			}
		}
	})
}

// A room that drains answers the claims that wait, and takes reports.
func TestDrain(t *testing.T) {
	t.Parallel()
	eachWorld(t, 1, func(t *testing.T, w *world) {
		w.into(t, 0, "films", job.Paid, 1)
		sealed := w.claims(t, claim("c1", 1, 0, "films"))[0].Sealed
		got := make(chan int)
		go func() {
			leases, err := w.Room.Claim(t.Context(), claim("c2", 1, time.Minute, "films"))
			if err != nil {
				t.Error(err)
			}
			got <- len(leases)
		}()
		waitFor(t, func() bool { return w.line() == 1 })
		w.Room.Drain()
		select {
		case n := <-got:
			if n != 0 || !w.Draining() {
				t.Errorf("got %d jobs", n)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("the claim waits on")
		}
		w.into(t, 0, "films", job.Paid, 1)
		if leases := w.claims(t, claim("c3", 1, time.Minute, "films")); len(leases) != 0 {
			t.Errorf("a claim while it drains: %+v", leases)
		}
		if e := w.End(t.Context(), "key", []job.WorkerReport{done(sealed)})[0]; e.How != job.EndCompleted {
			t.Errorf("a report while it drains: %+v", e)
		}
	})
}

// Many claims and reports at once: every job is handed out once, and ends once.
func TestMany(t *testing.T) {
	t.Parallel()
	eachWorld(t, 1, func(t *testing.T, w *world) {
		const jobs, workers = 200, 20
		var mu sync.Mutex
		ended := map[job.ID]int{}
		var group sync.WaitGroup
		for n := range workers {
			group.Go(func() {
				for i := 0; ; i++ {
					c := claim(fmt.Sprintf("c%d", i), 3, 2*time.Second, "films")
					c.Worker = fmt.Sprint("w", n)
					leases, err := w.Room.Claim(t.Context(), c)
					if err != nil {
						t.Error(err)
						return
					}
					if len(leases) == 0 {
						return
					}
					for _, l := range leases {
						e := w.End(t.Context(), "key", []job.WorkerReport{done(l.Sealed)})[0]
						if e.How != job.EndCompleted {
							t.Errorf("%s: %+v", l.ID, e)
						}
						mu.Lock()
						ended[l.ID]++
						mu.Unlock()
					}
				}
			})
		}
		ids := w.into(t, 0, "films", job.Public, jobs)
		group.Wait()
		for _, id := range ids {
			if ended[id] != 1 {
				t.Errorf("%s ended %d times", id, ended[id])
			}
		}
	})
}
