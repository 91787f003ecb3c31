package ledger

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/tierq/tierq/internal/failpoint"
	"github.com/tierq/tierq/internal/job"
)

// Requeue promises to requeue a dead job, and gives it to Redis at once; if Redis does not answer, a later
// Reconcile does. nil means that the promise, with the request's reason, is stored. A repeat with the same
// request.ID is the same promise, also when the next generation has ended meanwhile; "" is a new request.
//
// The error is job.ErrWrongState for a job that is not FAILED, whose failure is not in SQL yet, or that another
// request took. It is job.ErrUnknownTier if the tier no longer has a plan, and job.ErrUnknownQueue if the queue is not
// declared any more. After job.ErrAmbiguous the promise may have been made, after job.ErrUnavailable it was not.
func (l *Ledger) Requeue(ctx context.Context, id job.ID, request job.Request) error {
	return l.requeue(ctx, id, request, nil)
}

// RequeueOwn is Requeue for the job's owner, with the limits of a submit: job.ErrQueueFull if the tier's share is
// used up, job.ErrQuota if the owner has quota living jobs (0 = no quota).
func (l *Ledger) RequeueOwn(ctx context.Context, id job.ID, request job.Request, quota int) error {
	return l.requeue(ctx, id, request, func(d *job.DeadLetter) error {
		_, err := within(ctx, livePatience, func(ctx context.Context) (any, error) {
			next := d.Next(0)
			return nil, l.Reserve(ctx, &next.Job, quota)
		})
		return err
	})
}

// requeue calls room, if it is not nil, before it makes a promise.
func (l *Ledger) requeue(ctx context.Context, id job.ID, asked job.Request, room func(*job.DeadLetter) error) error {
	if !l.ours(id) {
		return fmt.Errorf("requeue %s: %w", id, job.ErrNotFound)
	}
	request := job.Request{ID: requestKey(asked.ID), Reason: asked.Reason, Cascade: asked.Cascade}
	live, liveErr := l.live(ctx, id) // first: a job that ends meanwhile is in SQL by the next line, or is seen living here
	d, sqlErr := l.letter(ctx, id)
	promised, err := judge(&live, liveErr, &d, sqlErr, request.ID)
	if errors.Is(err, job.ErrNotFound) {
		err = l.lost(ctx, id, err)
	}
	err = unread(err)
	if !promised && asked.ID != "" && (sqlErr == nil || errors.Is(sqlErr, job.ErrWrongState)) {
		if earlier, err := l.requested(ctx, id, request.ID); err != nil || earlier {
			return unread(err) // the promise was made for an earlier generation, and fulfilled
		}
	}
	if err == nil && !promised {
		if _, served := l.Plans.Plan(d.Tier); !served {
			err = fmt.Errorf("%w: %s", job.ErrUnknownTier, d.Tier)
		} else if !l.declared(&d) {
			err = fmt.Errorf("%w: %s", job.ErrUnknownQueue, d.Queue)
		} else if room != nil {
			err = unread(room(&d))
		}
		if err == nil {
			err = l.promise(ctx, &d, request)
		}
	}
	if err != nil {
		return fmt.Errorf("requeue %s: %w", id, err)
	}
	failpoint.Hit("promise.after", id)
	_ = l.fulfil(ctx, fulfilPatience, []job.ID{id})
	return nil
}

// fulfilPatience bounds how long a caller waits while a promise is fulfilled.
const fulfilPatience = 2 * time.Second

// fulfil gives the promised generations to Redis now. The end of the caller's ctx does not stop it, because the
// promise is made.
func (l *Ledger) fulfil(ctx context.Context, patience time.Duration, promised []job.ID) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	_, err := l.Give(ctx, promised)
	if err != nil {
		l.Log.Warn("promised requeues come later", "job_id", promised[0], "jobs", len(promised), "err", err)
	}
	return err
}

// served says whether a dead letter can be requeued here; if not, it logs why.
func (l *Ledger) served(d *job.DeadLetter) bool {
	_, planned := l.Plans.Plan(d.Tier)
	if planned && l.ours(d.ID) && l.declared(d) {
		return true
	}
	l.Log.Warn("a dead letter cannot be requeued: its tier has no plan, its queue is not declared, or its "+
		"partition is not ours", "job_id", d.ID, "tier", string(d.Tier), "queue", d.QueueName())
	return false
}

// declared says whether there is a dead letter's queue. A job in a queue that is not declared is in no list.
func (l *Ledger) declared(d *job.DeadLetter) bool {
	if l.Options.Queues == nil {
		return d.QueueName() == job.MainQueue
	}
	_, there := l.Options.Queues.Find(d.QueueName())
	return there
}

// lost returns the error about a job without an outcome that Redis does not know: unknown, notFailed if the job has a
// row and Redis will get it or it waits in a flow, or errBetween if the job has just ended.
func (l *Ledger) lost(ctx context.Context, id job.ID, unknown error) error {
	j, err := l.row(ctx, id)
	switch {
	case err == nil:
		return notFailed(j.Status)
	case errors.Is(err, job.ErrNotFound):
		if _, err := l.archived(ctx, id); err == nil {
			return errBetween
		}
		j, err := l.inFlow(ctx, id)
		switch {
		case err == nil:
			return notFailed(j.Status)
		case errors.Is(err, job.ErrNotFound):
			return unknown
		}
		return err
	}
	return err
}

func (l *Ledger) requested(ctx context.Context, id job.ID, request string) (bool, error) {
	return within(ctx, archivePatience,
		func(ctx context.Context) (bool, error) { return l.Promises.Requested(ctx, id, request) })
}

// promise makes the promise for one dead letter. It returns errTaken if another request has it.
func (l *Ledger) promise(ctx context.Context, d *job.DeadLetter, request job.Request) error {
	made, err := l.promiseAll(ctx, actPatience, []job.JournalRow{d.Next(l.priority(d.Tier))}, request)
	if err == nil && !made[0] {
		return errTaken
	}
	return err
}

// promiseAll makes the promises of one request, and repeats the call once if the answer is lost.
func (l *Ledger) promiseAll(
	ctx context.Context, patience time.Duration, next []job.JournalRow, request job.Request,
) ([]bool, error) {
	return twice(ctx, patience, func(ctx context.Context) ([]bool, error) {
		return l.Promises.PromiseRequeues(ctx, next, request)
	})
}

var (
	errTaken    = &job.StateError{Status: job.Failed, Reason: "somebody else has asked to requeue it"}
	errGone     = &job.StateError{Status: job.Failed, Reason: "its dead letter is not in the archive any more"}
	errUnstored = &job.StateError{Status: job.Failed,
		Reason: "its failure is not in the archive yet, try again in a moment"}
)

func notFailed(s job.Status) error {
	return &job.StateError{Status: s.Shown(), Reason: "only a FAILED job can be requeued"}
}

// judge decides from the answers of both stores whether a job may be requeued. promised is true if this very
// request already has the promise.
func judge(live *job.Job, liveErr error, d *job.DeadLetter, sqlErr error, request string) (promised bool, err error) {
	known := liveErr == nil
	switch {
	case sqlErr == nil && d.RequestID == request:
		return true, nil
	case sqlErr != nil && !errors.Is(sqlErr, job.ErrNotFound) && !errors.Is(sqlErr, job.ErrWrongState):
		return false, sqlErr
	case known && live.Status == job.NeedDiscard:
		return false, errUnstored
	case known && live.Status != job.Failed:
		return false, notFailed(live.Status)
	case errors.Is(sqlErr, job.ErrWrongState):
		return false, &job.StateError{Reason: "the job did not end FAILED: only a FAILED job can be requeued"}
	case sqlErr != nil && known:
		return false, errGone
	case sqlErr != nil && errors.Is(liveErr, job.ErrNotFound):
		return false, sqlErr
	case sqlErr == nil && !d.Open():
		return false, errTaken
	case !known && !errors.Is(liveErr, job.ErrNotFound):
		return false, liveErr
	}
	return false, nil
}

// requestKey returns a request id as it is stored: with one length and one case, whatever the client sent.
func requestKey(requestID string) string {
	if requestID == "" {
		requestID = rand.Text()
	}
	sum := sha256.Sum256([]byte(requestID))
	return hex.EncodeToString(sum[:16])
}
