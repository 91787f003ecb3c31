package httpapi

import (
	"cmp"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tierq/tierq/internal/job"
)

// schemas are JSON Schemas by job type.
type schemas map[string]jsontext.Value

// queueBody is a queue on the wire.
type queueBody struct {
	Name    string    `json:"name"`
	Limit   *int      `json:"limit"`                // null: as many as its tiers may have
	Types   []string  `json:"types"`                // none: it takes any
	Schemas schemas   `json:"schemas"`              // by type
	MaxRun  *float64  `json:"maxProcessingSeconds"` // null: what the tier's plan says
	Push    *pushBody `json:"push"`                 // null: its jobs are not posted
	Logs    string    `json:"logs"`                 // on or off
	Paused  *string   `json:"paused"`               // since when; null: it is not paused
	Ready   int64     `json:"ready"`
	Waiting int64     `json:"scheduled"`
	Running int64     `json:"running"`
	Version int64     `json:"version"`
}

func (a *api) queueOf(q job.Queue) queueBody {
	n := a.Queues.Count(q.Name)
	b := queueBody{
		Name: q.Name, Ready: n.Ready, Waiting: n.Scheduled, Running: n.Running, Version: q.Version,
	}
	if p, on := a.Pauses.Find(job.PauseQueue(q.Name)); on {
		b.Paused = when(p.Since)
	}
	b.Push, b.Logs = pushOf(q.Push), logsOn
	if q.LogsOff {
		b.Logs = logsOff
	}
	b.Types, b.Schemas = append([]string{}, q.Types...), schemas{}
	for typ, text := range q.Schemas {
		b.Schemas[typ] = jsontext.Value(text)
	}
	if q.Name != job.MainQueue {
		limit := a.Queues.Limit(q)
		b.Limit = &limit
	}
	if q.MaxRun > 0 {
		longest := q.MaxRun.Seconds()
		b.MaxRun = &longest
	}
	return b
}

// noQueue returns an UNKNOWN_QUEUE that lists the known queues.
func (a *api) noQueue(status *kind, fields ...fieldError) *problem {
	names := []string{job.MainQueue}
	for _, q := range a.Queues.All() {
		if names = append(names, q.Name); len(names) == 20 {
			names = append(names, "...")
			break
		}
	}
	return &problem{
		kind: status, fields: fields, detail: "known queues: " + strings.Join(names, ", ") +
			"; an admin declares another one with: tierq queues declare NAME --type TYPE",
	}
}

// queues serves GET /admin/queues: main, then the declared queues by name.
func (a *api) queues(c *gin.Context) error {
	if err := noQuery(c); err != nil {
		return err
	}
	main, _ := a.Queues.Find(job.MainQueue)
	body := struct {
		Items []queueBody `json:"items"`
	}{[]queueBody{a.queueShown(c, main)}}
	for _, q := range a.Queues.All() {
		body.Items = append(body.Items, a.queueShown(c, q))
	}
	return write(c, http.StatusOK, &body)
}

// getQueue serves GET /admin/queues/{name}.
func (a *api) getQueue(c *gin.Context) error {
	if err := noQuery(c); err != nil {
		return err
	}
	q, known := a.Queues.Find(c.Param("name"))
	if !known {
		return a.noQueue(unknownQueue)
	}
	c.Writer.Header()["Etag"] = []string{versionTag(q.Version)}
	return write(c, http.StatusOK, a.queueShown(c, q))
}

// What a queue's declaration says of the logs of its jobs.
const (
	logsOn  = "on"
	logsOff = "off"
)

// queueAsked is the body of a PUT. The schemas of types are as they came.
type queueAsked struct {
	job.Queue
	schemas schemas
}

var queueShape = shape[queueAsked]{members: map[string]member[queueAsked]{
	"limit": func(q *queueAsked, v jsontext.Value) error {
		n, err := strconv.Atoi(string(v))
		if v.Kind() != '0' || err != nil || n < 0 {
			return reason("must be a whole number, 0 or more")
		}
		q.Limit = n
		return nil
	},
	"types": func(q *queueAsked, v jsontext.Value) (err error) {
		q.Types, err = texts(v, job.MaxQueueTypes)
		return err
	},
	"schemas": func(q *queueAsked, v jsontext.Value) error {
		if json.Unmarshal(v, &q.schemas) != nil || len(q.schemas) > job.MaxQueueTypes {
			return reason("must be an object with a JSON Schema for each of some types, at most " +
				strconv.Itoa(job.MaxQueueTypes))
		}
		return nil
	},
	"maxProcessingSeconds": func(q *queueAsked, v jsontext.Value) (err error) {
		q.MaxRun, err = wholeSeconds(v, 1, 86400)
		return err
	},
	"push": func(q *queueAsked, v jsontext.Value) error { return readPush(v, &q.Push) },
	"logs": func(q *queueAsked, v jsontext.Value) error {
		word := text(v)
		if word != logsOn && word != logsOff {
			return reason("must be on or off")
		}
		q.LogsOff = word == logsOff
		return nil
	},
}}

// texts reads a JSON array of strings.
func texts(v jsontext.Value, most int) (list []string, err error) {
	if json.Unmarshal(v, &list) != nil || len(list) > most {
		return nil, reason("must be a list of texts, at most " + strconv.Itoa(most))
	}
	return list, nil
}

// wholeSeconds reads a whole number of seconds.
func wholeSeconds(v jsontext.Value, least, most int) (time.Duration, error) {
	n, err := wholeNumber(v, least, most)
	return time.Duration(n) * time.Second, err
}

// putQueue serves PUT /admin/queues/{name}: it declares a queue, or changes it. With If-Match it replaces only that
// version, with If-None-Match: * the queue must be new. Every process knows the queue within about a second.
func (a *api) putQueue(c *gin.Context) error {
	if err := noQuery(c); err != nil {
		return err
	}
	version, err := versionAsked(c.Request.Header)
	if err != nil {
		return err
	}
	var asked queueAsked
	if err := readOptional(a, c, &queueShape, &asked); err != nil {
		return err
	}
	q := asked.Queue
	q.Name = c.Param("name")
	for typ, text := range asked.schemas {
		compact, err := a.Schemas.Compile(text)
		if err != nil {
			return invalid("schemas", "of "+shorten(typ)+" "+err.Error())
		}
		if q.Schemas == nil {
			q.Schemas = map[string]string{}
		}
		q.Schemas[typ] = compact
	}
	if err := a.checkPush(c.Request.Context(), q.Push); err != nil {
		return err
	}
	if err := q.Check(); err != nil {
		return badQueue(err)
	}
	was, there := a.Queues.Find(q.Name)
	if version == -1 && len(c.Request.Header["If-Match"]) > 0 && !there {
		return &problem{kind: changed, detail: "there is no such queue; declare it with If-None-Match: *"}
	}
	stored, err := a.Queues.StoreQueue(c.Request.Context(), q, version)
	a.queueChanged(c, "queue.put", q.Name, was, there, &stored, err)
	if err != nil {
		return badQueue(inDoubt(err, "The queue may or may not have been stored: look at it in some seconds, before you "+
			"send it again."))
	}
	c.Writer.Header()["Etag"] = []string{versionTag(stored.Version)}
	return write(c, http.StatusOK, a.queueShown(c, stored))
}

// deleteQueue serves DELETE /admin/queues/{name}. Jobs that have ended keep their queue's name.
func (a *api) deleteQueue(c *gin.Context) error {
	if err := noQuery(c); err != nil {
		return err
	}
	name := c.Param("name")
	was, there := a.Queues.Find(name)
	if name == job.MainQueue {
		return invalid("name", "main cannot be deleted")
	}
	err := a.Queues.DeleteQueue(c.Request.Context(), name)
	a.queueChanged(c, "queue.delete", name, was, there, nil, err)
	switch {
	case errors.Is(err, job.ErrUnknownQueue):
		return a.noQueue(unknownQueue)
	case errors.Is(err, job.ErrQueueInUse):
		return &problem{kind: queueInUse, detail: told(err, job.ErrQueueInUse)}
	case err != nil:
		return inDoubt(err, "The queue may or may not have been deleted: look at it in some seconds.")
	}
	c.Writer.WriteHeader(http.StatusNoContent)
	c.Writer.WriteHeaderNow()
	return nil
}

// pauseQueue serves POST /admin/queues/{name}/pause: from about a second later on no process claims the queue's jobs.
func (a *api) pauseQueue(c *gin.Context) error {
	return a.holdQueue(c, func(scope string) error {
		_, err := a.pause(c, "queue.pause", scope, job.Pause{})
		return err
	})
}

// resumeQueue serves POST /admin/queues/{name}/resume.
func (a *api) resumeQueue(c *gin.Context) error {
	return a.holdQueue(c, func(scope string) error { return a.resume(c, "queue.resume", scope) })
}

func (a *api) holdQueue(c *gin.Context, do func(scope string) error) error {
	if err := noQuery(c); err != nil {
		return err
	}
	q, known := a.Queues.Find(c.Param("name"))
	if !known {
		return a.noQueue(unknownQueue)
	}
	if err := do(job.PauseQueue(q.Name)); err != nil {
		return err
	}
	c.Writer.Header()["Etag"] = []string{versionTag(q.Version)}
	return write(c, http.StatusOK, a.queueShown(c, q))
}

// purgeQueue serves POST /admin/queues/{name}/purge. If it stops half-way, the answer says how many jobs it cancelled.
func (a *api) purgeQueue(c *gin.Context) error {
	if err := noQuery(c); err != nil {
		return err
	}
	name := c.Param("name")
	if _, known := a.Queues.Find(name); !known {
		return a.noQueue(unknownQueue)
	}
	cancelled, more, err := a.Queues.PurgeQueue(c.Request.Context(), name)
	body := &struct {
		Cancelled int  `json:"cancelled"`
		More      bool `json:"more"`
	}{cancelled, more || err != nil}
	if cancelled > 0 && err != nil {
		a.Log.Warn("a purge stopped half-way", "queue", name, "cancelled", cancelled, "err", err, "trace_id", traceOf(c))
		err = nil
	}
	a.changed(c, "queue.purge", name, nil, body, err)
	if err != nil {
		return inDoubt(err, "Some of the queue's jobs may be cancelled: look at it in some seconds.")
	}
	return write(c, http.StatusOK, body)
}

// queueChanged writes a change of a queue to the log of changes.
func (a *api) queueChanged(c *gin.Context, action, name string, was job.Queue, there bool, is *job.Queue, err error) {
	var before, after any
	if there {
		before = a.queueOf(was)
	}
	if is != nil {
		after = a.queueOf(*is)
	}
	a.changed(c, action, name, before, after, err)
}

// badQueue turns job.ErrBadQueue into an INVALID_REQUEST that says why. Other errors are returned as they are.
func badQueue(err error) error {
	if !errors.Is(err, job.ErrBadQueue) {
		return err
	}
	return &problem{kind: invalidRequest, detail: told(err, job.ErrBadQueue)}
}

// queueFor returns the queue into which a caller's job goes, after the job was checked: the queue that it names; main;
// or, for a type that this server does not run, the queue that is declared for the type.
func (a *api) queueFor(caller *job.Caller, asked *asked, plan job.Plan) (job.Queue, error) {
	queue := job.Queue{Name: job.MainQueue}
	if asked.queue != "" {
		if err := a.mayQueue(caller, asked.queue); err != nil {
			return queue, err
		}
		queue, _ = a.Queues.Find(asked.queue)
	}
	err := a.check(asked, plan, queue)
	var p *problem
	if asked.queue != "" || !errors.As(err, &p) || p.kind != unknownJobType {
		return queue, cmp.Or(err, a.mayQueue(caller, queue.Name))
	}
	queue, found := a.Queues.For(asked.typ)
	if !found {
		return queue, err
	}
	if err := a.mayQueue(caller, queue.Name); err != nil {
		return queue, err
	}
	return queue, a.check(asked, plan, queue)
}

// mayQueue checks that a caller may submit into a queue: there is such a queue, and the caller has shown a key that is
// not bound to others.
func (a *api) mayQueue(caller *job.Caller, name string) error {
	if err := maySubmitTo(caller, name); err != nil {
		return err
	}
	if name == job.MainQueue {
		return nil
	}
	if anonymous(caller) {
		return refusal(caller, "")
	}
	if _, known := a.Queues.Find(name); !known {
		return a.noQueue(unknownQueueAsked, fieldError{"queue", "there is no such queue"})
	}
	return nil
}
