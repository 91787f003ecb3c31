package httpapi

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tierq/tierq/internal/job"
)

// maxBatchName is how many characters the name of a batch may have.
const maxBatchName = 200

// newBatch holds the values of a body that asks for a batch.
type newBatch struct {
	name     string
	tier     string
	callback asked // its callbackUrl
	then     *thenAsked
	jobs     []asked // its first members
	sealed   bool
}

// thenAsked is the member then.
type thenAsked struct {
	asked
	on job.ThenOn
}

// ofThen returns the setter of a thenAsked that calls the setter of its asked.
func ofThen(set func(*asked, jsontext.Value) error) member[thenAsked] {
	return func(t *thenAsked, v jsontext.Value) error { return set(&t.asked, v) }
}

var thenShape = shape[thenAsked]{members: map[string]member[thenAsked]{
	"type": ofThen((*asked).setType), "payload": ofThen((*asked).setPayload),
	"tier": ofThen((*asked).setTier), "queue": ofThen((*asked).setQueue),
	"maxRetries": ofThen((*asked).setMaxRetries), "maxProcessingSeconds": ofThen((*asked).setMaxRun),
	"on": func(t *thenAsked, v jsontext.Value) error {
		switch on := job.ThenOn(text(v)); on {
		case job.ThenFinished, job.ThenSucceeded:
			t.on = on
			return nil
		}
		return reason("must be finished or succeeded")
	},
}}

var newBatchShape = shape[newBatch]{members: map[string]member[newBatch]{
	"name": func(b *newBatch, v jsontext.Value) error {
		b.name = text(v)
		if n := utf8.RuneCountInString(b.name); v.Kind() != '"' || n < 1 || n > maxBatchName || !utf8.ValidString(b.name) ||
			strings.ContainsFunc(b.name, unicode.IsControl) {
			return reason("must be one line of 1 to " + strconv.Itoa(maxBatchName) + " characters")
		}
		return nil
	},
	"tier": func(b *newBatch, v jsontext.Value) error {
		if b.tier = text(v); b.tier == "" {
			return reason("must be a tier's name")
		}
		return nil
	},
	"callbackUrl": func(b *newBatch, v jsontext.Value) error { return b.callback.setCallback(v) },
	"then": func(b *newBatch, v jsontext.Value) error {
		if v.Kind() != '{' {
			return reason(`must be an object such as {"type": "SEND_EMAIL", "payload": {...}}`)
		}
		b.then = &thenAsked{asked: asked{maxRetries: -1, delay: -1, spelling: thens}, on: job.ThenFinished}
		return thenShape.readObject(v, b.then)
	},
	"jobs": (*newBatch).setJobs,
	"sealed": func(b *newBatch, v jsontext.Value) error {
		if b.sealed = v.Kind() == 't'; !b.sealed && v.Kind() != 'f' {
			return reason("must be true or false")
		}
		return nil
	},
}}

// thens names the members of a then job in errors.
var thens = &spelling{typ: "then.type", maxRetries: "then.maxRetries"}

// createBatch serves POST /api/batches.
func (a *api) createBatch(c *gin.Context) error {
	if err := noQuery(c); err != nil {
		return err
	}
	key, err := keyFrom(c.Request.Header)
	if err != nil {
		return err
	}
	body, done, err := a.readLarge(c, checkType)
	defer done()
	if err == nil {
		err = measureUpTo(body, maxDepth, math.MaxInt)
	}
	if err != nil {
		return err
	}
	var asked newBatch
	if !blank(body) {
		if err := newBatchShape.readObject(body, &asked); err != nil {
			return err
		}
	}
	b, err := a.batchAsked(c, &asked)
	if err != nil {
		return err
	}
	jobs, err := a.batchJobs(c, &asked, b.Tier)
	if err != nil {
		return err
	}
	var once job.Idempotency
	if key != "" {
		if err := a.spendIdempotency(c, 1); err != nil {
			return err
		}
		compact := jsontext.Value(append([]byte(nil), body...))
		_ = compact.Compact() // cannot fail: the body was read as JSON
		once = job.Idempotency{Key: ownKey(namespace(callerOf(c)), "batch\x00"+key), Body: hexHash(compact)}
	}
	var ids []job.ID
	var replays bool
	quota := callerOf(c).Key.InFlight
	if len(jobs) == 0 && !b.Sealed {
		b, replays, err = a.Batches.Create(c.Request.Context(), b, quota, once)
	} else {
		b, ids, replays, err = a.Batches.Submit(c.Request.Context(), b, jobs, quota, once)
	}
	if err != nil {
		err = a.overQuota(err, &job.Submission{Tier: b.Tier, Owner: b.Owner, Quota: quota})
		return inDoubt(err, createInDoubt)
	}
	h := c.Writer.Header()
	h["Location"] = []string{"/api/batches/" + string(b.ID)}
	if replays {
		h["Idempotency-Replayed"] = replayed
	}
	shown := a.batchBody(c, &b)
	shown.Jobs = ids
	return write(c, http.StatusCreated, shown)
}

// batchAsked checks the values of a body and returns the batch.
func (a *api) batchAsked(c *gin.Context, asked *newBatch) (b job.Batch, err error) {
	caller := callerOf(c)
	if asked.name == "" {
		return b, invalid("name", "is missing")
	}
	plan, err := a.tierAsked(asked.tier)
	if err == nil {
		err = mayTier(c, plan.Tier)
	}
	if err != nil {
		return b, err
	}
	b = job.Batch{Name: asked.name, Owner: caller.Owner(), Tier: plan.Tier, Sealed: asked.sealed}
	b.From, b.TraceID = caller.From, traceOf(c)
	if url := asked.callback.callback; url != "" {
		if err := mayCallBack(caller); err != nil {
			return b, err
		}
		if a.CheckURL == nil {
			return b, invalid("callbackUrl", "this server sends no callbacks")
		}
		if err := a.CheckURL(url); err != nil {
			return b, invalid("callbackUrl", shorten(err.Error()))
		}
		b.CallbackURL = url
	}
	if asked.then != nil {
		b.Then, err = a.thenAsked(c, asked.then, plan)
	}
	return b, err
}

// thenAsked checks the member then as a submit, and returns the job that the batch will owe.
func (a *api) thenAsked(c *gin.Context, t *thenAsked, plan job.Plan) (*job.Then, error) {
	if t.typ == "" {
		return nil, invalid("then.type", "is missing")
	}
	if t.tier != "" {
		var err error
		if plan, err = a.tierAsked(t.tier); err != nil {
			return nil, err
		}
		if err := mayTier(c, plan.Tier); err != nil {
			return nil, err
		}
	}
	s, err := a.submission(callerOf(c), &t.asked, plan, "")
	if err != nil {
		return nil, err
	}
	if s.MaxRetries < 0 {
		s.MaxRetries = plan.MaxRetries
	}
	then := &job.Then{Type: s.Type, Payload: json.RawMessage(s.Payload), Tier: s.Tier, Queue: s.Queue,
		MaxRunMs: s.MaxRunMs, MaxRetries: s.MaxRetries, On: t.on}
	then.Counts = a.takesCounts(t.asked, s.QueueName())
	return then, nil
}

// takesCounts says whether a type takes a payload with the member batch.
func (a *api) takesCounts(t asked, name string) bool {
	merged, err := job.MergeCounts(t.payload, job.BatchCounts{Round: 1})
	if err != nil || len(merged) > a.PayloadLimit {
		return false
	}
	t.payload = merged
	queue := job.Queue{Name: job.MainQueue}
	if name != job.MainQueue {
		queue, _ = a.Queues.Find(name)
	}
	return a.checkType(&t, queue) == nil
}
