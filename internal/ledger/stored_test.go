package ledger

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/tierq/tierq/internal/job"
)

// fakeOutbox is the way to SQL; write is what the next batch writes there, after the poll waits for it.
type fakeOutbox struct {
	mu    sync.Mutex
	next  chan struct{}
	woken int
	write func()
}

func (o *fakeOutbox) Written() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.next == nil {
		o.next = make(chan struct{})
		if o.write != nil {
			go func(done chan struct{}) {
				synctest.Wait() // the poll is waiting now
				o.write()
				close(done)
			}(o.next)
		}
	}
	return o.next
}

func (o *fakeOutbox) Wake() { o.woken++ }

// If Redis dies with the process, an end is shown once SQL has its row. Until then the job is shown as it was
// before.
func TestFindWaitsForTheRow(t *testing.T) {
	unclaimed := living(job.Cancelled, 1)
	j := unclaimed[someID]
	j.Attempt = 0
	unclaimed[someID] = j
	for _, tc := range []struct {
		name    string
		redis   map[job.ID]job.Job
		sql     job.Status // SQL's outcome of generation 1; "" = none
		written job.Status // the outcome that SQL gets while the poll waits
		sqlErr  error
		want    job.Status
		wakes   bool
		wantErr error
	}{
		{"running", living(job.Processing, 1), "", "", job.ErrUnavailable, job.Processing, false, nil},
		{"completed", living(job.Completed, 1), job.Completed, "", nil, job.Completed, false, nil},
		{"completed, written meanwhile", living(job.Completed, 1), "", job.Completed, nil, job.Completed, false, nil},
		{"completed, and not written", living(job.Completed, 1), "", "", nil, job.Processing, false, nil},
		{"completed, SQL down", living(job.Completed, 1), "", "", job.ErrUnavailable, "", false, job.ErrUnavailable},
		{"failed, written meanwhile", living(job.NeedDiscard, 1), "", job.Failed, nil, job.Failed, true, nil},
		{"failed, and not written", living(job.NeedDiscard, 1), "", "", nil, job.Processing, true, nil},
		{"failed again, and not written", living(job.NeedDiscard, 2), job.Failed, "", nil, job.Processing, true, nil},
		{"failed, acknowledged", living(job.Failed, 1), job.Failed, "", nil, job.Failed, false, nil},
		{"SQL has another end", living(job.Completed, 1), job.Cancelled, "", nil, job.Cancelled, false, nil},
		{"cancelled, written meanwhile", unclaimed, "", job.Cancelled, nil, job.Cancelled, true, nil},
		{"cancelled before a claim, and not written", unclaimed, "", "", nil, job.Pending, true, nil},
		{"cancelled while it ran, and not written", living(job.Cancelled, 1), "", "", nil, job.Processing, true, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sql := map[job.ID]job.DeadLetter{}
				if tc.sql != "" {
					sql = archived(tc.sql, 1)
				}
				l, r, s := given(tc.redis, sql)
				o := &fakeOutbox{}
				if tc.written != "" {
					o.write = func() {
						s.mu.Lock()
						defer s.mu.Unlock()
						s.rows[someID] = job.DeadLetter{Job: is(someID, tc.written, 1)}
					}
				}
				l.Outbox, s.down = o, tc.sqlErr
				inRedis := r.jobs[someID]
				inRedis.Result = []byte(`1`)
				if inRedis.Status.Ended() {
					r.jobs[someID] = inRedis
				}
				j, err := l.Find(t.Context(), someID)
				if j.Status != tc.want || !errors.Is(err, tc.wantErr) || (err == nil) != (tc.wantErr == nil) {
					t.Errorf("%s, %v; want %s, %v", j.Status, err, tc.want, tc.wantErr)
				}
				if !j.Status.Ended() && (j.Result != nil || !j.EndedAt.IsZero()) {
					t.Errorf("it has not ended, and shows %q, %s", j.Result, j.EndedAt)
				}
				if (o.woken > 0) != tc.wakes {
					t.Errorf("the outbox was woken %d times", o.woken)
				}
				if asked := inRedis.Status == job.Cancelled && err == nil && !j.Status.Ended(); j.CancelRequested != asked {
					t.Errorf("cancelRequested %v, want %v", j.CancelRequested, asked)
				}
			})
		})
	}
}

// A list shows no end that SQL does not have, and no job twice.
func TestListTellsStoredEndsOnly(t *testing.T) {
	for _, tc := range []struct {
		name   string
		filter job.Filter
		stored bool
		want   map[job.ID]job.Status
	}{
		{"stored", job.Filter{}, true, map[job.ID]job.Status{someID: job.Completed, bystand: job.Pending}},
		{"not stored", job.Filter{}, false, map[job.ID]job.Status{someID: job.Processing, bystand: job.Pending}},
		{"stored, asked for", job.Filter{Status: job.Completed}, true, map[job.ID]job.Status{someID: job.Completed}},
		{"not stored, asked for", job.Filter{Status: job.Completed}, false, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sql := map[job.ID]job.DeadLetter{}
				if tc.stored {
					sql = archived(job.Completed, 1)
				}
				l, _, _ := given(living(job.Completed, 1), sql)
				l.Outbox = &fakeOutbox{}
				items, next, err := l.List(t.Context(), tc.filter, "", 10)
				if err != nil || next != "" || len(items) != len(tc.want) {
					t.Fatalf("%d items, %q, %v, want %d", len(items), next, err, len(tc.want))
				}
				for _, j := range items {
					if tc.want[j.ID] != j.Status {
						t.Errorf("%s is %q, want %q", j.ID, j.Status, tc.want[j.ID])
					}
				}
			})
		})
	}
}
