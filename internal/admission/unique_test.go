package admission

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/job"
)

const uniqueKey = "0003ffffffffffffffffffffffffffff"

func withKey(on job.UniqueOn) job.Submission {
	return job.Submission{Tier: job.Paid, Payload: []byte(`"new"`), Options: job.Options{
		Unique: job.Unique(uniqueKey, job.WhileLiving)}, UniqueOn: on,
		Idempotency: job.Idempotency{Key: "0003aaaa", Body: "b"}}
}

// What a caller is told of each answer about a unique key, with and without a journal. The row of a submit that made no
// job goes; a replaced payload is in the other job's row before.
func TestUnique_WhatACallerIsTold(t *testing.T) {
	due := time.UnixMilli(1_764_291_234_567)
	for name, c := range map[string]struct {
		reply job.SubmitReply
		want  job.Accepted
		err   error
	}{
		"held":   {job.SubmitReply{Word: job.IsHeld, ArrivedAt: due}, job.Accepted{Held: true}, nil},
		"return": {job.SubmitReply{Word: job.IsUnique, First: "first"}, job.Accepted{ID: "first", Deduplicated: true}, nil},
		"refuse": {job.SubmitReply{Word: job.IsTaken, First: "first"}, job.Accepted{}, job.ErrTaken},
		"replaced": {job.SubmitReply{Word: job.Replaced, First: "first", Due: due},
			job.Accepted{ID: "first", Deduplicated: true, Replaced: true}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := &fakeQueue{answer: script(c.reply)}
				plain, _ := begin(t, q, 5)
				j := &fakeJournal{}
				a := journaled(t, &fakeQueue{answer: script(c.reply)}, j, 5)
				for _, a := range []*Admission{plain, a} {
					got, err := a.Submit(t.Context(), withKey(job.UniqueReplace))
					if c.want.Held && got.ID.Partition() != 3 {
						t.Errorf("held in partition %d", got.ID.Partition())
					}
					if want := c.want; want.Held {
						want.ID = got.ID
						c.want.ID = ""
						if got != want {
							t.Errorf("%+v, want %+v", got, want)
						}
					} else if got != want {
						t.Errorf("%+v, want %+v", got, want)
					}
					var taken *job.TakenError
					if !errors.Is(err, c.err) || c.err != nil && (!errors.As(err, &taken) || taken.ID != "first") {
						t.Errorf("%v, want %v", err, c.err)
					}
				}
				if id := q.sent()[0][0].ID; id.Partition() != 3 {
					t.Errorf("sent to partition %d", id.Partition())
				}
				if (len(j.rows) == 1) != c.want.Held || (len(j.back) == 1) == c.want.Held {
					t.Errorf("rows %v, taken back %v", j.rows, j.back)
				}
				if (len(j.changed) == 1) != c.want.Replaced {
					t.Fatalf("changed rows: %v", j.changed)
				}
				if c.want.Replaced {
					row := j.changed[0]
					if row.ID != "first" || string(row.Payload) != `"new"` || !row.RunAt.Equal(due) || row.Unique == "" {
						t.Errorf("the row of the replaced job: %+v", row)
					}
				}
			})
		})
	}
}

// Where the other job's row may have the old payload, the submit's own row stays, so that its payload runs in any case,
// and its caller is told that it is in doubt.
func TestUnique_ReplacedWithoutSQL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &fakeJournal{notKept: job.ErrUnavailable}
		a := journaled(t, &fakeQueue{answer: script(job.SubmitReply{Word: job.Replaced, First: "first"})}, j, 1)
		got, err := a.Submit(t.Context(), withKey(job.UniqueReplace))
		if !errors.Is(err, job.ErrFateUnknown) || len(j.rows) != 1 || got.ID != j.rows[0].ID || len(j.back) > 0 {
			t.Errorf("%+v, %v; rows %v, taken back %v", got, err, j.rows, j.back)
		}
	})
}

// An answer that a unique key is taken proves nothing of an earlier copy that may be under way: the submit is sent
// again.
func TestUnique_AnOpenCopyIsSentAgain(t *testing.T) {
	t.Parallel()
	for _, word := range []job.Word{job.IsUnique, job.IsTaken, job.Replaced} {
		if step := decide(job.SubmitReply{Word: word, First: "x"}, false, true, 0); step != inDoubt {
			t.Errorf("%s with an open copy: %v", word, step)
		}
		if step := decide(job.SubmitReply{Word: word, First: "x"}, false, false, 0); step == inDoubt {
			t.Errorf("%s without an open copy is in doubt", word)
		}
	}
	if step := decide(job.SubmitReply{Word: job.IsHeld}, false, true, 0); step != accept {
		t.Errorf("HELD: %v", step)
	}
}

// Entries with a unique key go to its partition, in batches too, and stay there when it is full.
func TestUnique_StaysAtHome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &fakeQueue{answer: script(job.Full)}
		a, _ := begin(t, q, 5)
		s := withKey(job.UniqueReturn)
		s.Idempotency = job.Idempotency{}
		if r := a.SubmitBatch(t.Context(), append(ofTier(job.Paid, 2), s))[2]; !errors.Is(r.Err, job.ErrQueueFull) {
			t.Errorf("%+v", r)
		}
		for _, call := range q.sent() {
			for _, one := range call {
				if one.Unique != "" && one.ID.Partition() != 3 {
					t.Errorf("sent to partition %d", one.ID.Partition())
				}
			}
		}
	})
}
