package httpapi

import (
	"context"
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tierq/tierq/internal/job"
)

// deadRow is a dead letter in a list.
type deadRow struct {
	jobRow
	RequeueRequestedAt *string `json:"requeueRequestedAt"`
	RequeuedAt         *string `json:"requeuedAt"`
}

// deadLine is a dead letter in an export. It has all that is needed to submit the job again.
type deadLine struct {
	deadRow
	Payload     jsontext.Value `json:"payload"`
	CallbackURL *string        `json:"callbackUrl"`
}

func deadRowOf(d *job.DeadLetter) deadRow {
	return deadRow{rowOf(&d.Job), when(d.RequestedAt), when(d.RequeuedAt)}
}

func (a *api) deadRows(c *gin.Context, letters []job.DeadLetter) []deadRow {
	rows := make([]deadRow, len(letters))
	for i := range letters {
		a.veil(c, &letters[i].Job)
		rows[i] = deadRowOf(&letters[i])
	}
	return rows
}

// pageQuery selects a page by its number, counted from 0.
type pageQuery struct{ page, size int }

// maxPage bounds the page number. Beyond it, /admin/dead goes on from a cursor.
const maxPage = 10000

var pageParams = params[pageQuery]{
	"page": func(q *pageQuery, value string) (err error) { q.page, err = whole(value, 0, maxPage); return err },
	"size": func(q *pageQuery, value string) (err error) { q.size, err = whole(value, 1, pageMost); return err },
}

// deadPage serves GET /jobs/dead: all dead letters for an operator, the caller's own for others.
func (a *api) deadPage(c *gin.Context) error {
	q := pageQuery{size: pageLimit}
	if err := pageParams.read(c.Request.URL.RawQuery, &q); err != nil {
		return err
	}
	var f job.Filter
	own(c, &f)
	letters, total, err := a.Dead.DeadPage(c.Request.Context(), f, q.page, q.size)
	if err != nil {
		return err
	}
	return write(c, http.StatusOK, &struct {
		Items []deadRow `json:"items"`
		Page  int       `json:"page"`
		Size  int       `json:"size"`
		Total int64     `json:"total"`
	}{a.deadRows(c, letters), q.page, q.size, total})
}

var (
	exportParams = params[listQuery]{
		"tier": (*listQuery).setTier, "type": (*listQuery).setType, "cause": (*listQuery).setCause,
		"traceId": (*listQuery).setTrace, "from": (*listQuery).setFrom, "to": (*listQuery).setTo,
	}
	deadParams = params[listQuery]{
		"tier": (*listQuery).setTier, "type": (*listQuery).setType, "cause": (*listQuery).setCause,
		"traceId": (*listQuery).setTrace, "from": (*listQuery).setFrom, "to": (*listQuery).setTo,
		"limit": (*listQuery).setLimit, "cursor": (*listQuery).setCursor,
	}
)

// dead serves GET /admin/dead.
func (a *api) dead(c *gin.Context) error {
	q := listQuery{page: page{limit: pageLimit}}
	if err := deadParams.read(c.Request.URL.RawQuery, &q); err != nil {
		return err
	}
	letters, next, err := a.Dead.Dead(c.Request.Context(), q.Filter, q.cursor, q.limit)
	if err != nil {
		return listError(err)
	}
	return write(c, http.StatusOK, &listBody[deadRow]{Items: a.deadRows(c, letters), Next: orNull(next)})
}

// deadExport serves GET /admin/dead/export: one line of JSON per dead letter. An export that fails half-way breaks the
// connection off, so that the client does not take it for complete.
func (a *api) deadExport(c *gin.Context) error {
	var q listQuery
	if err := exportParams.read(c.Request.URL.RawQuery, &q); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Request.Context(), transfer)
	defer cancel()
	extend(c, operation)
	begun := false
	begin := func() {
		h := c.Writer.Header()
		h["Content-Type"] = []string{"application/x-ndjson"}
		h["Content-Disposition"] = []string{`attachment; filename="dead-letters.ndjson"`}
		c.Writer.WriteHeader(http.StatusOK)
		begun = true
	}
	err := a.Dead.EachDead(ctx, q.Filter, func(d job.DeadLetter) error {
		a.veil(c, &d.Job)
		line, err := encode(&deadLine{deadRowOf(&d), d.Payload, orNull(d.CallbackURL)})
		if err != nil {
			return err
		}
		if !begun {
			begin()
		}
		extend(c, operation)
		_, err = c.Writer.Write(append(line, '\n'))
		return err
	})
	switch {
	case err == nil && !begun:
		begin()
		c.Writer.WriteHeaderNow()
	case err != nil && begun:
		return a.breakOff(c, "export of dead letters", err)
	}
	return err
}

// breakOff ends an answer that has begun and cannot be finished: it panics with http.ErrAbortHandler, which closes
// the connection.
func (a *api) breakOff(c *gin.Context, what string, err error) error {
	if c.Request.Context().Err() == nil {
		a.Log.Warn("an answer was cut off", "what", what, "err", err, "trace_id", traceOf(c))
	}
	panic(http.ErrAbortHandler)
}
