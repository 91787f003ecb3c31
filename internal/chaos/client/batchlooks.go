package client

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/tierq/tierq/internal/chaos/check"
	"github.com/tierq/tierq/internal/job"
)

// lookAtBatch asks for a random batch, and records the answer. It seals some of the sealed batches again, which must
// change nothing. A then job that an answer names for the first time is polled from then on like any other job.
func (l *Load) lookAtBatch(ctx context.Context, dice *rand.Rand) {
	m, ok := l.batches.pick(dice)
	if !ok {
		return
	}
	url := l.base(dice) + "/api/batches/" + string(m.id)
	if len(l.Keys) > 1 && dice.Float64() < strangers {
		s := check.Stranger{ID: m.id, Method: http.MethodGet}
		s.HTTP = l.call(ctx, s.Method, url, l.key((m.key+1)%len(l.Keys)), nil, nil).status
		s.At = time.Now()
		l.strange(s)
		return
	}
	s := l.seeBatch(ctx, url, m)
	if s.Sealed && dice.Float64() < 0.2 {
		l.changeBatch(ctx, check.SealBatch, "seal", m, 1, dice)
	}
	if s.State == job.BatchStuck || s.State == job.BatchFinished && dice.Float64() < l.Mix.Requeue {
		l.requeueMember(ctx, m, dice)
	}
}

// requeueMember requeues one failed member of a batch whose round has ended, which begins the next round.
func (l *Load) requeueMember(ctx context.Context, m madeBatch, dice *rand.Rand) {
	url := l.base(dice) + "/api/batches/" + string(m.id) + "/members?limit=1&status=" + string(job.Failed)
	a := l.call(ctx, http.MethodGet, url, l.key(m.key), nil, nil)
	var page struct {
		Items []struct {
			JobID      job.ID
			Generation int
		}
	}
	if a.status != http.StatusOK || json.Unmarshal(a.text, &page) != nil || len(page.Items) == 0 {
		return
	}
	if f := page.Items[0]; l.known.requeue(f.JobID, f.Generation) {
		l.requeue(ctx, f.JobID, f.Generation, dice)
	}
}

// lookAtBatches looks at every batch once.
func (l *Load) lookAtBatches(ctx context.Context, dice *rand.Rand) {
	l.batches.mu.Lock()
	all := slices.Clone(l.batches.all)
	l.batches.mu.Unlock()
	for _, m := range all {
		if ctx.Err() != nil {
			return
		}
		l.seeBatch(ctx, l.base(dice)+"/api/batches/"+string(m.id), m)
	}
}

func (l *Load) seeBatch(ctx context.Context, url string, m madeBatch) check.BatchSeen {
	s := check.BatchSeen{ID: m.id, Sent: time.Now()}
	a := l.call(ctx, http.MethodGet, url, l.key(m.key), nil, nil)
	s.At, s.HTTP = time.Now(), a.status
	if a.status == http.StatusOK {
		var shown struct {
			State                                                job.BatchState
			Round                                                int
			Sealed                                               bool
			Total, Living, Completed, Failed, Cancelled, Expired int64
			ThenJobID                                            *job.ID
		}
		_ = json.Unmarshal(a.text, &shown) // call has decoded the whole body before
		s.State, s.Round, s.Sealed, s.Total, s.Living = shown.State, shown.Round, shown.Sealed, shown.Total, shown.Living
		s.Finished = shown.Completed + shown.Failed + shown.Cancelled + shown.Expired
		if shown.ThenJobID != nil {
			s.Then = *shown.ThenJobID
			if l.batches.isNew(s.Then) {
				l.known.add(s.Then, m.key)
			}
		}
	}
	if s.HTTP != 0 {
		l.sawBatch(s)
	}
	return s
}

// BatchesSeen returns what the clients saw of batches.
func (h *history) BatchesSeen() []check.BatchSeen {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.batchesSeen)
}

func (h *history) sawBatch(s check.BatchSeen) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.batchesSeen = append(h.batchesSeen, s)
	h.write(line{Batch: &s})
}

func (h *history) heardRound(c check.RoundCall) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.beside.Rounds = append(h.beside.Rounds, c)
	h.write(line{Round: &c})
}
