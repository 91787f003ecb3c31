package recovery

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// promises is what SQL and Redis hold of promised requeues: those not kept, the oldest first, and which of them cannot be kept yet.
type promises struct {
	open   []job.DeadLetter
	stuck  map[job.ID]bool
	down   error
	limits []int
	told   []job.ID
	lost   []job.DeadLetter // what Recall promises again
	torn   error            // of Recall
	still  time.Duration    // the process stands still after a page was read
	late   bool             // Keep was asked when its time was over
}

func (p *promises) Recall(context.Context) error {
	if p.torn == nil {
		p.open, p.lost = append(p.open, p.lost...), nil
	}
	return p.torn
}

func (p *promises) Promised(_ context.Context, olderThan time.Duration, limit int) ([]job.DeadLetter, error) {
	if olderThan != promiseAge {
		return nil, fmt.Errorf("asked for %s", olderThan)
	}
	p.limits = append(p.limits, limit)
	defer func() { <-time.After(p.still) }()
	return slices.Clone(p.open[:min(limit, len(p.open))]), nil
}

func (p *promises) Keep(ctx context.Context, letters []job.DeadLetter) ([]bool, error) {
	kept := make([]bool, len(letters))
	p.late = p.late || ctx.Err() != nil
	for i, d := range letters {
		p.told = append(p.told, d.ID)
		kept[i] = p.down == nil && !p.stuck[d.ID]
	}
	p.open = slices.DeleteFunc(p.open, func(d job.DeadLetter) bool {
		i := slices.IndexFunc(letters, func(l job.DeadLetter) bool { return l.ID == d.ID })
		return i >= 0 && kept[i]
	})
	return kept, p.down
}

func promisesOf(n int) *promises {
	p := &promises{stuck: map[job.ID]bool{}}
	for i := range n {
		p.open = append(p.open, job.DeadLetter{Job: job.Job{ID: job.ID(fmt.Sprint("job ", i)), Generation: 1}})
	}
	return p
}

func TestRequeuer_KeepsAllPromises(t *testing.T) {
	t.Attr("proves", "S0-S7 S1-S5 S3-I8")
	p := promisesOf(2*job.MaxBatch + 7)
	r := NewRequeuer(p, p, quiet)
	if got := r.runOnce(t.Context()); got != requeuePace.Floor {
		t.Errorf("next in %s", got)
	}
	if len(p.open) != 0 || len(p.told) != 207 {
		t.Errorf("%d left after %d were tried", len(p.open), len(p.told))
	}
	if r.runOnce(t.Context()); len(p.told) != 207 {
		t.Error("tried what was kept")
	}
}

// What cannot be kept yet is tried once a run, and holds up nobody behind it.
func TestRequeuer_PagesPastThoseThatStay(t *testing.T) {
	p := promisesOf(3 * job.MaxBatch)
	for i := range job.MaxBatch + 20 {
		p.stuck[p.open[i].ID] = true
	}
	r := NewRequeuer(p, p, quiet)
	r.runOnce(t.Context())
	if len(p.open) != job.MaxBatch+20 || len(p.told) != 3*job.MaxBatch {
		t.Errorf("%d left after %d were tried, pages of %v", len(p.open), len(p.told), p.limits)
	}
	clear(p.stuck)
	r.runOnce(t.Context())
	if len(p.open) != 0 {
		t.Errorf("%d left although they can be kept now", len(p.open))
	}
	all := promisesOf(10 * job.MaxBatch)
	for _, d := range all.open {
		all.stuck[d.ID] = true
	}
	NewRequeuer(all, all, quiet).runOnce(t.Context())
	if longest := slices.Max(all.limits); longest > maxStayed+job.MaxBatch {
		t.Errorf("a page of %d", longest)
	}
}

// An outage ends a run after one page, and the next ones come later and later; a wake makes one come at once.
func TestRequeuer_BacksOffAndWakes(t *testing.T) {
	t.Attr("proves", "F14")
	synctest.Test(t, func(t *testing.T) {
		p := promisesOf(job.MaxBatch + 1)
		p.down = job.ErrUnavailable
		r := NewRequeuer(p, p, quiet)
		for _, want := range []time.Duration{10e9, 20e9, 30e9, 30e9} {
			if got := r.runOnce(t.Context()); got != want {
				t.Fatalf("next in %s, want %s", got, want)
			}
		}
		if len(p.told) != 4*job.MaxBatch {
			t.Errorf("%d tried in 4 runs", len(p.told))
		}
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		p.down = nil
		r.Wake()
		synctest.Wait()
		if len(p.open) != 0 {
			t.Errorf("%d left", len(p.open))
		}
		for range 2 {
			if err := r.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// What Redis forgot is promised again and kept in the same run; while that cannot be found out, other promises are kept all the same.
func TestRequeuer_Recalls(t *testing.T) {
	t.Attr("proves", "F19")
	p := promisesOf(3)
	p.open, p.lost = p.open[:2], p.open[2:]
	p.torn = job.ErrUnavailable
	r := NewRequeuer(p, p, quiet)
	if got := r.runOnce(t.Context()); got <= requeuePace.Floor || len(p.open) != 0 || len(p.lost) != 1 {
		t.Errorf("SQL torn: next in %s, %d open, %d lost", got, len(p.open), len(p.lost))
	}
	p.torn = nil
	if r.runOnce(t.Context()); len(p.told) != 3 || len(p.open) != 0 {
		t.Errorf("told %v, %d open", p.told, len(p.open))
	}
}

// A promise that was read before the process stood still is not carried out: Keep finds that its time is over.
func TestRequeuer_StoodStill(t *testing.T) {
	for _, still := range []time.Duration{0, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			p := promisesOf(1)
			p.still = still
			NewRequeuer(p, p, quiet).runOnce(t.Context())
			if len(p.told) != 1 || p.late != (still > 0) {
				t.Errorf("after %s: told %v, late: %v", still, p.told, p.late)
			}
		})
	}
}
