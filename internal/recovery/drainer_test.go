package recovery

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/job"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type outbox func(partition, limit int) ([]job.Outcome, error)

func (f outbox) TakeOutbox(_ context.Context, partition, limit int) ([]job.Outcome, error) {
	return f(partition, limit)
}

type recording func([]job.Outcome) error

func (f recording) Record(_ context.Context, outcomes []job.Outcome) error { return f(outcomes) }

func TestDrainer_TakesUntilEmpty(t *testing.T) {
	left := []int{job.MaxBatch, 3, 0}
	var recorded int
	d := NewDrainer(outbox(func(_, limit int) ([]job.Outcome, error) {
		if limit != job.MaxBatch {
			t.Errorf("limit %d", limit)
		}
		n := left[0]
		left = left[1:]
		return make([]job.Outcome, n), nil
	}), recording(func(o []job.Outcome) error { recorded += len(o); return nil }), 1, quiet)
	if got := d.runOnce(t.Context()); got != drainPace.Floor {
		t.Errorf("next in %s, want %s", got, drainPace.Floor)
	}
	if recorded != 103 {
		t.Errorf("recorded %d, want 103", recorded)
	}
}

// While SQL works, several takes share a transaction. After a failure a transaction has one take, and outcomes
// taken before a failed take are still written.
func TestDrainer_SharesTransactions(t *testing.T) {
	left, broken, down := 12, false, false
	var recorded []int
	d := NewDrainer(outbox(func(int, int) ([]job.Outcome, error) {
		if broken {
			broken = false
			return nil, errIO
		}
		n := min(left, 1)
		left -= n
		if down && left == 5 {
			broken = true
		}
		return make([]job.Outcome, n), nil
	}), recording(func(o []job.Outcome) error {
		recorded = append(recorded, len(o))
		if down {
			return job.ErrUnavailable
		}
		return nil
	}), 1, quiet)
	if err := d.drain(t.Context(), t.Context()); err != nil || !slices.Equal(recorded, []int{1, mostTakes, mostTakes, 1}) {
		t.Errorf("%v, %v", recorded, err)
	}
	left, down, recorded = 12, true, nil
	for range 2 { // five takes in one transaction, then one
		if err := d.drain(t.Context(), t.Context()); !errors.Is(err, job.ErrUnavailable) {
			t.Error(err)
		}
	}
	down = false
	if err := d.drain(t.Context(), t.Context()); err != nil || !slices.Equal(recorded, []int{mostTakes, 1, 1, mostTakes}) {
		t.Errorf("around a failure: %v, %v", recorded, err)
	}
	left, down, recorded = 7, true, nil
	if err := d.drain(t.Context(), t.Context()); !errors.Is(err, errIO) || !slices.Equal(recorded, []int{2}) {
		t.Errorf("a take that failed: %v, %v", recorded, err)
	}
}

// While SQL is down the drainer stops after one batch and waits longer each time, because each take hides outcomes
// for a while.
func TestDrainer_BacksOffWhileSQLIsDown(t *testing.T) {
	t.Attr("proves", "F14")
	takes := 0
	down := true
	d := NewDrainer(outbox(func(int, int) ([]job.Outcome, error) {
		takes++
		if !down && takes > 6 {
			return nil, nil
		}
		return make([]job.Outcome, job.MaxBatch), nil
	}), recording(func([]job.Outcome) error {
		if down {
			return job.ErrUnavailable
		}
		return nil
	}), 1, quiet)
	for i, want := range []time.Duration{1e9, 2e9, 4e9, 5e9, 5e9} {
		if got := d.runOnce(t.Context()); got != want {
			t.Fatalf("run %d: next in %s, want %s", i, got, want)
		}
	}
	if takes != 5 {
		t.Errorf("%d takes in 5 runs, want one each", takes)
	}
	down = false
	if got := d.runOnce(t.Context()); got != 2500*time.Millisecond {
		t.Errorf("after a success: next in %s, want half", got)
	}
}

type promoting func(partition int) (int, error)

func (f promoting) Promote(_ context.Context, partition int) (int, error) { return f(partition) }

func (f promoting) Expire(context.Context, int) (int, error) { return 0, nil }

// expiring is a queue where only jobs are due whose time is over.
type expiring func(partition int) (int, error)

func (f expiring) Promote(context.Context, int) (int, error) { return 0, nil }

func (f expiring) Expire(_ context.Context, partition int) (int, error) { return f(partition) }

func TestPromoter_ExpiresToo(t *testing.T) {
	left := []int{job.MaxBatch, 1}
	woken := 0
	p := NewPromoter(expiring(func(int) (int, error) {
		n := left[0]
		left = left[1:]
		return n, nil
	}), 1, func() { woken++ }, quiet)
	if p.runOnce(t.Context()); woken != 1 || len(left) != 0 {
		t.Errorf("woken %d times, left %v", woken, left)
	}
	p = NewPromoter(expiring(func(int) (int, error) { return 0, errIO }), 1, func() { t.Error("woken for nothing") },
		quiet)
	if got := p.runOnce(t.Context()); got != 2*promotePace.Floor {
		t.Errorf("next in %s after an error", got)
	}
}

func TestPromoter_WakesThePoolForEveryPartition(t *testing.T) {
	t.Attr("proves", "S3-I8")
	left := map[int][]int{0: {job.MaxBatch, 5}, 1: {0}}
	woken := 0
	p := NewPromoter(promoting(func(partition int) (int, error) {
		n := left[partition][0]
		left[partition] = left[partition][1:]
		return n, nil
	}), 2, func() { woken++ }, quiet)
	if got := p.runOnce(t.Context()); got != promotePace.Floor {
		t.Errorf("next in %s", got)
	}
	if woken != 1 || len(left[0]) != 0 || len(left[1]) != 0 {
		t.Errorf("woken %d times, left %v", woken, left)
	}
}

func TestPromoter_BacksOff(t *testing.T) {
	p := NewPromoter(promoting(func(int) (int, error) { return 0, errIO }), 1, func() { t.Error("woken for nothing") },
		quiet)
	for _, want := range []time.Duration{500e6, 1e9, 2e9, 4e9, 5e9} {
		if got := p.runOnce(t.Context()); got != want {
			t.Fatalf("next in %s, want %s", got, want)
		}
	}
}

// A drainer that stops drains once more: the outcomes of the stopping pool must not wait for the next process,
// which in embedded mode would not find them.
func TestDrainer_DrainsOnceMoreWhenItStops(t *testing.T) {
	t.Attr("proves", "F09")
	synctest.Test(t, func(t *testing.T) {
		waiting, recorded := 0, 0
		d := NewDrainer(outbox(func(int, int) ([]job.Outcome, error) {
			n := waiting
			waiting = 0
			return make([]job.Outcome, n), nil
		}), recording(func(o []job.Outcome) error { recorded += len(o); return nil }), 1, quiet)
		if err := d.Stop(t.Context()); err != nil || recorded != 0 { // before Start Stop does nothing
			t.Fatal(err, recorded)
		}
		if err := d.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		waiting = 3
		for range 2 {
			if err := d.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if recorded != 3 {
			t.Errorf("recorded %d, want 3", recorded)
		}
	})
}

// A batch that is being written when the loop stops is completed; otherwise its outcomes would stay hidden from
// the last drain.
func TestDrainer_AStopLosesNoTake(t *testing.T) {
	t.Attr("proves", "F09")
	synctest.Test(t, func(t *testing.T) {
		taken, recorded := 0, 0
		d := NewDrainer(outbox(func(int, int) ([]job.Outcome, error) {
			taken++
			return make([]job.Outcome, 2-min(taken, 2)), nil
		}), slowly(func(ctx context.Context, o []job.Outcome) error {
			select {
			case <-time.After(time.Second):
				recorded += len(o)
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}), 1, quiet)
		if err := d.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := d.Stop(t.Context()); err != nil || taken < 2 || recorded != 1 {
			t.Errorf("%v: %d takes, %d recorded of 1", err, taken, recorded)
		}
	})
}

type slowly func(context.Context, []job.Outcome) error

func (f slowly) Record(ctx context.Context, outcomes []job.Outcome) error { return f(ctx, outcomes) }

// An error in one partition does not affect the others.
func TestLoops_GoOnPastABrokenPartition(t *testing.T) {
	var took []int
	d := NewDrainer(outbox(func(partition, _ int) ([]job.Outcome, error) {
		took = append(took, partition)
		if partition == 0 {
			return nil, errIO
		}
		return nil, nil
	}), recording(func([]job.Outcome) error { return nil }), 3, quiet)
	if err := d.drain(t.Context(), t.Context()); !errors.Is(err, errIO) || !slices.Equal(took, []int{0, 1, 2}) {
		t.Errorf("drained %v, %v", took, err)
	}
	var looked []int
	w := NewWatch(job.Crashed, CrashedPace, reclaimer(func(partition int, _ job.Watch, _ int) ([]job.Reclaimed, error) {
		looked = append(looked, partition)
		if partition == 1 {
			return nil, errIO
		}
		return nil, nil
	}), 3, func(job.Watch, job.Reclaimed) {}, quiet)
	if _, _, err := w.look(t.Context()); !errors.Is(err, errIO) || !slices.Equal(looked, []int{0, 1, 2}) {
		t.Errorf("looked at %v, %v", looked, err)
	}
	var promoted []int
	p := NewPromoter(promoting(func(partition int) (int, error) {
		promoted = append(promoted, partition)
		if partition == 0 {
			return 0, errIO
		}
		return 1, nil
	}), 3, func() {}, quiet)
	if n, err := p.promote(t.Context()); n != 2 || !errors.Is(err, errIO) {
		t.Errorf("promoted %d of %v, %v", n, promoted, err)
	}
}
