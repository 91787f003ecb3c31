package archive_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/archive/archivetest"
	"github.com/tierq/tierq/internal/job"
)

// audience hears announcements.
type audience struct {
	mu     sync.Mutex
	heard  []job.Outcome
	answer func(ctx context.Context, outcomes []job.Outcome) error // nil: no error
}

func (a *audience) announce(ctx context.Context, outcomes []job.Outcome) error {
	if a.answer != nil {
		if err := a.answer(ctx, outcomes); err != nil {
			return err
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.heard = append(a.heard, outcomes...)
	return nil
}

func called(o job.Outcome) job.Outcome {
	o.CallbackURL = "https://example.com/done"
	return o
}

// The outcome and its attempts are in SQL when it is announced, and it is announced before Redis may forget it.
func TestAnnounce(t *testing.T) {
	t.Attr("proves", "S4-P8")
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		r := &redis{}
		au := &audience{answer: func(ctx context.Context, outcomes []job.Outcome) error {
			for _, o := range outcomes {
				if n := s.Count(t, "job_outcomes WHERE job_id = ?", string(o.ID)); n != 1 {
					t.Errorf("%s announced with %d outcomes in SQL", o.ID, n)
				}
				if n := s.Count(t, "job_attempts WHERE job_id = ?", string(o.ID)); n != len(o.Attempts) {
					t.Errorf("%s announced with %d attempts in SQL, want %d", o.ID, n, len(o.Attempts))
				}
				if r.ack(o.ID).ID != "" {
					t.Errorf("%s was acknowledged first", o.ID)
				}
			}
			if _, bounded := ctx.Deadline(); !bounded {
				t.Error("a call without a deadline")
			}
			return nil
		}}
		w := start(t, s.Archive, r, archive.WriterOptions{Announce: au.announce})
		dead := called(failed(2))
		dead.Status = job.NeedDiscard
		record(t, w, called(completed(1)), dead, called(cancelled(3)), completed(4))
		want := []job.Outcome{called(completed(1)), called(failed(2))}
		want[0].Payload = nil
		if diff := cmp.Diff(want, au.heard); diff != "" {
			t.Errorf("heard (-want +got):\n%s", diff)
		}
		if r.count() != 4 {
			t.Errorf("%d acknowledged, want all 4", r.count())
		}
	})
}

func TestAnnounceFails(t *testing.T) {
	t.Attr("proves", "S4-P8")
	t.Parallel()
	archivetest.Each(t, func(t *testing.T, a *archive.Archive) {
		r, deaf := &redis{}, errors.New("nobody listens")
		au := &audience{answer: func(context.Context, []job.Outcome) error { return deaf }}
		w := start(t, a, r, archive.WriterOptions{Announce: au.announce})
		batch := []job.Outcome{called(completed(1)), completed(2), called(cancelled(3))}
		if err := w.Record(t.Context(), batch); !errors.Is(err, deaf) || !errors.Is(err, job.ErrUnannounced) {
			t.Errorf("%v, want the announcement's error", err)
		}
		w.Offer(called(failed(4)))
		stop(t, w)
		if r.count() != 2 || r.ack(id(1)).ID != "" || r.ack(id(4)).ID != "" {
			t.Errorf("%d acknowledged, want the bystanders 2 and 3", r.count())
		}
		if st := w.Stats(); st.Unannounced != 2 || st.Unacknowledged != 2 || st.Written != 4 {
			t.Errorf("%+v", st)
		}
		// The outbox brings them again, to whoever writes then.
		au.answer = nil
		w = start(t, a, r, archive.WriterOptions{Announce: au.announce})
		record(t, w, called(completed(1)), called(failed(4)))
		if len(au.heard) != 2 || r.count() != 4 || w.Stats().Written != 0 {
			t.Errorf("%d announced, %d acknowledged, %+v", len(au.heard), r.count(), w.Stats())
		}
	})
}

// Where the two stores disagree SQL's ending is announced, with SQL's words.
func TestAnnounceSaysWhatSQLHolds(t *testing.T) {
	t.Parallel()
	archivetest.Each(t, func(t *testing.T, a *archive.Archive) {
		record(t, start(t, a, &redis{}, archive.WriterOptions{}), called(completed(1)), called(failed(2)), called(cancelled(3)), called(failed(4)))
		second := completed(4)
		second.Generation = 2
		au, r := &audience{}, &redis{}
		w := start(t, a, r, archive.WriterOptions{Announce: au.announce})
		record(t, w, second)

		another := called(completed(4)) // its second life has ended: that one's ending is what counts
		record(t, w, called(failed(1)), called(completed(2)), called(completed(3)), another)
		slices.SortFunc(au.heard, func(x, y job.Outcome) int { return int(x.ID[33]) - int(y.ID[33]) })
		if len(au.heard) != 2 {
			t.Fatalf("%d announced, want 2", len(au.heard))
		}
		one, two := au.heard[0], au.heard[1]
		if one.Status != job.Completed || string(one.Result) != string(completed(1).Result) || one.CallbackURL == "" || one.Cause != "" {
			t.Errorf("%+v", one)
		}
		if two.Status != job.Failed || two.Result != nil || two.Cause != job.HeartbeatStopped || two.CallbackURL == "" {
			t.Errorf("%+v", two)
		}
		if r.count() != 4 {
			t.Errorf("%d acknowledged, want 4", r.count())
		}
	})
}
