package admission

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/job"
)

func TestCommit_WithdrawnOnesAreNeverSent(t *testing.T) {
	t.Attr("proves", "A30")
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		q := &fakeQueue{answer: func(_ context.Context, _ int, batch []job.Submission) ([]job.SubmitReply, error) {
			<-hold
			return all(job.OK, batch), nil
		}}
		a, gate := begin(t, q, 1)
		go submit(t.Context(), a, job.Paid)
		synctest.Wait()

		gone, leave := context.WithCancel(t.Context())
		left := make(chan result)
		go func() { left <- submit(gone, a, job.Unpaid) }()
		synctest.Wait()
		leave()
		if r := <-left; !errors.Is(r.err, context.Canceled) {
			t.Errorf("the client that left: %v", r.err)
		}
		close(hold)
		synctest.Wait()
		if calls := q.sent(); len(calls) != 1 || len(calls[0]) != 1 {
			t.Errorf("sent %v", calls)
		}
		if s := gate.State(); !s.Open || s.Failures != 0 {
			t.Errorf("the gate counted a client that left: %+v", s)
		}
	})
}

func TestCommit_TheCallOutlivesItsClient(t *testing.T) {
	t.Attr("proves", "F55")
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		var other error
		q := &fakeQueue{answer: func(ctx context.Context, _ int, batch []job.Submission) ([]job.SubmitReply, error) {
			<-hold
			other = ctx.Err()
			return all(job.OK, batch), nil
		}}
		a, _ := begin(t, q, 1)
		gone, leave := context.WithCancel(t.Context())
		left := make(chan result)
		go func() { left <- submit(gone, a, job.Paid) }()
		synctest.Wait()
		leave()
		if r := <-left; !errors.Is(r.err, context.Canceled) || r.took != 0 {
			t.Errorf("took %s: %v", r.took, r.err)
		}
		close(hold)
		synctest.Wait()
		if other != nil {
			t.Errorf("the call lost its context with its client: %v", other)
		}
	})
}

// The meaning of an answer depends on whether an earlier copy may still be executed. After a lost answer FULL and
// LATE prove nothing; an answer that names a job, or the job of the key, does.
func TestCommit_ResendRules(t *testing.T) {
	t.Attr("proves", "F27 S4-M5")
	lost, away := job.ErrAmbiguous, job.ErrUnavailable
	first := job.SubmitReply{Word: job.Replay, First: "0197b1d2-0000-7000-8000-000000000100"}
	for name, c := range map[string]struct {
		answers []any
		want    error
		calls   int // 0 = as many as fit
	}{
		"accepted":                           {[]any{job.OK}, nil, 1},
		"full":                               {[]any{job.Full}, job.ErrQueueFull, 1},
		"lost, then DUPLICATE":               {[]any{lost, job.Duplicate}, nil, 2},
		"lost, then OK":                      {[]any{lost, job.OK}, nil, 2},
		"lost, then FULL is no proof":        {[]any{lost, job.Full}, job.ErrFateUnknown, 0},
		"lost, then LATE is no proof":        {[]any{lost, job.Late}, job.ErrFateUnknown, 0},
		"lost, then unavailable is no proof": {[]any{lost, away}, job.ErrFateUnknown, 0},
		"lost, full, then DUPLICATE":         {[]any{lost, job.Full, job.Duplicate}, nil, 3},
		"lost for good":                      {[]any{lost}, job.ErrFateUnknown, 0},
		"late, then OK":                      {[]any{job.Late, job.OK}, nil, 2},
		"late for good":                      {[]any{job.Late}, job.ErrUnhealthy, 0},
		"unavailable once":                   {[]any{away, job.OK}, nil, 2},
		"unavailable for good":               {[]any{away}, job.ErrUnhealthy, 3},
		"unavailable, then lost":             {[]any{away, lost}, job.ErrFateUnknown, 0},
		"unavailable, then full":             {[]any{away, job.Full}, job.ErrQueueFull, 2},
		"an unknown word":                    {[]any{job.Word("WAT")}, job.ErrFateUnknown, 0},
		"an unknown error":                   {[]any{errors.New("bug")}, job.ErrFateUnknown, 1},
		"the tier went away":                 {[]any{job.ErrUnknownTier}, job.ErrUnknownTier, 1},
		"lost, then the tier went away":      {[]any{lost, job.ErrUnknownTier}, job.ErrFateUnknown, 2},
		"a replay":                           {[]any{first}, nil, 1},
		"lost, then REPLAY":                  {[]any{lost, first}, nil, 2},
		"lost, full, then REPLAY":            {[]any{lost, job.Full, first}, nil, 3},
		"unavailable, then REPLAY":           {[]any{away, first}, nil, 2},
		"a replay of no job":                 {[]any{job.Replay}, job.ErrFateUnknown, 0},
		"over the quota":                     {[]any{job.Quota}, job.ErrQuota, 1},
		"over the quota, once":               {[]any{away, job.Quota}, job.ErrQuota, 2},
		"late, then over the quota":          {[]any{job.Late, job.Quota}, job.ErrQuota, 2},
		"lost, then over the quota":          {[]any{lost, job.Quota}, job.ErrFateUnknown, 0},
		"lost, over the quota, then there":   {[]any{lost, job.Quota, job.Duplicate}, nil, 3},
		"a mismatch":                         {[]any{job.Mismatch}, job.ErrMismatch, 1},
		"lost, then MISMATCH":                {[]any{lost, job.Mismatch}, job.ErrMismatch, 2},
		"lost, late, then MISMATCH":          {[]any{lost, job.Late, job.Mismatch}, job.ErrMismatch, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				answer := script(c.answers...)
				q := &fakeQueue{
					answer: func(ctx context.Context, call int, batch []job.Submission) ([]job.SubmitReply, error) {
						<-time.After(
							time.Millisecond,
						) // so that no pause ends at the same moment as the patience
						return answer(ctx, call, batch)
					},
				}
				a, _ := begin(t, q, 1)
				r := submit(t.Context(), a, job.Paid)
				if !errors.Is(r.err, c.want) || r.took > 2*time.Second {
					t.Errorf("took %s: %v, want %v", r.took, r.err, c.want)
				}
				calls := q.sent()
				if c.calls > 0 && len(calls) != c.calls || c.calls == 0 && len(calls) < 5 {
					t.Errorf("%d calls, want %d", len(calls), c.calls)
				}
				known := c.want == nil || errors.Is(c.want, job.ErrFateUnknown)
				if known != (r.id != "") {
					t.Errorf("id %q with %v", r.id, r.err)
				}
				if r.replayed != (c.answers[len(c.answers)-1] == any(first)) || r.replayed && r.id != first.First {
					t.Errorf("id %s, replayed %v", r.id, r.replayed)
				}
				for _, call := range calls {
					if call[0].ID != calls[0][0].ID || known && !r.replayed && call[0].ID != r.id {
						t.Errorf("sent again as %s, not as %s", call[0].ID, r.id)
					}
				}
			})
		})
	}
}

// A submit that is sent again goes before the submits of its tier that arrived after it.
func TestCommit_AResentSubmitKeepsItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		q := &fakeQueue{answer: func(_ context.Context, call int, batch []job.Submission) ([]job.SubmitReply, error) {
			if call == 1 {
				<-hold
				return nil, job.ErrUnavailable
			}
			return all(job.OK, batch), nil
		}}
		a, _ := begin(t, q, 1)
		var group sync.WaitGroup
		// The first is in the call that is held, and the last does not fit into the second call.
		for range job.MaxBatch + 1 {
			group.Go(func() { submit(t.Context(), a, job.Paid) })
			synctest.Wait()
		}
		close(hold)
		group.Wait()
		if calls := q.sent(); len(calls) != 3 || calls[1][0].ID != calls[0][0].ID || len(calls[1]) != job.MaxBatch {
			t.Errorf("%d calls, %d submits in the second, the first submit before all: %t",
				len(calls), len(calls[1]), calls[1][0].ID == calls[0][0].ID)
		}
	})
}

// If one entry breaks its call, the others are still accepted.
func TestCommit_ABadEntryIsFoundAndTheOthersGoOn(t *testing.T) {
	t.Attr("proves", "S4-N3")
	for name, fault := range map[string]error{"a fault": errors.New("script failed"),
		"its tier went away": job.ErrUnknownTier} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hold := make(chan struct{})
				q := &fakeQueue{answer: func(_ context.Context, call int, batch []job.Submission) ([]job.SubmitReply, error) {
					if call == 1 {
						<-hold
					}
					for _, s := range batch {
						if s.Tier == job.Public {
							return nil, fault
						}
					}
					return all(job.OK, batch), nil
				}}
				a, _ := begin(t, q, 1)
				go submit(t.Context(), a, job.Paid)
				synctest.Wait()
				bad := make(chan result, 1)
				go func() { bad <- submit(t.Context(), a, job.Public) }()
				good := make(chan []result, 1)
				go func() { good <- many(t, a, 50, job.Paid) }()
				synctest.Wait()
				close(hold)
				for _, r := range <-good {
					if r.err != nil || r.took > pause {
						t.Errorf("a good one: took %s: %v", r.took, r.err)
					}
				}
				want := job.ErrFateUnknown
				if errors.Is(fault, job.ErrUnknownTier) {
					want = job.ErrUnknownTier
				}
				if r := <-bad; !errors.Is(r.err, want) || r.took > pause {
					t.Errorf("the bad one: took %s: %v", r.took, r.err)
				}
			})
		})
	}
}

// A call that hangs costs its submits the call's deadline and a pause, and the next submits hardly more.
func TestCommit_OneCallThatHangsIsGivenUp(t *testing.T) {
	t.Attr("proves", "F27")
	for name, c := range map[string]struct {
		hang  func(context.Context, int, []job.Submission) ([]job.SubmitReply, error)
		after time.Duration
	}{
		"deadline kept": {frozen, callTimeout},
		"deadline ignored": {func(context.Context, int, []job.Submission) ([]job.SubmitReply, error) {
			pass(5 * time.Second)
			return nil, nil
		}, callLimit},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, _ := begin(t, &fakeQueue{answer: func(ctx context.Context, call int, batch []job.Submission) ([]job.SubmitReply,
					error) {
					if call == 1 {
						return c.hang(ctx, call, batch)
					}
					return all(job.Duplicate, batch), nil
				}}, 1)
				if r := submit(t.Context(), a, job.Paid); r.err != nil || r.took != c.after+pause {
					t.Errorf("took %s: %v", r.took, r.err)
				}
				if r := submit(t.Context(), a, job.Paid); r.err != nil || r.took != 0 {
					t.Errorf("the next one: took %s: %v", r.took, r.err)
				}
			})
		})
	}
}
