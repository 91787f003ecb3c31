package queue_test

import (
	"context"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

// writes has the calls with which a holder reports about its lease.
var writes = map[string]func(ctx context.Context, q *queue.Queue, refs ...job.LeaseRef) ([]job.EndReply, error){
	"heartbeat": func(ctx context.Context, q *queue.Queue, refs ...job.LeaseRef) ([]job.EndReply, error) {
		var batch []job.Beat
		for _, r := range refs {
			batch = append(batch, job.Beat{LeaseRef: r, Timeout: time.Hour})
		}
		got, err := q.Heartbeat(ctx, 0, batch)
		replies := make([]job.EndReply, len(got))
		for i := range got {
			replies[i].Word = got[i]
		}
		return replies, err
	},
	"complete": func(ctx context.Context, q *queue.Queue, refs ...job.LeaseRef) ([]job.EndReply, error) {
		var batch []job.Completion
		for _, r := range refs {
			batch = append(batch, job.Completion{LeaseRef: r, Result: []byte("1")})
		}
		return q.Complete(ctx, 0, batch)
	},
	"fail": func(ctx context.Context, q *queue.Queue, refs ...job.LeaseRef) ([]job.EndReply, error) {
		var batch []job.Failure
		for _, r := range refs {
			batch = append(batch, job.Failure{LeaseRef: r, Cause: job.HandlerError, Error: "boom"})
		}
		return q.Fail(ctx, 0, batch)
	},
	"release": func(ctx context.Context, q *queue.Queue, refs ...job.LeaseRef) ([]job.EndReply, error) {
		return giveBack(ctx, q, 0, refs)
	},
	"return": func(ctx context.Context, q *queue.Queue, refs ...job.LeaseRef) ([]job.EndReply, error) {
		var batch []job.Release
		for _, r := range refs {
			batch = append(batch, job.Release{LeaseRef: r, Returned: true})
		}
		return q.Release(ctx, 0, batch)
	},
	"later": func(ctx context.Context, q *queue.Queue, refs ...job.LeaseRef) ([]job.EndReply, error) {
		return giveBack(ctx, q, time.Hour, refs)
	},
	"unknown": func(ctx context.Context, q *queue.Queue, refs ...job.LeaseRef) ([]job.EndReply, error) {
		var batch []job.Failure
		for _, r := range refs {
			batch = append(batch, job.Failure{LeaseRef: r, Cause: job.UnknownJobType, Error: "no worker knows it"})
		}
		return q.Fail(ctx, 0, batch)
	},
}

// notYet is the reason with which tests release jobs for later.
const notYet = "2 of 3 say wait"

func giveBack(ctx context.Context, q *queue.Queue, delay time.Duration, refs []job.LeaseRef) ([]job.EndReply, error) {
	var batch []job.Release
	for _, r := range refs {
		batch = append(batch, job.Release{LeaseRef: r, Delay: delay, Reason: notYet})
	}
	return q.Release(ctx, 0, batch)
}

// Status, attempt and token must all match: a report with one of them wrong is answered with LOST and changes
// nothing.
func TestFencing(t *testing.T) {
	t.Attr("proves", "S2-G2 S2-P5 S4-N4")
	t.Parallel()
	for verb, write := range writes {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
				l := e.Start(t, job.Paid)
				lost := func(what string, refs ...job.LeaseRef) {
					t.Helper()
					before := e.Snapshot(t)
					got, err := write(t.Context(), e.Queue, refs...)
					if err != nil {
						t.Fatal(err)
					}
					for _, r := range got {
						if r.Word != job.Lost || !r.At.IsZero() {
							t.Errorf("%s: %s at %v", what, r.Word, r.At)
						}
					}
					e.Unchanged(t, before)
				}
				ref := l.Ref()
				token, before, after, other := ref, ref, ref, ref
				token.Token = "someone:1"
				before.Attempt, after.Attempt = 0, 2
				other.ID = queuetest.NewID(0)
				lost("one wrong at a time", token, before, after, other, job.LeaseRef{ID: l.ID})

				waiting := e.Put(t, job.Public)
				lost("never claimed", job.LeaseRef{ID: waiting}, job.LeaseRef{ID: waiting, Attempt: 1, Token: l.Token})

				same(t, "taken back", e.Reap(t, job.Crashed, l.ID)[l.ID], job.OK)
				lost("taken back, waiting", ref)
				again := e.Take(t, 1)[0]
				same(t, "claimed again", again.ID, l.ID)
				stale := again.Ref()
				stale.Token = l.Token
				lost("claimed by another", ref, stale)
				stale = again.Ref()
				stale.Attempt = 1
				lost("the new token with the old attempt", stale)
			})
		})
	}
}

// Redis keeps an ending with its token: a repeat of the same ending gets the same answer, and another ending is
// answered with LOST. The next claim clears the ending.
func TestEndingTwice(t *testing.T) {
	t.Attr("proves", "S2-G2")
	t.Parallel()
	for verb, write := range writes {
		if verb == "heartbeat" {
			continue
		}
		for _, cancelled := range []bool{false, true} {
			name := verb
			if cancelled {
				name += " of a cancelled job"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
					l, bystander := e.Start(t, job.Paid), e.Start(t, job.Unpaid)
					if cancelled {
						e.Cancels(t, l.ID)
					}
					first, err := write(t.Context(), e.Queue, l.Ref(), l.Ref()) // also twice in one batch
					if err != nil {
						t.Fatal(err)
					}
					want := job.OK
					if cancelled {
						want = job.WasCancelled
						same(t, "state", e.Snapshot(t).State(l.ID), job.Cancelled)
					}
					ends(t, first, nil, want, want)
					same(t, "answer in the batch", first[1], first[0])
					before := e.Snapshot(t)
					for other, write := range writes {
						got, err := write(t.Context(), e.Queue, l.Ref())
						if err != nil {
							t.Fatal(err)
						}
						if other == verb {
							same(t, other+" again", got[0], first[0])
						} else {
							same(t, other+" after "+verb, got[0], job.EndReply{Word: job.Lost})
						}
					}
					e.Unchanged(t, before)
					same(t, "bystander", before.State(bystander.ID), job.Processing)
				})
			})
		}
	}
}
