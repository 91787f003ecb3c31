package httpapi

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tierq/tierq/internal/job"
)

// Batches makes and changes batches: groups of jobs with one job at the end. Their errors are job.ErrNoBatch and those
// of a store.
type Batches interface {
	// Create stores a batch, or refuses it with the errors of Submitter if there is no room for the jobs that it will
	// owe. quota is how many living jobs the owner may have; 0 = any number. A repeat with the same key gets the first
	// one, and replayed. job.ErrMismatch: the key came with another body.
	Create(ctx context.Context, b job.Batch, quota int, key job.Idempotency) (stored job.Batch, replayed bool, err error)
	// Submit accepts a batch with its first members, as a whole, or refuses it with the errors of Submitter. It returns
	// the ids of the members in their order. A repeat with the same key gets the first answer of Submit, and replayed.
	Submit(ctx context.Context, b job.Batch, jobs []job.Submission, quota int, key job.Idempotency) (stored job.Batch,
		ids []job.ID, replayed bool, err error)
	Batch(ctx context.Context, id job.ID) (job.Batch, error)
	// BatchOf returns the id of the batch that a job is a member of, "" for none.
	BatchOf(ctx context.Context, id job.ID) (job.ID, error)
	// Batches returns a page of the batches of an owner, or of all, the latest first. job.ErrBadCursor.
	Batches(ctx context.Context, owner string, all bool, cursor string, limit int) ([]job.Batch, string, error)
	// Members returns a page of the members that have a status ("" = they live), or of all (nil). job.ErrBadCursor.
	Members(ctx context.Context, batch job.ID, status *job.Status, cursor string, limit int) ([]job.BatchMember, string,
		error)
	// Seal ends the adding of members. A sealed batch stays as it is.
	Seal(ctx context.Context, id job.ID) (job.Batch, error)
	// Cancel seals a batch and cancels some of the members that live, from cursor on. job.ErrBadCursor.
	Cancel(ctx context.Context, id job.ID, cursor string) (job.BatchCancel, error)
}

const batchInDoubt = "It may or may not have been done. Send it again: it is done once, and the answer is the same."

const createInDoubt = "The batch may or may not have been made. Repeat this with the same Idempotency-Key, which " +
	"makes one batch. Without a key the repeat makes another."

// jobBatchBody is a batch on the wire.
type jobBatchBody struct {
	BatchID     job.ID         `json:"batchId"`
	Name        string         `json:"name"`
	Owner       *string        `json:"owner,omitempty"` // the id of the key; only operators see it
	Tier        job.Tier       `json:"tier"`
	State       job.BatchState `json:"state"`
	Round       int            `json:"round"`
	Sealed      bool           `json:"sealed"`
	Total       int64          `json:"total"`
	Living      int64          `json:"living"`
	Completed   int64          `json:"completed"`
	Failed      int64          `json:"failed"`
	Cancelled   int64          `json:"cancelled"`
	Expired     int64          `json:"expired"`
	Progress    float64        `json:"progress"` // the part of the members that has ended, 0 to 1
	Then        *thenBody      `json:"then"`
	ThenJobID   *job.ID        `json:"thenJobId"` // of the last round; null until it is owed
	CallbackURL *string        `json:"callbackUrl"`
	CreatedAt   *string        `json:"createdAt"`
	EndedAt     *string        `json:"endedAt"`
	CancelledAt *string        `json:"cancelledAt"`
	TraceID     *string        `json:"traceId"`
	Jobs        []job.ID       `json:"jobs,omitempty"` // the jobs that came with the call that made the batch
}

type thenBody struct {
	Type       string         `json:"type"`
	Tier       job.Tier       `json:"tier"`
	Queue      string         `json:"queue"`
	MaxRetries int            `json:"maxRetries"`
	On         job.ThenOn     `json:"on"`
	Payload    jsontext.Value `json:"payload"`
}

func (a *api) batchBody(c *gin.Context, b *job.Batch) *jobBatchBody {
	body := &jobBatchBody{
		BatchID: b.ID, Name: b.Name, Tier: b.Tier, State: b.State(), Round: b.Round, Sealed: b.Sealed, Total: b.Total,
		Living: b.Total - b.Ended(), Completed: b.Completed, Failed: b.Failed, Cancelled: b.Cancelled, Expired: b.Expired,
		CreatedAt: when(b.CreatedAt), EndedAt: when(b.EndedAt), CancelledAt: when(b.CancelledAt),
		TraceID: orNull(b.TraceID),
	}
	called := job.Job{Options: job.Options{CallbackURL: b.CallbackURL}}
	a.veil(c, &called)
	body.CallbackURL = orNull(called.CallbackURL)
	if b.Total > 0 {
		body.Progress = float64(b.Ended()) / float64(b.Total)
	}
	if t := b.Then; t != nil {
		// A veil hides what read-only keys must not see of a payload.
		j := job.Job{Type: t.Type, Payload: t.Payload}
		a.veil(c, &j)
		o := job.Options{Queue: t.Queue}
		body.Then = &thenBody{t.Type, t.Tier, o.QueueName(), t.MaxRetries, t.On, j.Payload}
	}
	if then, owed := b.ThenJob(); owed {
		body.ThenJobID = &then.ID
	}
	if callerOf(c).Operator() {
		body.Owner = orNull(b.Owner)
	}
	return body
}

// findBatch returns the batch of the path; job.ErrNoBatch if it is not the caller's.
func (a *api) findBatch(c *gin.Context) (job.Batch, error) {
	id, err := job.ParseID(c.Param("id"))
	if err != nil {
		return job.Batch{}, invalid("id", "is not a batch's id")
	}
	b, err := a.Batches.Batch(c.Request.Context(), id)
	if err == nil && !callerOf(c).Sees(b.Owner) {
		return job.Batch{}, job.ErrNoBatch
	}
	return b, err
}

// getBatch serves GET /api/batches/{id}.
func (a *api) getBatch(c *gin.Context) error {
	if err := noQuery(c); err != nil {
		return err
	}
	b, err := a.findBatch(c)
	if err != nil {
		return err
	}
	return write(c, http.StatusOK, a.batchBody(c, &b))
}

var batchesParams = params[page]{"limit": (*page).setLimit, "cursor": (*page).setCursor}

// batchesPage serves GET /api/batches: all batches for an operator, the caller's own for others.
func (a *api) batchesPage(c *gin.Context) error {
	q := page{limit: pageLimit}
	if err := batchesParams.read(c.Request.URL.RawQuery, &q); err != nil {
		return err
	}
	caller := callerOf(c)
	found, next, err := a.Batches.Batches(c.Request.Context(), caller.Owner(), caller.Operator(), q.cursor, q.limit)
	if err != nil {
		return listError(err)
	}
	body := listBody[*jobBatchBody]{Items: make([]*jobBatchBody, len(found)), Next: orNull(next)}
	for i := range found {
		body.Items[i] = a.batchBody(c, &found[i])
	}
	return write(c, http.StatusOK, &body)
}

// memberLives is the status of a member that lives, on the wire.
const memberLives = "LIVING"

type membersQuery struct {
	page
	status *job.Status // nil = all
}

var membersParams = params[membersQuery]{
	"limit":  func(q *membersQuery, v string) error { return q.setLimit(v) },
	"cursor": func(q *membersQuery, v string) error { return q.setCursor(v) },
	"status": func(q *membersQuery, v string) error {
		status := job.Status(v)
		switch status {
		case memberLives:
			status = ""
		case job.Completed, job.Failed, job.Cancelled, job.Expired, job.MemberLost:
		default:
			return reason("is none of LIVING, COMPLETED, FAILED, CANCELLED, EXPIRED, LOST")
		}
		q.status = &status
		return nil
	},
}

type memberBody struct {
	JobID      job.ID     `json:"jobId"`
	Status     job.Status `json:"status"`
	Generation int        `json:"generation"`
	EndedAt    *string    `json:"endedAt"`
}

// batchMembers serves GET /api/batches/{id}/members.
func (a *api) batchMembers(c *gin.Context) error {
	q := membersQuery{page: page{limit: pageLimit}}
	if err := membersParams.read(c.Request.URL.RawQuery, &q); err != nil {
		return err
	}
	b, err := a.findBatch(c)
	if err != nil {
		return err
	}
	found, next, err := a.Batches.Members(c.Request.Context(), b.ID, q.status, q.cursor, q.limit)
	if err != nil {
		return listError(err)
	}
	body := listBody[memberBody]{Items: make([]memberBody, len(found)), Next: orNull(next)}
	for i, m := range found {
		if m.Status == "" {
			m.Status = memberLives
		}
		body.Items[i] = memberBody{m.ID, m.Status, m.Generation, when(m.EndedAt)}
	}
	return write(c, http.StatusOK, &body)
}

// changeBatch returns the batch of a request that changes it. The request has no fields.
func (a *api) changeBatch(c *gin.Context) (job.Batch, error) {
	body, err := a.readBody(c)
	if err == nil && body != nil {
		err = noFields.read(body, &struct{}{})
	}
	if err != nil {
		return job.Batch{}, err
	}
	return a.findBatch(c)
}

// sealBatch serves POST /api/batches/{id}/seal.
func (a *api) sealBatch(c *gin.Context) error {
	if err := noQuery(c); err != nil {
		return err
	}
	b, err := a.changeBatch(c)
	if err != nil {
		return err
	}
	id := b.ID
	b, err = a.Batches.Seal(c.Request.Context(), id)
	a.byOperator(c, "batch.seal", id, nil, err)
	if err != nil {
		return inDoubt(err, batchInDoubt)
	}
	return write(c, http.StatusOK, a.batchBody(c, &b))
}

var cancelBatchParams = params[page]{"cursor": (*page).setCursor}

// cancelBatch serves POST /api/batches/{id}/cancel: it seals the batch and cancels some thousand members that live. The
// answer says where the next request goes on.
func (a *api) cancelBatch(c *gin.Context) error {
	var q page
	if err := cancelBatchParams.read(c.Request.URL.RawQuery, &q); err != nil {
		return err
	}
	b, err := a.changeBatch(c)
	if err != nil {
		return err
	}
	done, err := a.Batches.Cancel(c.Request.Context(), b.ID, q.cursor)
	body := struct {
		BatchID   job.ID  `json:"batchId"`
		Cancelled int     `json:"cancelled"`
		Asked     int     `json:"asked"`
		Next      *string `json:"next"`
	}{b.ID, done.Cancelled, done.Asked, orNull(done.Next)}
	a.byOperator(c, "batch.cancel", b.ID, &body, err)
	if err != nil {
		return inDoubt(listError(err), batchInDoubt)
	}
	return write(c, http.StatusOK, &body)
}

// mayBatch refuses a submit to a batch by a caller without a key, because such a caller owns no batch.
func mayBatch(caller *job.Caller, s *job.Submission) error {
	switch {
	case anonymous(caller):
		return refusal(caller, "")
	case s.Unique != "":
		return exclude("batch", "unique")
	}
	return nil
}

// setBatch reads the id of the batch that the job becomes a member of.
func (a *asked) setBatch(v jsontext.Value) (err error) {
	if a.batch, err = job.ParseID(text(v)); err != nil || v.Kind() != '"' {
		return reason("must be a batch's id")
	}
	return nil
}

// batchEvery is the time between two reads of a batch for its stream.
const batchEvery = time.Second

// batchEvents serves GET /api/batches/{id}/events: the batch as GET shows it, now and after each change, at most once a
// second, until it is FINISHED.
func (a *api) batchEvents(c *gin.Context) error {
	if err := noQuery(c); err != nil {
		return err
	}
	b, err := a.findBatch(c)
	if err != nil {
		return err
	}
	leave, err := a.enter(c)
	if err != nil {
		return err
	}
	defer leave()
	s, ctx := a.openStream(c)
	defer s.close()
	return a.endStream(c, s, a.followBatch(ctx, c, s, b))
}

func (a *api) followBatch(ctx context.Context, c *gin.Context, s *stream, b job.Batch) error {
	ticker := time.NewTicker(batchEvery)
	defer ticker.Stop()
	var last []byte
	for {
		data, err := encode(a.batchBody(c, &b))
		if err != nil {
			return err
		}
		if !bytes.Equal(data, last) {
			last = data
			if err := s.send("batch", "", data); err != nil || b.State() == job.BatchFinished {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if b, err = a.Batches.Batch(ctx, b.ID); err != nil {
			return err
		}
	}
}
