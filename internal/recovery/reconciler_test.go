package recovery

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/job"
)

type reconciling struct {
	calls atomic.Int64
	down  atomic.Bool
}

func (r *reconciling) Reconcile(context.Context) (int, error) {
	r.calls.Add(1)
	if r.down.Load() {
		return 0, job.ErrUnavailable
	}
	return 0, nil
}

// The reconciler checks at once, every five seconds, and when it is woken; after errors it checks less and less
// often.
func TestReconciler(t *testing.T) {
	t.Attr("proves", "F19")
	synctest.Test(t, func(t *testing.T) {
		l := &reconciling{}
		r := NewReconciler(l, quiet)
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		<-time.After(11 * time.Second)
		synctest.Wait()
		if n := l.calls.Load(); n != 3 {
			t.Errorf("%d looks in eleven seconds", n)
		}
		l.down.Store(true)
		r.Wake()
		synctest.Wait()
		<-time.After(31 * time.Second)
		synctest.Wait()
		if n := l.calls.Load(); n != 6 { // after 10 s, and after 20 s
			t.Errorf("%d looks, want one woken and two that tried again", n)
		}
		if err := r.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}
