package queue_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

// A list of one queue has its jobs in all states, and no others; pages of any size end at the same jobs.
func TestListOfAQueue(t *testing.T) {
	t.Parallel()
	names := []string{"main", "films", "a:b"}
	declared := declare(names[1:])
	queuetest.EachWith(t, func(o *queue.Options) { declared(o); o.Partitions, o.Serves = 2, names }, func(t *testing.T,
		e *queuetest.Env,
	) {
		want := map[string][]job.ID{}
		for i := range 60 {
			s := queuetest.Job([]job.Tier{job.Paid, job.Public}[i%2])
			s.ID, s.Queue = queuetest.NewID(i%2), names[i%3]
			if i%5 == 0 {
				s.Delay = time.Hour
			}
			if replies, err := e.Submit(t.Context(), i%2, []job.Submission{s}); err != nil || replies[0].Word != job.OK {
				t.Fatal(replies, err)
			}
			want[s.Queue] = append(want[s.Queue], s.ID)
		}
		leases := e.Take(t, 12)
		e.Finish(t, leases[0])
		for _, name := range names {
			for _, limit := range []int{1, 7, 100} {
				var got []job.ID
				for _, j := range all(t, e, job.Filter{Queue: name}, limit) {
					got = append(got, j.ID)
				}
				slices.Sort(got)
				slices.Sort(want[name])
				if fmt.Sprint(got) != fmt.Sprint(want[name]) {
					t.Errorf("%s by %d: %d jobs, want %d", name, limit, len(got), len(want[name]))
				}
			}
		}
		if got := all(t, e, job.Filter{Queue: "gone"}, 7); len(got) != 0 {
			t.Errorf("a queue without jobs lists %+v", got)
		}
	})
}
