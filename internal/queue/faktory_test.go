package queue_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

// The leases that a worker holds are kept for a day, and no other worker's are among them. The audit knows their key,
// which has no part of what clients send.
func TestHeldLeases(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		held := []job.HeldLease{
			{Field: job.HeldField("a", 1), Sealed: "v1.one", Name: "a jid\n{tierq:0}:leases"},
			{Field: job.HeldField("b", 2), Sealed: "v1.two", Name: ""},
		}
		const wid = "*\r\n{tierq:0}:counters"
		for range 2 {
			if err := e.HoldLeases(t.Context(), "key", wid, held); err != nil {
				t.Fatal(err)
			}
		}
		if err := e.HoldLeases(t.Context(), "", "key "+wid, held[:1]); err != nil {
			t.Fatal(err)
		}
		got, err := e.HeldLeases(t.Context(), "key", wid)
		slices.SortFunc(got, func(a, b job.HeldLease) int { return strings.Compare(a.Field, b.Field) })
		if err != nil || !slices.Equal(got, held) {
			t.Errorf("%q, %v", got, err)
		}
		keys := e.AllKeys(t, "{tierq:*faktory*")
		for _, key := range keys {
			if ttl := e.Redis.PTTL(t.Context(), key).Val(); ttl < 23*time.Hour || ttl > 24*time.Hour ||
				len(key) != len("{tierq:0}:faktory:")+32 {
				t.Errorf("%q lives for %s", key, ttl)
			}
			e.Redis.Persist(t.Context(), key)
		}
		if got := kinds(pass(t, e.Queue, unasked)); got != "REPAIRED ttl, REPAIRED ttl" {
			t.Errorf("the audit says %q", got)
		}
		err = e.DropLeases(t.Context(), []job.HeldRef{
			{Key: "key", Worker: wid, Field: held[0].Field}, {Key: "key", Worker: wid, Field: "no"},
			{Key: "", Worker: "key " + wid, Field: held[0].Field}, {Key: "x", Worker: wid, Field: "no"},
		})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := e.HeldLeases(t.Context(), "", "key "+wid); len(got) != 0 || err != nil {
			t.Errorf("the other worker's, which was dropped in the same call: %q, %v", got, err)
		}
		if got, _ := e.HeldLeases(t.Context(), "key", wid); !slices.Equal(got, held[1:]) {
			t.Errorf("after one was dropped: %q, %v", got, err)
		}
		if got, err := e.HeldLeases(t.Context(), "nobody", wid); len(got) != 0 || err != nil {
			t.Errorf("another key's: %q, %v", got, err)
		}
	})
}

func TestFaktoryTotals(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		for range 2 {
			if err := e.CountFaktory(t.Context(), 3, 1); err != nil {
				t.Fatal(err)
			}
		}
		if n, failed, err := e.FaktoryTotals(t.Context()); n != 6 || failed != 2 || err != nil {
			t.Errorf("%d, %d, %v", n, failed, err)
		}
		if found := pass(t, e.Queue, unasked); found != nil {
			t.Errorf("the audit says %v", found)
		}
		err := e.ForgetFaktoryTotals(t.Context())
		if n, failed, _ := e.FaktoryTotals(t.Context()); n != 0 || failed != 0 || err != nil {
			t.Errorf("forgotten: %d, %d, %v", n, failed, err)
		}
	})
}

// ForFaktory declares a queue, marks one that is declared, and takes the mark off. An operator's change keeps it.
func TestForFaktory(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		book := &job.QueueBook{}
		own := queue.New(e.Clients, &job.PlanBook{}, queue.Options{Nonce: "other", Partitions: 1, Queues: book})
		is := func(when string, want job.Queue) {
			t.Helper()
			if err := own.LoadQueues(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got, _ := book.Find(want.Name); !got.Equal(want) {
				t.Errorf("%s: %+v, want %+v", when, got, want)
			}
		}
		mark := func(name string, on bool) {
			t.Helper()
			if err := own.ForFaktory(t.Context(), name, on); err != nil {
				t.Fatal(err)
			}
		}
		mark("films", true)
		mark("films", true)
		is("declared", job.Queue{Name: "films", Faktory: true, Version: 1})
		if _, err := own.StoreQueue(t.Context(), job.Queue{Name: "films", Limit: 7}, 1); err != nil {
			t.Fatal(err)
		}
		is("changed by an operator", job.Queue{Name: "films", Limit: 7, Faktory: true, Version: 2})
		mark("films", false)
		is("removed", job.Queue{Name: "films", Limit: 7, Version: 3})
		mark("films", true)
		is("marked again", job.Queue{Name: "films", Limit: 7, Faktory: true, Version: 4})
		mark("unknown", false)
		if _, known := book.Find("unknown"); known {
			t.Error("a queue was declared as it was removed")
		}
		for _, name := range []string{"main", "a b", ""} {
			if err := own.ForFaktory(t.Context(), name, true); !errors.Is(err, job.ErrBadQueue) {
				t.Errorf("%q: %v", name, err)
			}
		}
	})
}

// QueueCounts and OldestIn say what there is at this moment.
func TestQueueCounts(t *testing.T) {
	t.Parallel()
	declared := declare([]string{"films", "a:b"})
	queuetest.EachWith(t, func(o *queue.Options) { declared(o); o.Partitions, o.Serves = 2, []string{"films"} }, func(
		t *testing.T, e *queuetest.Env,
	) {
		began := time.UnixMilli(e.Now(t))
		for i := range 6 {
			s := queuetest.Job([]job.Tier{job.Paid, job.Public}[i%2])
			s.ID, s.Queue = queuetest.NewID(i%2), []string{"films", "a:b", "films"}[i%3]
			if i == 5 {
				s.Delay = time.Hour
			}
			if replies, err := e.Submit(t.Context(), i%2, []job.Submission{s}); err != nil || replies[0].Word != job.OK {
				t.Fatal(replies, err)
			}
		}
		e.Take(t, 1)
		got, err := e.QueueCounts(t.Context())
		want := "map[a:b:{2 0 0 0} films:{2 1 1 1}]"
		if fmt.Sprint(got) != want || err != nil {
			t.Errorf("%v, %v, want %s", got, err, want)
		}
		since, err := e.OldestIn(t.Context(), "a:b")
		if err != nil || since.Before(began) || since.After(began.Add(time.Minute)) {
			t.Errorf("the oldest is ready since %s, %v; it was submitted after %s", since, err, began)
		}
		if since, err := e.OldestIn(t.Context(), "none"); !since.IsZero() || err != nil {
			t.Errorf("an empty queue: %s, %v", since, err)
		}
	})
}
