package archive_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/archive/archivetest"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/testkit"
)

func merged(a, b map[string]any) map[string]any {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// halted returns a journal that has committed submitting(0) and then stops before it settles the call, until the
// test calls release. first gets the result of that call.
func halted(t *testing.T, s *archivetest.Store, o archive.JournalOptions) (j *archive.Journal, release func(),
	first <-chan error) {
	t.Helper()
	reached, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	o.Observe = func(error) { once.Do(func() { close(reached); <-goOn }) }
	j = journal(t, s.Archive, o)
	told := make(chan error, 1)
	go func() { told <- submit(context.Background(), j, submitting(0)) }()
	<-reached
	release = sync.OnceFunc(func() { close(goOn) })
	t.Cleanup(release)
	return j, release, told
}

// later makes a call in a goroutine and returns when n rows wait. The channel gets the call's result.
func later(t *testing.T, j *archive.Journal, n int, call func() error) <-chan error {
	t.Helper()
	told := make(chan error, 1)
	go func() { told <- call() }()
	testkit.Eventually(t, within, "the call waits",
		func() (bool, string) { return j.Stats().Waiting == n, fmt.Sprintf("%+v", j.Stats()) })
	return told
}

// Calls of all kinds that arrive during a transaction go into the next one together, and Stop writes what waits.
func TestJournalGathers(t *testing.T) {
	t.Parallel()
	archivetest.EachJournal(t, func(t *testing.T, s *archivetest.Store) {
		j, release, first := halted(t, s, archive.JournalOptions{})
		ctx := context.Background()
		calls := []<-chan error{
			first,
			later(t, j, 2, func() error { return submit(ctx, j, living(1), living(2)) }),
			later(t, j, 3, func() error { return j.Claimed(ctx, []job.Lease{lease(1, 1, 1)}) }),
			later(t, j, 4, func() error { return j.Claimed(ctx, []job.Lease{lease(3, 1, 1)}) }),
			later(t, j, 5, func() error { return j.Waits(ctx, []job.Waits{{ID: id(1), Attempt: 1, Spent: 1}}) }),
			later(t, j, 6, func() error { return submit(ctx, j, living(3)) }), // its claim arrived first
			later(t, j, 8, func() error {
				gone, err := j.TakeBack(ctx, []job.JournalRow{submitting(0), living(2)})
				if err == nil && !slices.Equal(gone, []bool{true, false}) {
					err = fmt.Errorf("gone: %v", gone)
				}
				return err
			}),
		}
		stopped := make(chan error, 1)
		go func() { stopped <- j.Stop(ctx) }()
		testkit.Eventually(t, within, "nothing more is taken", func() (bool, string) {
			soon, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
			defer cancel()
			err := submit(soon, j, living(9))
			return strings.Contains(err.Error(), "does not run"), err.Error()
		})
		release()
		for _, told := range calls {
			done(t, <-told)
		}
		done(t, <-stopped)
		done(t, j.Stop(ctx))
		if st := j.Stats(); st.Written != 9 || st.Batches != 2 || st.Waiting != 0 {
			t.Errorf("%+v", st)
		}
		ran := map[string]any{"attempt": int64(1), "first_tried_at": "2025-11-24 16:00:01.123000"}
		check(t, "claimed and waiting", accepted(t, s, 1), fresh(1, merged(ran, map[string]any{"retry_count": int64(1)})))
		check(t, "waiting", accepted(t, s, 2), fresh(2, nil))
		// A transaction writes its rows before its claims.
		check(t, "claimed first", accepted(t, s, 3), fresh(3, merged(ran, map[string]any{
			"started_at": "2025-11-24 16:00:01.123000", "worker": "host:1", "lease_token": "t", "lease_ms": int64(5000),
		})))
		if n := s.Count(t, "accepted_jobs"); n != 3 {
			t.Errorf("%d rows, want 3: one was taken back, one was refused", n)
		}
		if err := submit(ctx, j, living(9)); !refused(err) {
			t.Errorf("after Stop: %v", err)
		}
	})
}

func TestJournalStartsAndStops(t *testing.T) {
	t.Parallel()
	archivetest.EachJournal(t, func(t *testing.T, s *archivetest.Store) {
		j := archive.NewJournal(s.Archive, archive.JournalOptions{})
		if err := submit(t.Context(), j, living(1)); !refused(err) {
			t.Errorf("before Start: %v", err)
		}
		if gone, err := j.TakeBack(t.Context(), []job.JournalRow{submitting(1)}); gone != nil || !refused(err) {
			t.Errorf("before Start: %v, %v", gone, err)
		}
		done(t, j.Start(t.Context()))
		done(t, j.Start(t.Context()))
		done(t, submit(t.Context(), j))
		done(t, j.Stop(t.Context()))
		done(t, j.Start(t.Context()))
		if err := submit(t.Context(), j, living(1)); !refused(err) {
			t.Errorf("started again: %v", err)
		}
		other := archive.NewJournal(s.Archive, archive.JournalOptions{})
		done(t, other.Stop(t.Context()))
	})
}

// Waiting rows are bounded in number and bytes. A call that does not fit is refused at once.
func TestJournalIsBounded(t *testing.T) {
	t.Parallel()
	archivetest.EachJournal(t, func(t *testing.T, s *archivetest.Store) {
		j, release, first := halted(t, s, archive.JournalOptions{Limit: 3, LimitBytes: 10_000})
		two := later(
			t,
			j,
			2,
			func() error { return submit(context.Background(), j, living(1), living(2)) },
		)
		if err := submit(t.Context(), j, living(3), living(4)); !refused(err) {
			t.Errorf("over the limit: %v", err)
		}
		large := living(5)
		large.Payload = make([]byte, 10_000)
		if err := submit(t.Context(), j, large); !refused(err) {
			t.Errorf("over the limit in bytes: %v", err)
		}
		third := later(t, j, 3, func() error { return submit(context.Background(), j, living(6)) })
		release()
		for _, told := range []<-chan error{first, two, third} {
			done(t, <-told)
		}
		if n := s.Count(t, "accepted_jobs"); n != 4 {
			t.Errorf("%d rows", n)
		}
	})
}

// A caller that gives up learns what is known: its waiting rows are removed, and its sent rows may be in SQL.
func TestJournalCallerGoes(t *testing.T) {
	t.Parallel()
	archivetest.EachJournal(t, func(t *testing.T, s *archivetest.Store) {
		goOn, reached := make(chan struct{}), make(chan struct{}, 9)
		j := journal(t, s.Archive, archive.JournalOptions{Observe: func(error) { reached <- struct{}{}; <-goOn }})
		ctx, leave := context.WithCancel(t.Context())
		sent, waiting := make(chan error, 1), make(chan error, 1)
		go func() { sent <- submit(ctx, j, living(1)) }()
		<-reached
		go func() { waiting <- submit(ctx, j, living(2)) }()
		stays := later(t, j, 2, func() error { return submit(context.Background(), j, living(3)) })
		leave()
		if err := <-sent; !lost(err) {
			t.Errorf("sent: %v", err)
		}
		if err := <-waiting; !refused(err) {
			t.Errorf("waiting: %v", err)
		}
		close(goOn)
		done(t, <-stays)
		if n := s.Count(t, "accepted_jobs WHERE job_id <> ?", string(id(2))); n != 2 || s.Count(t, "accepted_jobs") != 2 {
			t.Errorf("%d rows of %d", n, s.Count(t, "accepted_jobs"))
		}
	})
}

// Concurrent callers share transactions; a call of many rows takes several.
func TestJournalManyCallers(t *testing.T) {
	t.Parallel()
	archivetest.EachJournal(t, func(t *testing.T, s *archivetest.Store) {
		j := journal(t, s.Archive, archive.JournalOptions{})
		var all sync.WaitGroup
		for n := range 200 {
			all.Go(func() {
				if err := submit(t.Context(), j, living(n)); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if st := j.Stats(); st.Written != 200 || st.Batches >= 150 || s.Count(t, "accepted_jobs") != 200 {
			t.Errorf("%+v, %d rows", st, s.Count(t, "accepted_jobs"))
		}
		large := make([]job.JournalRow, 1200)
		for i := range large {
			large[i] = living(1000 + i)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		before := j.Stats().Batches
		done(t, submit(ctx, j, large...))
		if n := j.Stats().Batches - before; s.Count(t, "accepted_jobs") != 1400 || n != 3 {
			t.Errorf("%d rows, %d transactions", s.Count(t, "accepted_jobs"), n)
		}
	})
}
