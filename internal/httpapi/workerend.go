package httpapi

import (
	"errors"
	"math"
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tierq/tierq/internal/job"
)

const maxReports = 1000

// mostRetryAfter is the longest that a worker may delay the next attempt, and mostLater the longest release, in
// seconds.
const (
	mostRetryAfter = 24 * 60 * 60
	mostLater      = 365 * 24 * 60 * 60
)

// endAsked is a report about one lease. what is the member of it that says how the attempt ended.
type endAsked struct {
	job.WorkerReport
	what string
}

// The members of the three reports, without the lease.
var (
	completed = map[string]member[endAsked]{
		"result": func(e *endAsked, v jsontext.Value) error { e.Result = v; return nil },
	}
	failed = map[string]member[endAsked]{
		"error": func(e *endAsked, v jsontext.Value) error {
			var f failureAsked
			if err := failureShape.readObject(v, &f); err != nil {
				return err
			}
			e.Error, e.UnknownType = f.text(), f.typ == string(job.UnknownJobType)
			if e.Overdue = f.typ == string(job.MaxTimeExceeded); e.Overdue { // the cause says it
				f.typ = ""
				e.Error = f.text()
			}
			return nil
		},
		"permanent": func(e *endAsked, v jsontext.Value) (err error) { e.Permanent, err = truth(v); return err },
		"retryAfterSeconds": func(e *endAsked, v jsontext.Value) (err error) {
			e.RetryAfter, err = wholeSeconds(v, 0, mostRetryAfter)
			return err
		},
	}
	released = map[string]member[endAsked]{
		"delaySeconds": func(e *endAsked, v jsontext.Value) (err error) {
			e.Delay, err = wholeSeconds(v, 0, mostLater)
			return err
		},
		"reason": func(e *endAsked, v jsontext.Value) error {
			if e.Reason = text(v); e.Reason == "" {
				return reason("must be a text")
			}
			return nil
		},
	}
	completedShape, failedShape = shape[endAsked]{members: completed}, shape[endAsked]{members: failed}
	releasedShape               = shape[endAsked]{members: released}
)

// The bodies of complete, fail and release: a lease beside the members of the report.
var (
	completeShape = withLease(job.DidSucceed, completed)
	failShape     = withLease(job.DidFail, failed)
	releaseShape  = withLease(job.GaveBack, released)
)

func withLease(kind job.ReportKind, members map[string]member[endAsked]) shape[endAsked] {
	all := map[string]member[endAsked]{
		"lease": func(e *endAsked, v jsontext.Value) error {
			e.Kind = kind
			return e.setLease(v)
		},
	}
	for name, set := range members {
		all[name] = set
	}
	return shape[endAsked]{members: all}
}

func (e *endAsked) setLease(v jsontext.Value) error {
	if e.Sealed = text(v); e.Sealed == "" {
		return reason("must be a lease")
	}
	return nil
}

// reportShape is an entry of a list of reports.
var reportShape = shape[endAsked]{members: map[string]member[endAsked]{
	"lease": (*endAsked).setLease,
	"completed": func(e *endAsked, v jsontext.Value) error {
		return e.set("completed", job.DidSucceed, &completedShape, v)
	},
	"failed":   func(e *endAsked, v jsontext.Value) error { return e.set("failed", job.DidFail, &failedShape, v) },
	"released": func(e *endAsked, v jsontext.Value) error { return e.set("released", job.GaveBack, &releasedShape, v) },
}}

func (e *endAsked) set(what string, kind job.ReportKind, s *shape[endAsked], v jsontext.Value) error {
	if e.what != "" {
		return reason("excludes " + e.what)
	}
	e.what, e.Kind = what, kind
	return s.readObject(v, e)
}

// failureAsked is a worker's error.
type failureAsked struct{ message, typ, stack string }

var failureShape = shape[failureAsked]{members: map[string]member[failureAsked]{
	"message": func(f *failureAsked, v jsontext.Value) error { f.message = text(v); return nil },
	"type":    func(f *failureAsked, v jsontext.Value) error { f.typ = text(v); return nil },
	"stack":   func(f *failureAsked, v jsontext.Value) error { f.stack = text(v); return nil },
}}

// text returns the error as it is stored: "type: message", then the stack.
func (f *failureAsked) text() string {
	text := f.message
	if f.typ != "" {
		text = f.typ + ": " + text
	}
	if f.stack != "" {
		text += "\n" + f.stack
	}
	return text
}

func truth(v jsontext.Value) (bool, error) {
	if k := v.Kind(); k != 't' && k != 'f' {
		return false, reason("must be true or false")
	}
	return v.Kind() == 't', nil
}

// endBody is the answer to a report: an outcome, or in a list an error.
type endBody struct {
	JobID        job.ID       `json:"jobId,omitzero"`
	Outcome      string       `json:"outcome,omitzero"`
	At           *string      `json:"at,omitempty"`
	FailureCause job.Cause    `json:"failureCause,omitzero"`
	RetryCount   *int         `json:"retryCount,omitempty"`
	MaxRetries   *int         `json:"maxRetries,omitempty"`
	RunAt        *string      `json:"runAt,omitempty"`
	Error        *problemBody `json:"error,omitempty"`
}

func endOf(e *job.WorkerEnd) endBody {
	b := endBody{JobID: e.ID, Outcome: string(e.How), At: when(e.At), FailureCause: e.Cause, RunAt: when(e.RunAt)}
	switch {
	case e.How == job.EndRetried:
		b.RetryCount, b.MaxRetries = &e.RetryCount, &e.MaxRetries
	case e.How == job.EndReleased && !e.RunAt.IsZero():
		b.Outcome = "LATER"
	}
	return b
}

// workerEnd serves POST /api/worker/complete, fail and release.
func (a *api) workerEnd(s *shape[endAsked]) func(*gin.Context) error {
	return func(c *gin.Context) error {
		asked := endAsked{}
		asked.RetryAfter = -1
		done, err := a.readWorker(c, func(body []byte) error { return readDeep(body, 1, s, &asked) })
		defer done()
		switch {
		case err != nil:
			return err
		case asked.Sealed == "":
			return invalid("lease", "is missing")
		}
		e := a.Leases.End(c.Request.Context(), callerOf(c).Owner(), []job.WorkerReport{asked.WorkerReport})[0]
		if e.Err != nil {
			return inDoubtReport(e.Err)
		}
		return write(c, http.StatusOK, endOf(&e))
	}
}

// inDoubtReport turns an error of the store into a 503: the same report counts once.
func inDoubtReport(err error) error {
	if errors.Is(err, job.ErrAmbiguous) {
		return &problem{kind: systemUnhealthy, detail: "the store did not answer: send the same again, it counts once"}
	}
	return err
}

// reportsAsked is the body of a report. wrong says, for each report, why it could not be read.
type reportsAsked struct {
	reports []job.WorkerReport
	wrong   []error
}

var reportsShape = shape[reportsAsked]{lists: true, members: map[string]member[reportsAsked]{
	"worker": func(_ *reportsAsked, v jsontext.Value) error { _, err := workerName(v); return err },
	"reports": func(a *reportsAsked, v jsontext.Value) (err error) {
		a.reports, a.wrong, err = readReports(v)
		return err
	},
}}

// workerReport serves POST /api/worker/report: many ends, of all kinds.
func (a *api) workerReport(c *gin.Context) error {
	var asked reportsAsked
	done, err := a.readWorker(c, func(body []byte) error { return reportsShape.readObject(body, &asked) })
	defer done()
	switch {
	case err != nil:
		return err
	case len(asked.reports) == 0:
		return invalid("reports", "is missing: 1 to 1000 reports")
	}
	return write(c, http.StatusOK, &struct {
		Reports []endBody `json:"reports"`
	}{a.endAll(c, asked.reports, asked.wrong)})
}

// readReports reads a list of reports. wrong says, for each, why it is not one; the error is about the list.
func readReports(v jsontext.Value) (reports []job.WorkerReport, wrong []error, err error) {
	entries, err := splitArray(v)
	if err != nil {
		return nil, nil, reason("must be a list of reports")
	}
	if len(entries) > maxReports {
		return nil, nil, reason("has more than 1000 reports")
	}
	reports, wrong = make([]job.WorkerReport, len(entries)), make([]error, len(entries))
	seen := map[string]bool{}
	for i, entry := range entries {
		one := endAsked{}
		one.RetryAfter = -1
		err := readEntry(entry, 2, &reportShape, &one)
		switch {
		case err != nil:
		case one.Sealed == "":
			err = invalid("lease", "is missing")
		case one.what == "":
			err = invalid("completed", "is missing: a report has completed, failed or released")
		case seen[one.Sealed]:
			return nil, nil, reason("has a lease twice")
		}
		seen[one.Sealed] = true
		reports[i], wrong[i] = one.WorkerReport, err
	}
	return reports, wrong, nil
}

// endAll carries out reports and answers each, in their order.
func (a *api) endAll(c *gin.Context, reports []job.WorkerReport, wrong []error) []endBody {
	answers := make([]endBody, len(reports))
	var send []job.WorkerReport
	var at []int
	for i := range reports {
		if wrong[i] != nil {
			answers[i].Error = a.problemOf(c, wrong[i])
			continue
		}
		send, at = append(send, reports[i]), append(at, i)
	}
	if len(send) == 0 {
		return answers
	}
	for n, e := range a.Leases.End(c.Request.Context(), callerOf(c).Owner(), send) {
		if e.Err != nil {
			answers[at[n]].Error = a.problemOf(c, inDoubtReport(e.Err))
			continue
		}
		answers[at[n]] = endOf(&e)
	}
	return answers
}

// readWorker reads the body of a worker's call, which may be large. done releases its memory, and must be called after
// an error too.
func (a *api) readWorker(c *gin.Context, read func(body []byte) error) (done func(), err error) {
	if err := noQuery(c); err != nil {
		return func() {}, err
	}
	body, done, err := a.readLarge(c, checkType)
	if err != nil {
		return done, err
	}
	if blank(body) {
		return done, &problem{kind: invalidRequest, detail: noObject}
	}
	return done, read(body)
}

// readEntry is readDeep for an entry of a list, whose values lie in so many objects.
func readEntry[T any](text []byte, around int, s *shape[T], into *T) error {
	if kind := jsontext.Value(text).Kind(); kind != '{' {
		return &problem{kind: invalidRequest, detail: "an entry must be a JSON object"}
	}
	return readDeep(text, around, s, into)
}

// readDeep reads an object with a value of a worker, such as a result, that lies in so many objects. Its depth is
// bounded, but not its number of members: a result may have many.
func readDeep[T any](text []byte, around int, s *shape[T], into *T) error {
	if err := measureUpTo(text, maxDepth+around, math.MaxInt); err != nil {
		return err
	}
	return s.readObject(text, into)
}
