package httpapi

import (
	"context"
	"errors"
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tierq/tierq/internal/job"
)

// The outcomes of a change.
const (
	changeDone    = "done"
	changeRefused = "refused" // nothing was changed
	changeInDoubt = "unknown" // the change was sent, and its answer was lost
)

// changed writes to the log of changes what a caller did, or tried to do, to things that are not his own. before
// and after are the old and the intended state, or nil. They must not contain secrets. The outcome is derived from
// err.
func (a *api) changed(c *gin.Context, action, target string, before, after any, err error) {
	if a.Changes == nil {
		return
	}
	caller := callerOf(c)
	change := job.Change{
		At: a.Now(), Actor: caller.Owner(), Name: caller.Key.Name, Action: action, Target: target, Before: a.noted(before),
		After:   a.noted(after),
		Outcome: changeDone, TraceID: traceOf(c),
	}
	if caller.Address.IsValid() {
		change.Address = caller.Address.String()
	}
	var p *problem
	switch {
	case errors.Is(err, job.ErrAmbiguous), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded),
		errors.As(err, &p) && p.kind == changeUnknown:
		change.Outcome = changeInDoubt
	case err != nil:
		change.Outcome = changeRefused
	}
	a.Changes.Record(change)
}

// byOperator records a change of a job if the caller is an admin. Other callers can change their own jobs only,
// which is not recorded.
func (a *api) byOperator(c *gin.Context, action string, id job.ID, after any, err error) {
	if callerOf(c).Admin() {
		a.changed(c, action, string(id), nil, after, err)
	}
}

func (a *api) noted(v any) []byte {
	if v == nil {
		return nil
	}
	text, err := encode(v)
	if err != nil {
		a.Log.Error("a change could not be encoded for the log of changes", "err", err)
		return nil
	}
	return text
}

type changeBody struct {
	ID      int64          `json:"id"`
	At      string         `json:"at"`
	Actor   *string        `json:"actor"` // null = a caller of an open server, or the command line
	Name    *string        `json:"name"`
	Address *string        `json:"address"`
	Action  string         `json:"action"`
	Target  string         `json:"target"`
	Before  jsontext.Value `json:"before"`
	After   jsontext.Value `json:"after"`
	Outcome string         `json:"outcome"`
	TraceID *string        `json:"traceId"`
}

var changesParams = params[page]{"limit": (*page).setLimit, "cursor": (*page).setCursor}

// changesPage serves GET /admin/audit: the log of changes, newest first.
func (a *api) changesPage(c *gin.Context) error {
	p := page{limit: pageLimit}
	if err := changesParams.read(c.Request.URL.RawQuery, &p); err != nil {
		return err
	}
	var changes []job.Change
	next := ""
	if a.Changes != nil {
		var err error
		if changes, next, err = a.Changes.Changes(c.Request.Context(), p.cursor, p.limit); err != nil {
			return listError(err)
		}
	}
	body := listBody[changeBody]{Items: make([]changeBody, len(changes)), Next: orNull(next)}
	for i, one := range changes {
		body.Items[i] = changeBody{
			ID: one.ID, At: stamp(one.At), Actor: orNull(one.Actor), Name: orNull(one.Name), Address: orNull(one.Address),
			Action: one.Action,
			Target: one.Target, Before: changesShown(c, one.Before), After: changesShown(c, one.After), Outcome: one.Outcome,
			TraceID: orNull(one.TraceID),
		}
	}
	return write(c, http.StatusOK, &body)
}
