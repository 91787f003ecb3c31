package httpapi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tierq/tierq/internal/job"
)

// Flows accepts and reads flows. job.ErrFlowNotFound: there is no such flow.
type Flows interface {
	// SubmitFlow accepts a flow as a whole, or refuses it with the errors of Submitter, job.ErrMismatch or a
	// *job.FlowError. It sets the ids of the flow and its jobs. contents has a hash of what the caller said of each job.
	// first is the flow that f.Request stood for before. job.ErrAmbiguous: it may be accepted.
	SubmitFlow(ctx context.Context, f *job.Flow, quota int, contents []string) (first *job.Flow, err error)
	// AddToFlow adds jobs for the job of a lease of a key. job.ErrLeaseLost, job.ErrFlowName, job.ErrFlowFull,
	// job.ErrFlowCancelled, *job.FlowError.
	AddToFlow(ctx context.Context, key, lease string, f *job.Flow, contents []string) error
	Flow(ctx context.Context, id job.ID) (job.Flow, error)
	Flows(ctx context.Context, filter job.FlowFilter, cursor string, limit int) (flows []job.Flow, next string, err error)
	// CancelFlow cancels all jobs of a flow. job.ErrAmbiguous: some may be cancelled.
	CancelFlow(ctx context.Context, id job.ID, reason string) error
	// FlowInputs returns what the jobs that the job of a lease waited for left behind; with a name, that of one job,
	// whole. job.ErrLeaseLost, job.ErrNotFound.
	FlowInputs(ctx context.Context, key, lease, name string) ([]job.FlowInput, error)
}

// flowJobAsked is a job of a flow as a body has it.
type flowJobAsked struct {
	name      string
	asked     asked
	after     []string
	onFailure job.OnFailure
}

// flowAsked is a body that asks for a flow, or for more jobs of one.
type flowAsked struct {
	name  string
	lease string
	jobs  []flowJobAsked
}

var (
	flowShape = shape[flowAsked]{members: map[string]member[flowAsked]{
		"name": (*flowAsked).setName, "jobs": (*flowAsked).setJobs,
	}}
	addShape = shape[flowAsked]{members: map[string]member[flowAsked]{
		"lease": (*flowAsked).setLease, "jobs": (*flowAsked).setJobs,
	}}
	flowJobsShape = shape[flowAsked]{others: (*flowAsked).addJob}
	flowJobBody   = newFlowJobBody()
	flowJobShape  = shape[flowJobAsked]{members: map[string]member[flowJobAsked]{
		"after": (*flowJobAsked).setAfter, "onFailure": (*flowJobAsked).setOnFailure,
	}, others: func(*flowJobAsked, string, jsontext.Value) error { return nil }}
)

// newFlowJobBody returns the members of a submit that a job of a flow has too.
func newFlowJobBody() *submitBody {
	ignored := func(*asked, jsontext.Value) error { return nil }
	b := newSubmitBody(ours, map[string]member[asked]{
		"tier": (*asked).setTier, "after": ignored, "onFailure": ignored, "unique": (*asked).setFlowUnique,
	})
	delete(b.members, "batch")
	return b
}

func (f *flowAsked) setName(v jsontext.Value) error {
	f.name = text(v)
	if v.Kind() != '"' || utf8.RuneCountInString(f.name) > job.MaxFlowName ||
		strings.ContainsFunc(f.name, unicode.IsControl) {
		return reason("must be one line of at most " + strconv.Itoa(job.MaxFlowName) + " characters")
	}
	return nil
}

func (f *flowAsked) setLease(v jsontext.Value) error {
	if f.lease = text(v); f.lease == "" {
		return reason("must be a lease")
	}
	return nil
}

func (f *flowAsked) setJobs(v jsontext.Value) error {
	if v.Kind() != '{' {
		return reason("must be an object: its names are those of the jobs")
	}
	return flowJobsShape.readObject(v, f)
}

func (f *flowAsked) addJob(name string, v jsontext.Value) error {
	switch {
	case !job.IsFlowJobName(name):
		return reason("a job's name " + job.FlowJobNameRule)
	case v.Kind() != '{':
		return reason("must be an object")
	case len(f.jobs) == job.MaxFlowJobs:
		return reason(job.ErrFlowFull.Error())
	}
	one := flowJobAsked{name: name, onFailure: job.FlowCancels}
	if err := flowJobBody.decode(v, &one.asked); err != nil {
		return err
	}
	if err := flowJobShape.readObject(v, &one); err != nil {
		return err
	}
	f.jobs = append(f.jobs, one)
	return nil
}

func (j *flowJobAsked) setAfter(v jsontext.Value) error {
	entries, err := splitArray(v)
	if err != nil {
		return reason("must be a list of names")
	}
	for _, entry := range entries {
		name := text(jsontext.Value(entry))
		if !job.IsFlowAfter(name) {
			return reason("has an entry that is no job's name, nor a name with /* behind it")
		}
		if !slices.Contains(j.after, name) {
			j.after = append(j.after, name)
		}
	}
	slices.Sort(j.after)
	return nil
}

func (j *flowJobAsked) setOnFailure(v jsontext.Value) error {
	if j.onFailure = job.OnFailure(text(v)); !j.onFailure.Known() {
		return reason("is none of cancel, run, wait")
	}
	return nil
}

// readFlow reads the body of a flow. done releases its memory, and must be called after an error too.
func (a *api) readFlow(c *gin.Context, s *shape[flowAsked], into *flowAsked) (done func(), err error) {
	if err := noQuery(c); err != nil {
		return func() {}, err
	}
	body, done, err := a.readLarge(c, checkType)
	if err == nil {
		err = measureUpTo(body, maxDepth, math.MaxInt)
	}
	if err == nil && blank(body) {
		err = invalid("jobs", "is missing")
	}
	if err == nil {
		err = s.readObject(body, into)
	}
	if err == nil && len(into.jobs) == 0 {
		err = invalid("jobs", "is missing: 1 to "+strconv.Itoa(job.MaxFlowJobs)+" jobs")
	}
	return done, err
}

// flowJobs checks the jobs that a body asks for, each as a submit is checked, and returns them with the hashes of what
// the body says of them.
func (a *api) flowJobs(c *gin.Context, asked *flowAsked) (jobs []job.FlowJob, contents []string, err error) {
	caller, now := callerOf(c), a.Clock()
	for i := range asked.jobs {
		of := &asked.jobs[i]
		if len(of.asked.payload) > a.PayloadLimit {
			return nil, nil, about("jobs."+of.name, tooLarge(fmt.Sprintf("the payload has %d bytes; at most %d are taken",
				len(of.asked.payload), a.PayloadLimit)))
		}
		plan, err := a.tierAsked(of.asked.tier)
		if err == nil {
			err = mayTier(c, plan.Tier)
		}
		plan.MaxWait = 0 // a tier's longest wait counts from the arrival, which is the flow's
		var s job.Submission
		if err == nil {
			s, err = a.submission(caller, &of.asked, plan, traceOf(c))
		}
		if err != nil {
			return nil, nil, about("jobs."+of.name, err)
		}
		j := job.FlowJob{
			Job: job.Job{
				Tier: s.Tier, Type: s.Type, Owner: s.Owner, TraceID: s.TraceID, MaxRetries: s.MaxRetries, Options: s.Options,
				Payload: s.Payload, RunAt: s.RunAt,
			},
			Name: of.name, After: of.after, OnFailure: of.onFailure, Delay: s.Delay, ExpiresIn: of.asked.expiresIn,
		}
		if j.ExpiresIn > 0 { // it counts from the release
			j.ExpiresMs = 0
		}
		if !s.RunAt.After(now) {
			j.RunAt = time.Time{}
		}
		jobs, contents = append(jobs, j), append(contents, of.content(&s))
	}
	return jobs, contents, nil
}

// content returns the hash of what a body says of a job.
func (j *flowJobAsked) content(s *job.Submission) string {
	said := idempotency(&job.Caller{Open: true}, s, &j.asked)
	parts := [][]byte{[]byte(said.Body), []byte(j.onFailure), []byte(s.Queue), []byte(j.asked.maxRun.String())}
	for _, after := range j.after {
		parts = append(parts, []byte(after))
	}
	return hexHash(parts...)
}

// about adds the path of a job in a body to the error about the job.
func about(path string, err error) error {
	p, known := explain(err)
	if !known {
		return err
	}
	of := *p
	if of.detail == "" {
		of.detail = p.kind.message
	}
	of.detail, of.fields = path+": "+of.detail, nil
	for _, f := range p.fields {
		of.fields = append(of.fields, fieldError{path + "." + f.Field, f.Reason})
	}
	return &of
}

// flowProblem returns the problem about a request for jobs of a flow.
func flowProblem(err error) error {
	var about *job.FlowError
	switch {
	case errors.Is(err, job.ErrFlowName), errors.Is(err, job.ErrFlowFull), errors.Is(err, job.ErrFlowCancelled):
		detail := job.ErrFlowFull.Error()
		if errors.As(err, &about) {
			detail = about.Job + ": " + job.ErrFlowName.Error()
		} else if errors.Is(err, job.ErrFlowCancelled) {
			detail = job.ErrFlowCancelled.Error()
		}
		return &problem{kind: wrongState, detail: detail}
	case errors.As(err, &about):
		return invalid("jobs."+about.Job, about.Reason)
	}
	return err
}

const flowInDoubt = "The flow may or may not have been accepted. Send it again with the same Idempotency-Key: it is " +
	"accepted once. Without a key, look for it in the list of flows."

// submitFlow serves POST /api/flows: the flow is accepted as a whole, or not at all.
func (a *api) submitFlow(c *gin.Context) error {
	var asked flowAsked
	done, err := a.readFlow(c, &flowShape, &asked)
	defer done()
	if err != nil {
		return err
	}
	key, err := keyFrom(c.Request.Header)
	if err != nil {
		return err
	}
	if err := a.spendBatch(c, len(asked.jobs)); err != nil {
		return err
	}
	jobs, contents, err := a.flowJobs(c, &asked)
	if err != nil {
		return err
	}
	caller := callerOf(c)
	f := job.Flow{Name: asked.name, Owner: caller.Owner(), TraceID: traceOf(c), Jobs: jobs,
		CreatedAt: a.Clock().Truncate(time.Millisecond)}
	if key != "" {
		if err := a.spendIdempotency(c, 1); err != nil {
			return err
		}
		f.Request = job.Idempotency{Key: ownKey(namespace(caller), "flow\x00"+key), Body: bodyOf(&f, contents)}
	}
	first, err := a.Flows.SubmitFlow(c.Request.Context(), &f, caller.Key.InFlight, contents)
	if err != nil {
		err = a.overQuota(err, &job.Submission{Tier: jobs[0].Tier, Owner: f.Owner, Quota: caller.Key.InFlight})
		return inDoubt(flowProblem(err), flowInDoubt)
	}
	if first != nil {
		if first.Request.Body != f.Request.Body {
			return job.ErrMismatch
		}
		if f, err = a.Flows.Flow(c.Request.Context(), first.ID); err != nil {
			return err
		}
		c.Writer.Header()["Idempotency-Replayed"] = replayed
	}
	c.Writer.Header().Set("Location", "/api/flows/"+string(f.ID))
	return write(c, http.StatusCreated, &flowAccepted{f.ID, idsOf(&f)})
}

// flowAccepted is the answer to an accepted flow, and to accepted jobs of one.
type flowAccepted struct {
	FlowID job.ID            `json:"flowId"`
	Jobs   map[string]job.ID `json:"jobs"`
}

func idsOf(f *job.Flow) map[string]job.ID {
	ids := make(map[string]job.ID, len(f.Jobs))
	for i := range f.Jobs {
		ids[f.Jobs[i].Name] = f.Jobs[i].ID
	}
	return ids
}

// bodyOf returns the hash of a flow's request.
func bodyOf(f *job.Flow, contents []string) string {
	said := map[string]string{}
	for i := range f.Jobs {
		said[f.Jobs[i].Name] = contents[i]
	}
	parts := [][]byte{[]byte(f.Name)}
	for _, name := range slices.Sorted(maps.Keys(said)) {
		parts = append(parts, []byte(name), []byte(said[name]))
	}
	return hexHash(parts...)
}

// addToFlow serves POST /api/flows/{id}/jobs: a job that runs adds jobs to its flow, and shows its lease.
func (a *api) addToFlow(c *gin.Context) error {
	id, err := flowID(c)
	if err != nil {
		return err
	}
	var asked flowAsked
	done, err := a.readFlow(c, &addShape, &asked)
	defer done()
	switch {
	case err != nil:
		return err
	case asked.lease == "":
		return invalid("lease", "is missing")
	}
	if err := a.spendBatch(c, len(asked.jobs)); err != nil {
		return err
	}
	jobs, contents, err := a.flowJobs(c, &asked)
	if err != nil {
		return err
	}
	f := job.Flow{ID: id, Jobs: jobs}
	err = a.Flows.AddToFlow(c.Request.Context(), callerOf(c).Owner(), asked.lease, &f, contents)
	if err != nil {
		return inDoubt(flowProblem(err), operateInDoubt)
	}
	return write(c, http.StatusOK, &flowAccepted{f.ID, idsOf(&f)})
}
