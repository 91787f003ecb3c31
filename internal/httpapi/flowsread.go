package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tierq/tierq/internal/job"
)

// flowCounts counts the jobs of a flow by how they stand. Living jobs are released and have not ended.
type flowCounts struct {
	Waiting   int `json:"waiting"`
	Living    int `json:"living"`
	Completed int `json:"completed"`
	Failed    int `json:"failed"`
	Cancelled int `json:"cancelled"`
	Expired   int `json:"expired"`
}

// flowRow is a flow in a list.
type flowRow struct {
	FlowID    job.ID        `json:"flowId"`
	Name      string        `json:"name"`
	State     job.FlowState `json:"state"`
	Cancelled bool          `json:"cancelRequested"`
	CreatedAt string        `json:"createdAt"`
	EndedAt   *string       `json:"endedAt"`
	TraceID   *string       `json:"traceId"`
	Counts    flowCounts    `json:"counts"`
}

func flowRowOf(f *job.Flow) flowRow {
	return flowRow{
		FlowID: f.ID, Name: f.Name, State: f.State, Cancelled: f.Cancelled, CreatedAt: stamp(f.CreatedAt),
		EndedAt: when(f.EndedAt), TraceID: orNull(f.TraceID),
		Counts: flowCounts{
			Waiting: f.Counts[job.Waiting], Living: f.Counts[job.Pending], Completed: f.Counts[job.Completed],
			Failed: f.Counts[job.Failed], Cancelled: f.Counts[job.Cancelled], Expired: f.Counts[job.Expired],
		},
	}
}

// flowJobShown is a job of a flow in the answer about the flow.
type flowJobShown struct {
	Name         string        `json:"name"`
	JobID        job.ID        `json:"jobId"`
	Status       job.Status    `json:"status"`
	Tier         job.Tier      `json:"tier"`
	Type         string        `json:"type"`
	Queue        string        `json:"queue"`
	Generation   int           `json:"generation"`
	After        []string      `json:"after"`
	OnFailure    job.OnFailure `json:"onFailure"`
	FailureCause *job.Cause    `json:"failureCause"`
}

// flowListQuery is a filter of flows and the page of the list.
type flowListQuery struct {
	job.FlowFilter
	page
}

var flowListParams = params[flowListQuery]{
	"state": func(q *flowListQuery, value string) error {
		if q.State = job.FlowState(value); !q.State.Known() {
			return reason("is none of RUNNING, STUCK, COMPLETED, FAILED, CANCELLED")
		}
		return nil
	},
	"jobId": func(q *flowListQuery, value string) (err error) {
		if q.JobID, err = job.ParseID(value); err != nil {
			return reason("is not a job id")
		}
		return nil
	},
	"limit":  func(q *flowListQuery, value string) error { return q.page.setLimit(value) },
	"cursor": func(q *flowListQuery, value string) error { return q.page.setCursor(value) },
}

// flows serves GET /api/flows: the caller's own flows, or with an operator's key all of them, the latest first.
func (a *api) flows(c *gin.Context) error {
	q := flowListQuery{page: page{limit: pageLimit}}
	if err := flowListParams.read(c.Request.URL.RawQuery, &q); err != nil {
		return err
	}
	if err := a.spendList(c); err != nil {
		return err
	}
	if caller := callerOf(c); !caller.Operator() {
		owner := caller.Owner()
		q.Owner = &owner
	}
	flows, next, err := a.Flows.Flows(c.Request.Context(), q.FlowFilter, q.cursor, q.limit)
	if err != nil {
		return listError(err)
	}
	body := listBody[flowRow]{Items: make([]flowRow, len(flows)), Next: orNull(next)}
	for i := range flows {
		body.Items[i] = flowRowOf(&flows[i])
	}
	return write(c, http.StatusOK, &body)
}

// flowID returns the flow's id in the path.
func flowID(c *gin.Context) (job.ID, error) {
	id, err := job.ParseID(c.Param("id"))
	if err != nil {
		return "", invalid("id", "is not a flow's id")
	}
	return id, nil
}

// ownFlow reads the flow of the path, if the caller sees it.
func (a *api) ownFlow(c *gin.Context) (job.Flow, error) {
	id, err := flowID(c)
	if err != nil {
		return job.Flow{}, err
	}
	f, err := a.Flows.Flow(c.Request.Context(), id)
	if err == nil && !callerOf(c).Sees(f.Owner) {
		return job.Flow{}, job.ErrFlowNotFound
	}
	return f, err
}

// The bounds of the reads that tell how the living jobs of a flow stand.
const (
	flowLooks   = 200
	flowLookFor = time.Second
)

// getFlow serves GET /api/flows/{id}.
func (a *api) getFlow(c *gin.Context) error {
	if err := noQuery(c); err != nil {
		return err
	}
	f, err := a.ownFlow(c)
	if err != nil {
		return err
	}
	body := struct {
		flowRow `json:",inline"`
		Jobs    []flowJobShown `json:"jobs"`
	}{flowRowOf(&f), make([]flowJobShown, len(f.Jobs))}
	ctx, cancel := context.WithTimeout(c.Request.Context(), flowLookFor)
	defer cancel()
	looks := 0
	for i := range f.Jobs {
		j := &f.Jobs[i]
		shown := flowJobShown{
			Name: j.Name, JobID: j.ID, Status: j.Status, Tier: j.Tier, Type: j.Type, Queue: j.QueueName(),
			Generation: j.Generation, After: append([]string{}, j.After...), OnFailure: j.OnFailure,
			FailureCause: orNull(j.Cause),
		}
		if j.Status == job.Pending && looks < flowLooks && ctx.Err() == nil {
			looks++
			if now, err := a.Jobs.Find(ctx, j.ID); err == nil {
				shown.Status, shown.Generation = now.Status.Shown(), now.Generation
			}
		}
		body.Jobs[i] = shown
	}
	return write(c, http.StatusOK, &body)
}

// cancelFlow serves POST /api/flows/{id}/cancel.
func (a *api) cancelFlow(c *gin.Context) error {
	if err := noQuery(c); err != nil {
		return err
	}
	var asked jobChange
	body, err := a.readBody(c)
	if err == nil && body != nil {
		err = jobChangeBody.read(body, &asked)
	}
	if err != nil {
		return err
	}
	id, err := flowID(c)
	if err == nil && !callerOf(c).Operator() {
		_, err = a.ownFlow(c)
	}
	if err != nil {
		return err
	}
	err = a.Flows.CancelFlow(c.Request.Context(), id, asked.reason)
	a.byOperator(c, "flow.cancel", id, because(asked.reason), err)
	if err != nil {
		return inDoubt(err, operateInDoubt)
	}
	f, err := a.Flows.Flow(c.Request.Context(), id)
	if err != nil {
		return inDoubt(err, operateInDoubt)
	}
	row := flowRowOf(&f)
	return write(c, http.StatusOK, &row)
}

// inputsAsked is the body of a request for inputs.
type inputsAsked struct{ lease, name string }

var inputsShape = shape[inputsAsked]{members: map[string]member[inputsAsked]{
	"lease": func(a *inputsAsked, v jsontext.Value) error {
		if a.lease = text(v); a.lease == "" {
			return reason("must be a lease")
		}
		return nil
	},
	"name": func(a *inputsAsked, v jsontext.Value) error {
		if a.name = text(v); !job.IsFlowJobName(a.name) {
			return reason("a job's name " + job.FlowJobNameRule)
		}
		return nil
	},
}}

// inputBody has what a job left behind for a later job of its flow. The worker of that job reads it, so nothing is
// redacted.
type inputBody struct {
	Name         string         `json:"name"`
	JobID        job.ID         `json:"jobId"`
	Status       job.Status     `json:"status"`
	Result       jsontext.Value `json:"result"`
	FailureCause *job.Cause     `json:"failureCause"`
	LastError    *string        `json:"lastError"`
	TooLarge     bool           `json:"tooLarge"` // result is null for its size: ask for this name alone
}

// workerInputs serves POST /api/worker/inputs.
func (a *api) workerInputs(c *gin.Context) error {
	var asked inputsAsked
	done, err := a.readWorker(c, func(body []byte) error { return inputsShape.readObject(body, &asked) })
	defer done()
	switch {
	case err != nil:
		return err
	case asked.lease == "":
		return invalid("lease", "is missing")
	}
	inputs, err := a.Flows.FlowInputs(c.Request.Context(), callerOf(c).Owner(), asked.lease, asked.name)
	if errors.Is(err, job.ErrNotFound) {
		detail := "the job is of no flow"
		if asked.name != "" {
			detail = "the job waited for no job " + strconv.Quote(asked.name) + " of a flow"
		}
		return &problem{kind: notFound, detail: detail}
	}
	if err != nil {
		return inDoubtReport(err)
	}
	body := struct {
		Inputs []inputBody `json:"inputs"`
	}{make([]inputBody, len(inputs))}
	for i, in := range inputs {
		body.Inputs[i] = inputBody{in.Name, in.ID, in.Status, in.Result, orNull(in.Cause), orNull(in.LastError), in.TooLarge}
	}
	return write(c, http.StatusOK, &body)
}

// asidePatience bounds how long the answer for one job waits for SQL to say to which flow, schedule and batch the job
// belongs.
const asidePatience = time.Second

// flowOf returns the flow of a job; nil if the job is in no flow, or SQL does not say. A living job and a dead letter
// name it; for other ended jobs flowOf searches the flows.
func (a *api) flowOf(ctx context.Context, j *job.Job) *job.ID {
	if j.Flow == "" && j.Status.Ended() && a.Flows != nil {
		flows, _, err := a.Flows.Flows(ctx, job.FlowFilter{JobID: j.ID}, "", 1)
		if err == nil && len(flows) == 1 {
			return &flows[0].ID
		}
	}
	if j.Flow == "" {
		return nil
	}
	return &j.Flow
}
