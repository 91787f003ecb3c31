package archive_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/archive/archivetest"
	"github.com/tierq/tierq/internal/job"
)

// owedPlaces are the places of what a batch will owe: a then job and a callback.
func owedPlaces(b *job.Batch) []job.Reservation {
	var places []job.Reservation
	for _, what := range []string{"then", "callback"} {
		places = append(places, job.Reservation{ID: b.OwedID(what), Tier: b.Tier, Owner: b.Owner, Waits: true, Batch: b.ID})
	}
	return places
}

// Places reads what needs a place, page by page: WAITING jobs, jobs with a row, and what open batches owe.
// NeededPlaces says of each of them that SQL has it, and of others that it has not.
func TestPlaces(t *testing.T) {
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		ctx := t.Context()
		s.PlacesOfBatches(owedPlaces)
		s.OwesOfBatches(func(*job.Batch) []job.JournalRow { return nil })
		createFlow(t, s.Archive, flowJob("a", job.FlowCancels), flowJob("b", job.FlowCancels, "a"),
			flowJob("c", job.FlowCancels, "a"))
		b := job.Batch{ID: batchID(1), Name: "import", Owner: "key-1", Tier: job.Paid}
		if _, _, err := s.CreateBatch(ctx, b, job.Idempotency{}); err != nil {
			t.Fatal(err)
		}
		b.Round = 1
		of := func(name string) job.ID { return job.FlowJobID(flowID, name, 0) }
		bytes := len(`{"of":"a"}`)
		want := map[job.ID]string{
			of("a"): "ready", of("b"): "waits", of("c"): "waits", b.OwedID("then"): "waits of", b.OwedID("callback"): "waits of",
		}
		got := map[job.ID]string{}
		for cursor, more := "", true; more; more = cursor != "" {
			page, next, err := s.Places(ctx, cursor, 2)
			if err != nil || len(page) > 2 {
				t.Fatal(len(page), err)
			}
			for _, r := range page {
				word := map[bool]string{true: "waits", false: "ready"}[r.Waits]
				if r.Batch != "" {
					word += " of"
				} else if r.Bytes != bytes || r.Generation != 1 || r.Flow != flowID {
					t.Errorf("%+v", r)
				}
				if r.Tier != job.Paid || r.Owner != "key-1" || r.Started {
					t.Errorf("%+v", r)
				}
				got[r.ID] = word
			}
			cursor = next
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
		needs := func() (needed []job.ID) {
			t.Helper()
			places := []job.Reserved{{ID: id(99)}, {ID: b.OwedID("other"), Batch: b.ID}}
			for _, one := range slices.Sorted(maps.Keys(want)) {
				place := job.Reserved{ID: one}
				if want[one] == "waits of" {
					place.Batch = b.ID
				}
				places = append(places, place)
			}
			if err := s.NeededPlaces(ctx, places); err != nil {
				t.Fatal(err)
			}
			for _, place := range places {
				if place.Needed {
					needed = append(needed, place.ID)
				}
			}
			return needed
		}
		if got, all := needs(), slices.Sorted(maps.Keys(want)); !slices.Equal(got, all) {
			t.Errorf("needed are %v, not %v", got, all)
		}
		var freed []job.ID
		s.FreePlaces(func(ids []job.ID) { freed = append(freed, ids...) })
		s.TellCancelled(func(jobs []job.Job) {
			for i := range jobs {
				freed = append(freed, jobs[i].ID)
			}
		})
		if _, err := s.CancelFlow(ctx, flowID, "", flowTime); err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.SealBatch(ctx, b.ID, false); err != nil { // it has no member, and owes nothing here
			t.Fatal(err)
		}
		gone := []job.ID{of("b"), of("c"), b.OwedID("then"), b.OwedID("callback")}
		slices.Sort(gone)
		if slices.Sort(freed); !slices.Equal(freed, gone) {
			t.Errorf("given back are %v, not %v", freed, gone)
		}
		if got := needs(); !slices.Equal(got, []job.ID{of("a")}) {
			t.Errorf("needed are %v, after the rest has ended", got)
		}
	})
}

// The place of a callback is needed until SQL has the end of its job, and then as long as the callback lives.
func TestPlaces_OfCallbacks(t *testing.T) {
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		w := start(t, s.Archive, &nobody{}, archive.WriterOptions{Owes: func(o *job.Outcome) (job.JournalRow, bool) {
			l := living(1)
			l.ID, l.Incarnation = job.CallbackID(o.ID, o.Generation), ""
			return l, o.Generation == 1
		}})
		place := func(generation int) job.Reserved {
			return job.Reserved{ID: job.CallbackID(id(1), generation), Ended: fmt.Sprintf("%s:%d", id(1), generation)}
		}
		needed := func(want ...bool) {
			t.Helper()
			places := []job.Reserved{place(1), place(2)}
			if err := s.NeededPlaces(t.Context(), places); err != nil {
				t.Fatal(err)
			}
			if got := []bool{places[0].Needed, places[1].Needed}; !slices.Equal(got, want) {
				t.Errorf("%v are needed, not %v", got, want)
			}
		}
		needed(true, true)
		o := failed(1)
		o.CallbackURL = "https://example.com/"
		record(t, w, o)
		needed(true, true)
		o = completed(1)
		o.Generation = 2
		record(t, w, o)
		needed(true, false)
		o = completed(2)
		o.ID = job.CallbackID(id(1), 1)
		record(t, w, o)
		needed(false, false)
	})
}
