package recovery

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/job"
)

type reconciling struct {
	mu    sync.Mutex
	calls int
	done  bool
	err   error
}

func (r *reconciling) Reconcile(context.Context) (int, bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls++
	return 0, r.done, r.err
}

func (r *reconciling) answer(done bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done, r.err = done, err
}

// It looks at once, once a minute, and when it is woken; soon again after an error or while another process is at it.
func TestReconciler(t *testing.T) {
	t.Attr("proves", "F19")
	synctest.Test(t, func(t *testing.T) {
		l := &reconciling{done: true}
		r := NewReconciler(l, quiet)
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		<-time.After(2*time.Minute + time.Second)
		synctest.Wait()
		if l.calls != 3 {
			t.Errorf("%d looks in two minutes", l.calls)
		}
		l.answer(true, job.ErrUnavailable)
		r.Wake()
		synctest.Wait()
		<-time.After(11 * time.Second)
		synctest.Wait()
		if l.calls != 6 {
			t.Errorf("%d looks, want one woken and two that tried again", l.calls)
		}
		l.answer(false, nil)
		<-time.After(10 * time.Second)
		synctest.Wait()
		if l.calls != 8 {
			t.Errorf("%d looks while another process is at it", l.calls)
		}
		if err := r.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}
