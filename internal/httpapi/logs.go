package httpapi

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tierq/tierq/internal/job"
)

// progressBody is how far an attempt is.
type progressBody struct {
	At    *string `json:"at"`
	Done  int64   `json:"done"`
	Total *int64  `json:"total"` // null: the handler does not know
	Note  *string `json:"note"`
}

func progressOf(p *job.Progress) *progressBody {
	if p == nil {
		return nil
	}
	b := progressBody{At: when(p.At), Done: p.Done, Note: orNull(p.Note)}
	if p.Total > 0 {
		b.Total = &p.Total
	}
	return &b
}

// logLineBody is a line of a job's log. Of lines that are lost, lost says how many.
type logLineBody struct {
	Seq     int64          `json:"seq"`
	Attempt int            `json:"attempt"`
	At      *string        `json:"at"`
	Level   string         `json:"level"`
	Text    string         `json:"text"`
	Attrs   jsontext.Value `json:"attrs,omitzero"`
	Lost    int            `json:"lost,omitzero"`
}

func logLineOf(l *job.LogLine) logLineBody {
	return logLineBody{
		Seq: l.Seq(), Attempt: l.Attempt, At: when(l.At), Level: l.Level, Text: l.Text, Attrs: l.Attrs, Lost: l.Lost,
	}
}

// logQuery says which lines are asked for.
type logQuery struct {
	after   int64
	attempt int    // 0 = all
	level   string // the least; "" = all
	wait    time.Duration
	limit   int
}

const mostLines = job.MaxLogLines

var logParams = params[logQuery]{
	"after": func(q *logQuery, value string) (err error) { q.after, err = seqAsked(value); return err },
	"attempt": func(q *logQuery, value string) (err error) {
		q.attempt, err = whole(value, 1, 1<<31-1)
		return err
	},
	"level": func(q *logQuery, value string) error {
		if q.level = value; !slices.Contains(job.LogLevels, value) {
			return reason("must be DEBUG, INFO, WARN or ERROR")
		}
		return nil
	},
	"wait":  func(q *logQuery, value string) (err error) { q.wait, err = waitAsked(value); return err },
	"limit": func(q *logQuery, value string) (err error) { q.limit, err = whole(value, 1, mostLines); return err },
}

// seqAsked reads the place of a line in its job's log.
func seqAsked(value string) (int64, error) {
	seq, err := strconv.ParseInt(value, 10, 64)
	if err != nil || seq < 0 {
		return 0, reason("must be the seq of a line, or 0")
	}
	return seq, nil
}

// takes says whether a line is asked for. A gap is, whatever the level.
func (q *logQuery) takes(l *job.LogLine) bool {
	if q.attempt > 0 && l.Attempt != q.attempt {
		return false
	}
	return q.level == "" || l.Lost > 0 || slices.Index(job.LogLevels, l.Level) >= slices.Index(job.LogLevels, q.level)
}

// logsBody is the answer: lines, the oldest first.
type logsBody struct {
	Items []logLineBody `json:"items"`
	After int64         `json:"after"` // what the next request asks for
	More  bool          `json:"more"`  // there are further lines now
	Ended bool          `json:"ended"` // the job has ended: there will be no further lines, unless it is requeued
}

// logs serves GET /api/jobs/{id}/logs.
func (a *api) logs(c *gin.Context) error {
	id, err := pathID(c)
	if err != nil {
		return err
	}
	q := logQuery{limit: mostLines}
	if err := logParams.read(c.Request.URL.RawQuery, &q); err != nil {
		return err
	}
	if err := a.known(c, id); err != nil {
		return aboutJob(err, id)
	}
	var j job.Job
	var lines []job.LogLine
	if q.wait > 0 {
		j, lines, err = a.awaitLines(c, id, &q)
	} else if j, err = a.Jobs.Find(c.Request.Context(), id); err == nil { // first: an ended job has no further lines
		lines, err = a.Jobs.Logs(c.Request.Context(), id, q.after)
	}
	if err != nil {
		return aboutJob(err, id)
	}
	body := logsBody{Items: []logLineBody{}, After: q.after, Ended: j.Status.Ended()}
	hide := slices.Contains(a.veilFor(c, j.Type), everything)
	for i := range lines {
		l := &lines[i]
		if !q.takes(l) {
			body.After = l.Seq()
			continue
		}
		if body.More = len(body.Items) == q.limit; body.More {
			break
		}
		body.After = l.Seq()
		body.Items = append(body.Items, veilLine(logLineOf(l), hide))
	}
	return write(c, http.StatusOK, &body)
}

// veilLine hides what a handler wrote, if hide is true.
func veilLine(b logLineBody, hide bool) logLineBody {
	if hide && b.Lost == 0 {
		b.Text, b.Attrs = veiled, nil
	}
	return b
}

// errLinesFound ends a wait for lines.
var errLinesFound = errors.New("there are lines")

// awaitLines holds a request until there are lines that it asks for, the job has ended, or its wait is over.
func (a *api) awaitLines(c *gin.Context, id job.ID, q *logQuery) (last job.Job, lines []job.LogLine, err error) {
	leave, err := a.enter(c)
	if err != nil {
		return last, nil, err
	}
	defer leave()
	extend(c, q.wait)
	whole := c.Request.Context()
	ctx, cancel := context.WithTimeout(whole, q.wait)
	defer cancel()
	err = a.Wait.Follow(ctx, id, func(j job.Job) error {
		once, cancel := context.WithTimeout(whole, operation)
		defer cancel()
		found, err := a.Jobs.Logs(once, id, q.after)
		if err != nil {
			return err
		}
		last, lines = j, found
		if j.Status.Ended() || slices.ContainsFunc(found, func(l job.LogLine) bool { return q.takes(&l) }) {
			return errLinesFound
		}
		return nil
	})
	if errors.Is(err, errLinesFound) {
		err = nil
	}
	if err == nil && last.ID == "" {
		err = job.ErrUnavailable
	}
	return last, lines, err
}
