package httpapi

import (
	"cmp"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tierq/tierq/internal/job"
)

// PauseReader is a process that claims jobs, and the version of the pauses that it has read.
type PauseReader struct {
	Name    string
	Version int64
}

// maxPause is the longest time that a pause may be asked for: longer ones say no end.
const maxPause = 365 * 24 * time.Hour

// pauseBody is a pause on the wire.
type pauseBody struct {
	Scope  string  `json:"scope"`
	Since  *string `json:"since"`
	Until  *string `json:"until"` // null: until it is resumed
	By     *string `json:"by"`    // null: a caller without a key
	Reason *string `json:"reason"`
	Refuse bool    `json:"refuse"` // submits are refused too
}

func pauseOf(p job.Pause) pauseBody {
	return pauseBody{
		Scope: p.Scope, Since: when(p.Since), Until: when(p.Until), By: orNull(p.By), Reason: orNull(p.Reason),
		Refuse: p.Refuse,
	}
}

// readerBody is a process on the wire.
type readerBody struct {
	Name    string `json:"name"`
	Version int64  `json:"version"`
	Current bool   `json:"current"` // its claims know the pauses
}

// paused serves GET /admin/paused: what is paused, and whether every process that claims jobs knows.
func (a *api) paused(c *gin.Context) error {
	if err := noQuery(c); err != nil {
		return err
	}
	now := a.Pauses.All()
	readers, err := a.Pauses.Readers(c.Request.Context())
	if err != nil {
		return err
	}
	body := struct {
		Version   int64        `json:"version"`
		InForce   bool         `json:"inForce"`
		Items     []pauseBody  `json:"items"`
		Processes []readerBody `json:"processes"`
	}{Version: now.Version, InForce: true, Items: []pauseBody{}, Processes: []readerBody{}}
	for _, p := range now.List {
		body.Items = append(body.Items, pauseOf(p))
	}
	for _, r := range readers {
		is := r.Version >= now.Version
		body.Processes, body.InForce = append(body.Processes, readerBody{r.Name, r.Version, is}), body.InForce && is
	}
	return write(c, http.StatusOK, &body)
}

// pauseAsked is the body of a PUT.
type pauseAsked struct {
	job.Pause
	long time.Duration
}

var pauseShape = shape[pauseAsked]{members: map[string]member[pauseAsked]{
	"until": func(p *pauseAsked, v jsontext.Value) (err error) {
		p.Until, err = moment(string(unquoted(v)))
		return err
	},
	"forSeconds": func(p *pauseAsked, v jsontext.Value) (err error) {
		p.long, err = wholeSeconds(v, 1, int(maxPause.Seconds()))
		return err
	},
	"reason": func(p *pauseAsked, v jsontext.Value) (err error) {
		if v.Kind() != '"' {
			return reason("must be a string")
		}
		p.Reason, err = readReason(text(v))
		return err
	},
	"refuse": func(p *pauseAsked, v jsontext.Value) (err error) { p.Refuse, err = truth(v); return err },
}}

// putPaused serves PUT /admin/paused/{scope}: it pauses all jobs, or those of a tier, a queue or a type.
func (a *api) putPaused(c *gin.Context) error {
	if err := noQuery(c); err != nil {
		return err
	}
	var asked pauseAsked
	if err := readOptional(a, c, &pauseShape, &asked); err != nil {
		return err
	}
	if err := a.until(&asked); err != nil {
		return err
	}
	set, err := a.pause(c, "pause", c.Param("scope"), asked.Pause)
	if err != nil {
		return err
	}
	return write(c, http.StatusOK, pauseOf(set))
}

// until checks when a pause ends, and turns forSeconds into a time.
func (a *api) until(asked *pauseAsked) error {
	switch now := a.Clock(); {
	case asked.long > 0 && !asked.Until.IsZero():
		return &problem{
			kind: invalidRequest, detail: "until and forSeconds exclude each other",
			fields: []fieldError{{"until", "excludes forSeconds"}, {"forSeconds", "excludes until"}},
		}
	case asked.long > 0:
		asked.Until = now.Add(asked.long)
	case asked.Until.IsZero():
	case !asked.Until.After(now):
		return invalid("until", "has passed")
	case asked.Until.After(now.Add(maxPause)):
		return invalid("until", "is more than 365 days ahead")
	}
	return nil
}

// pause pauses a scope for the caller, and notes the change under the name of an action.
func (a *api) pause(c *gin.Context, action, scope string, asked job.Pause) (job.Pause, error) {
	caller := callerOf(c)
	asked.Scope, asked.By = scope, cmp.Or(caller.Key.Name, caller.Owner())
	was, there := a.Pauses.Find(scope)
	set, err := a.Pauses.Pause(c.Request.Context(), asked)
	var before any
	if there {
		before = pauseOf(was)
	}
	a.changed(c, action, cmp.Or(set.Scope, scope), before, pauseOf(set), err)
	return set, a.badScope(err, "It may or may not be paused now: look in some seconds, before you send it again.")
}

// deletePaused serves DELETE /admin/paused/{scope}: it ends a pause. Without one it changes nothing.
func (a *api) deletePaused(c *gin.Context) error {
	if err := noQuery(c); err != nil {
		return err
	}
	if err := a.resume(c, "resume", c.Param("scope")); err != nil {
		return err
	}
	c.Writer.WriteHeader(http.StatusNoContent)
	c.Writer.WriteHeaderNow()
	return nil
}

// resume ends the pause of a scope, and notes the change under the name of an action.
func (a *api) resume(c *gin.Context, action, scope string) error {
	was, on, err := a.Pauses.Resume(c.Request.Context(), scope)
	var before any
	if on {
		before, scope = pauseOf(was), was.Scope
	}
	a.changed(c, action, scope, before, nil, err)
	return a.badScope(err, "It may or may not be paused now: look in some seconds, before you send it again.")
}

// badScope turns job.ErrBadScope into a 422 that says why. Other errors are those of a change.
func (a *api) badScope(err error, inDoubtAdvice string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, job.ErrBadScope):
		why := strings.TrimPrefix(told(err, job.ErrBadScope), job.ErrBadScope.Error()+": ")
		return &problem{kind: badScope, detail: why, fields: []fieldError{{"scope", why}}}
	case errors.Is(err, job.ErrUnknownTier):
		return a.noTier()
	case errors.Is(err, job.ErrUnknownQueue):
		return a.noQueue(unknownQueue)
	}
	return inDoubt(err, inDoubtAdvice)
}
