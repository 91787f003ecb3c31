package httpapi

import (
	"net/http"
	"slices"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tierq/tierq/internal/job"
)

const (
	mostLogged  = 1000           // lines in a call
	mostLineAge = 60 * 60 * 1000 // ms
)

// logLineShape is a line of a job's log: an object, or a text alone.
var logLineShape = shape[job.LogEntry]{members: map[string]member[job.LogEntry]{
	"level": func(l *job.LogEntry, v jsontext.Value) error {
		if l.Level = text(v); !slices.Contains(job.LogLevels, l.Level) {
			return reason("must be DEBUG, INFO, WARN or ERROR")
		}
		return nil
	},
	"text": func(l *job.LogEntry, v jsontext.Value) error {
		if v.Kind() != '"' {
			return reason("must be a text")
		}
		l.Text = text(v)
		return nil
	},
	"attrs": func(l *job.LogEntry, v jsontext.Value) error {
		if v.Kind() != '{' {
			return reason("must be an object")
		}
		l.Attrs = slices.Clone(v)
		return nil
	},
	"ageMs": func(l *job.LogEntry, v jsontext.Value) error {
		ms, err := wholeNumber(v, 0, mostLineAge)
		l.Age = time.Duration(ms) * time.Millisecond
		return err
	},
}}

// workerLogShape has the lines of one lease.
var workerLogShape = shape[job.WorkerLog]{members: map[string]member[job.WorkerLog]{
	"lease": func(w *job.WorkerLog, v jsontext.Value) error {
		if w.Sealed = text(v); w.Sealed == "" {
			return reason("must be a lease")
		}
		return nil
	},
	"from": func(w *job.WorkerLog, v jsontext.Value) (err error) {
		w.From, err = wholeNumber(v, 1, job.MaxLogNumber-mostLogged)
		return err
	},
	"lines": func(w *job.WorkerLog, v jsontext.Value) error {
		entries, err := splitArray(v)
		if err != nil {
			return reason("must be a list of lines")
		}
		for _, entry := range entries {
			l := job.LogEntry{Level: "INFO"}
			switch {
			case jsontext.Value(entry).Kind() == '"':
				l.Text = text(entry)
			case jsontext.Value(entry).Kind() == 'n': // the line of this number is lost
				l.Level = ""
			case jsontext.Value(entry).Kind() != '{':
				return reason("has an entry that is neither a text nor an object")
			default:
				if err := readDeep(entry, 1, &logLineShape, &l); err != nil {
					return err
				}
			}
			if len(l.Text)+len(l.Attrs) > job.MaxLogLine {
				return reason("has a line of more than 4096 bytes")
			}
			w.Lines = append(w.Lines, l)
		}
		return nil
	},
}}

// logAsked is the body of a call that adds lines. wrong says of each entry why it could not be read.
type logAsked struct {
	logs  []job.WorkerLog
	wrong []error
}

var logShape = shape[logAsked]{lists: true, members: map[string]member[logAsked]{
	"worker": func(_ *logAsked, v jsontext.Value) error { _, err := workerName(v); return err },
	"logs": func(a *logAsked, v jsontext.Value) error {
		entries, err := splitArray(v)
		if err != nil {
			return reason("must be a list")
		}
		a.logs, a.wrong = make([]job.WorkerLog, len(entries)), make([]error, len(entries))
		lines, seen := 0, map[string]bool{}
		for i, entry := range entries {
			w := &a.logs[i]
			if a.wrong[i] = readEntry(entry, 3, &workerLogShape, w); a.wrong[i] != nil {
				continue
			}
			switch lines += len(w.Lines); {
			case w.Sealed == "":
				a.wrong[i] = invalid("lease", "is missing")
			case seen[w.Sealed]:
				return reason("has a lease twice")
			case lines > mostLogged:
				return reason("has more than 1000 lines")
			case w.From == 0 && slices.ContainsFunc(w.Lines, func(l job.LogEntry) bool { return l.Level == "" }):
				a.wrong[i] = invalid("lines", "has a lost line, null, in an entry without from")
			}
			seen[w.Sealed] = true
		}
		return nil
	},
}}

// loggedBody is the answer about the lines of one lease.
type loggedBody struct {
	Outcome job.Word     `json:"outcome,omitzero"`
	Error   *problemBody `json:"error,omitempty"`
}

// workerLog serves POST /api/worker/log.
func (a *api) workerLog(c *gin.Context) error {
	var asked logAsked
	done, err := a.readWorker(c, func(body []byte) error { return logShape.readObject(body, &asked) })
	defer done()
	switch {
	case err != nil:
		return err
	case len(asked.logs) == 0:
		return invalid("logs", "is missing: 1 to 1000 leases with lines")
	}
	var send []job.WorkerLog
	var at []int
	body := struct {
		Logs []loggedBody `json:"logs"`
	}{make([]loggedBody, len(asked.logs))}
	for i := range asked.logs {
		if asked.wrong[i] != nil {
			body.Logs[i].Error = a.problemOf(c, asked.wrong[i])
			continue
		}
		send, at = append(send, asked.logs[i]), append(at, i)
	}
	answers, err := a.Leases.AddLines(c.Request.Context(), callerOf(c).Owner(), send)
	if err != nil {
		return inDoubtReport(err)
	}
	for n, answer := range answers {
		one := &body.Logs[at[n]]
		one.Outcome = answer.Word
		if answer.Err == nil && answer.Word == job.Lost {
			answer.Err = job.ErrLeaseLost
		}
		if answer.Err != nil {
			*one = loggedBody{Error: a.problemOf(c, answer.Err)}
		}
	}
	return write(c, http.StatusOK, &body)
}
