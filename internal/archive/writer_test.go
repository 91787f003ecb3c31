package archive_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/archive/archivetest"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/testkit"
)

func TestOfferNeverBlocks(t *testing.T) {
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		reached, release := make(chan struct{}, 16), make(chan struct{})
		r := &redis{answer: func(context.Context, int, []job.Ack) error {
			reached <- struct{}{}
			<-release
			return nil
		}}
		w := archive.NewWriter(s.Archive, r, archive.WriterOptions{Limit: 10})
		if w.Offer(completed(1)) {
			t.Error("taken before Start")
		}
		if err := w.Record(t.Context(), many(1)); !errors.Is(err, job.ErrUnavailable) {
			t.Errorf("record before Start: %v", err)
		}
		if err := w.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		// Redis hangs: one batch is being acknowledged, one is ready, one is written and cannot be passed on.
		n := 0
		offer := func() bool { n++; return w.Offer(completed(n)) }
		drained := func() (bool, string) { return w.Stats().Waiting == 0, "outcomes wait" }
		offer()
		<-reached
		for range 2 {
			offer()
			testkit.Eventually(t, 10*time.Second, "the next batch is taken", drained)
		}
		taken := 0
		for range 50 {
			if offer() {
				taken++
			}
		}
		if taken != 10 || w.Stats().Waiting != 10 {
			t.Errorf("%d taken, %+v, want the limit of 10", taken, w.Stats())
		}
		close(release)
		stop(t, w)
		if rows := s.CountOutcomes(t, ""); rows != 13 || r.count() != 13 {
			t.Errorf("Stop left %d rows and %d acknowledged, want 13", rows, r.count())
		}
		if w.Offer(completed(99)) {
			t.Error("taken after Stop")
		}
		if err := w.Record(t.Context(), many(1)); !errors.Is(err, job.ErrUnavailable) {
			t.Errorf("record after Stop: %v", err)
		}
		stop(t, w)
	})
}

func stop(t *testing.T, w *archive.Writer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := w.Stop(ctx); err != nil {
		t.Errorf("stop: %v", err)
	}
}

func TestOfferIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	archivetest.Each(t, func(t *testing.T, a *archive.Archive) {
		w := start(t, a, &redis{}, archive.WriterOptions{LimitBytes: 10_000})
		large := completed(1)
		large.Result = []byte(strings.Repeat("x", 10_000))
		if w.Offer(large) {
			t.Error("an outcome over the limit was taken")
		}
		withPayload := completed(2)
		withPayload.Payload = large.Result // not stored for a completed job
		if !w.Offer(withPayload) {
			t.Error("refused for a payload that nobody keeps")
		}
	})
}

func TestStopBeforeStart(t *testing.T) {
	t.Parallel()
	archivetest.Each(t, func(t *testing.T, a *archive.Archive) {
		w := archive.NewWriter(a, &redis{}, archive.WriterOptions{})
		stop(t, w)
		stop(t, w)
		if err := w.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if w.Offer(completed(1)) {
			t.Error("a stopped writer started")
		}
	})
}

// While Redis takes long to acknowledge one batch, the next is already written to SQL.
func TestAcknowledgingOverlapsWriting(t *testing.T) {
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		reached, release := make(chan struct{}, 4), make(chan struct{})
		r := &redis{answer: func(context.Context, int, []job.Ack) error {
			reached <- struct{}{}
			<-release
			return nil
		}}
		w := start(t, s.Archive, r, archive.WriterOptions{})
		defer close(release)
		w.Offer(completed(1))
		<-reached
		w.Offer(completed(2))
		testkit.Eventually(t, 10*time.Second, "the second row", func() (bool, string) {
			return s.CountOutcomes(t, "") == 2, "not there"
		})
	})
}

func TestStopIsBounded(t *testing.T) {
	t.Parallel()
	archivetest.Each(t, func(t *testing.T, a *archive.Archive) {
		reached := make(chan struct{}, 1)
		w := archive.NewWriter(a, &redis{answer: func(ctx context.Context, _ int, _ []job.Ack) error {
			reached <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		}}, archive.WriterOptions{})
		if err := w.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		waiting := make(chan error, 1)
		go func() { waiting <- w.Record(context.Background(), many(1)) }()
		<-reached
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = w.Stop(ctx) // nothing is left: the row is in SQL
		if err := <-waiting; err == nil {
			t.Error("Record said nil although Redis was never told")
		}
	})
}

func TestRecordEndsWithItsContext(t *testing.T) {
	t.Parallel()
	archivetest.Each(t, func(t *testing.T, a *archive.Archive) {
		release := make(chan struct{})
		defer close(release)
		w := start(t, a, &redis{answer: func(context.Context, int, []job.Ack) error { <-release; return nil }},
			archive.WriterOptions{})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := w.Record(ctx, many(1)); !errors.Is(err, job.ErrUnavailable) || !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		if err := w.Record(t.Context(), nil); err != nil {
			t.Errorf("nothing to record: %v", err)
		}
	})
}

func TestNotAnEnding(t *testing.T) {
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		w := start(t, s.Archive, &redis{}, archive.WriterOptions{})
		living := completed(1)
		living.Status = job.Processing
		record(t, w, living, completed(2))
		if w.Offer(living) {
			t.Error("a living job was taken")
		}
		if n := s.CountOutcomes(t, ""); n != 1 || w.Stats().Refused != 2 {
			t.Errorf("%d outcomes, %+v", n, w.Stats())
		}
	})
}

// An entry whose caller gave up is removed, so that repeated calls of the drainer do not pile up while a database
// does not answer. Recorded outcomes go before offered ones.
func TestRecordLeavesNothingBehind(t *testing.T) {
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		reached, release := make(chan struct{}, 16), make(chan struct{})
		answers := sync.OnceFunc(func() { close(release) })
		defer answers()
		r := &redis{answer: func(context.Context, int, []job.Ack) error {
			reached <- struct{}{}
			<-release
			return nil
		}}
		w := start(t, s.Archive, r, archive.WriterOptions{})
		drained := func() (bool, string) { return w.Stats().Waiting == 0, "outcomes wait" }
		w.Offer(completed(1))
		<-reached
		for n := 2; n <= 3; n++ { // one batch is ready to be acknowledged, one cannot be passed on
			w.Offer(completed(n))
			testkit.Eventually(t, 10*time.Second, "the next batch is taken", drained)
		}
		w.Offer(completed(4))
		for range 3 {
			ctx, cancel := context.WithCancel(t.Context())
			given := make(chan error, 1)
			go func() { given <- w.Record(ctx, []job.Outcome{completed(10), completed(11)}) }()
			testkit.Eventually(t, 10*time.Second, "it waits", func() (bool, string) { return w.Stats().Waiting == 3, "not yet" })
			cancel()
			if err := <-given; !errors.Is(err, job.ErrUnavailable) || w.Stats().Waiting != 1 {
				t.Errorf("%v, %d still wait", err, w.Stats().Waiting)
			}
		}
		recorded := make(chan error, 1)
		go func() { recorded <- w.Record(t.Context(), []job.Outcome{completed(12)}) }()
		testkit.Eventually(t, 10*time.Second, "it waits", func() (bool, string) { return w.Stats().Waiting == 2, "not yet" })
		if first := archive.FirstWaiting(w); first != completed(12).ID {
			t.Errorf("%s goes first, want what somebody waits for", first)
		}
		answers()
		if err := <-recorded; err != nil {
			t.Error(err)
		}
		stop(t, w)
		if n := s.CountOutcomes(t, ""); n != 5 {
			t.Errorf("%d outcomes, want 5: none that was given up", n)
		}
	})
}

// A caller that waits for a row gets the channel, reads, and reads again when the channel is closed: SQL then has
// one more batch.
func TestWritten(t *testing.T) {
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		w := archive.NewWriter(s.Archive, &redis{}, archive.WriterOptions{})
		if err := w.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		for n := range 3 {
			written := w.Written()
			select {
			case <-written:
				t.Fatal("closed before anything was written")
			default:
			}
			w.Offer(completed(n + 1))
			select {
			case <-written:
			case <-time.After(20 * time.Second):
				t.Fatal("not closed")
			}
			if rows := s.CountOutcomes(t, ""); rows != n+1 {
				t.Errorf("closed with %d rows, want %d", rows, n+1)
			}
		}
		stop(t, w)
	})
}
