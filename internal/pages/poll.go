package pages

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tierq/tierq/client"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/web"
)

// getPoll serves /poll: the form that asks for a job, and the requested job. For another caller's job it answers
// the same as for a job that does not exist.
func (p *Pages) getPoll(w http.ResponseWriter, r *http.Request) {
	v := web.PollView{Frame: p.frame(r), Asked: strings.TrimSpace(r.URL.Query().Get("jobId")), Base: p.base(r)}
	status := http.StatusOK
	if v.Asked != "" {
		j, err := p.job(r, v.Asked)
		switch {
		case err == nil:
			v.Job = j
		case refusedWith(err, http.StatusNotFound):
			status = http.StatusNotFound
		case refusedWith(err, http.StatusServiceUnavailable):
			status, v.Problem = http.StatusServiceUnavailable, storeAway
		default:
			p.fail(w, r, err)
			return
		}
	}
	p.show(w, r, status, func(w io.Writer) error { return p.o.Set.Poll(w, v) })
}

// job reads a job, and for a living job also why it has not ended.
func (p *Pages) job(r *http.Request, asked string) (*web.Job, error) {
	id, err := job.ParseID(asked)
	if err != nil {
		return nil, &apiError{Status: http.StatusNotFound, Code: "JOB_NOT_FOUND", Detail: "There is no job with this id."}
	}
	path := "/api/jobs/" + string(id)
	var is client.Job
	if err := p.ask(r, http.MethodGet, path, nil, &is); err != nil {
		return nil, err
	}
	j := jobOf(&is)
	me := p.who(r)
	j.KeyLinks = me.Operator
	j.CanRetry = me.Submits && j.Status == string(client.Failed)
	j.CanDismiss = me.Admin && j.Status == string(client.Failed)
	p.logOf(r, path, j)
	if j.Ended() {
		return j, nil
	}
	j.CanKill = me.Admin && j.Status != string(client.Processing)
	j.CanHasten = me.Admin && j.Status == string(client.Scheduled)
	j.Follow, j.CanStop = path+"/events?logs=true", me.Submits && !j.CancelRequested
	p.why(r, path, j)
	return j, nil
}

// why adds the reasons why a job has not ended. If they are not available, or the job has moved on meanwhile,
// nothing is added: at the job's next event the page is loaded again.
func (p *Pages) why(r *http.Request, path string, j *web.Job) {
	var why client.Why
	if p.ask(r, http.MethodGet, path+"/why", nil, &why) != nil || string(why.Status) != j.Status {
		return
	}
	j.Why, j.Holder, j.Line = why.Reasons, why.Holder, lineWords(why.Line)
	if why.Position != nil {
		j.Position = *why.Position
	}
	if why.ETASeconds != nil {
		j.ETA = time.Duration(*why.ETASeconds) * time.Second
	}
}

// shownLog is how many lines of a log a job's page has.
const shownLog = 200

// logOf adds the last lines of the job's log. If they are not available, nothing is added.
func (p *Pages) logOf(r *http.Request, path string, j *web.Job) {
	var page client.LogPage
	if p.ask(r, http.MethodGet, path+"/logs", nil, &page) != nil {
		return
	}
	items := page.Items
	if j.LogSkipped = len(items) > shownLog; j.LogSkipped {
		items = items[len(items)-shownLog:]
	}
	for _, l := range items {
		j.Log = append(j.Log, web.LogLine{
			Attempt: l.Attempt, At: l.At, Level: l.Level, Text: l.Text, Attrs: present(l.Attrs), Lost: l.Lost,
		})
	}
}

func jobOf(is *client.Job) *web.Job {
	j := &web.Job{
		ID: is.JobID, Generation: is.Generation, Tier: string(is.Tier), Type: is.Type, Status: string(is.Status),
		Attempt:    is.Attempts,
		RetryCount: is.RetryCount, MaxRetries: is.MaxRetries, CancelRequested: is.CancelRequested, Owner: is.Owner,
		Key: is.Key, Schedule: is.Schedule, TraceID: is.TraceID, FlowID: is.FlowID,
		BatchID:     is.BatchID,
		CallbackURL: is.CallbackURL, ArrivedAt: is.CreatedAt, FirstTriedAt: is.FirstTriedAt, EndedAt: is.CompletedAt,
		RunAt: is.RunAt, ExpiresAt: is.ExpiresAt,
		Cause: is.FailureCause, LastError: is.LastError, Payload: present(is.Payload), PayloadKept: is.PayloadKept,
		Result: present(is.Result), Note: is.Note, Position: -1,
	}
	j.Attempts = make([]web.Attempt, len(is.History))
	for i, a := range is.History {
		j.Attempts[i] = web.Attempt{
			Number: a.Attempt, Worker: a.Worker, StartedAt: a.StartedAt, FinishedAt: a.FinishedAt, Outcome: a.Outcome,
			Cause: a.Cause, Error: a.Error,
			Generation: a.Generation, Reason: a.Reason, Until: a.Until,
		}
		j.Worker, j.StartedAt = a.Worker, a.StartedAt
	}
	for _, r := range is.Reasons {
		j.Reasons = append(j.Reasons, web.Reason{Action: r.Action, Generation: r.Generation, At: r.At, Text: r.Reason})
	}
	if is.Progress != nil {
		j.Progress = &web.Progress{At: is.Progress.At, Done: is.Progress.Done, Note: is.Progress.Note}
		if is.Progress.Total != nil {
			j.Progress.Total = *is.Progress.Total
		}
	}
	j.Artifact = fileOf(j)
	return j
}

// present returns nil for a JSON null.
func present(text json.RawMessage) []byte {
	if string(text) == "null" {
		return nil
	}
	return text
}

// fileOf returns the address of the file that a job's result names, but only if that is the job's own file.
func fileOf(j *web.Job) string {
	var made struct{ Artifact struct{ URL string } }
	own := "/jobs/" + j.ID + "/artifact"
	if json.Unmarshal(j.Result, &made) != nil || made.Artifact.URL != own {
		return ""
	}
	return own
}

// postCancel cancels a job and shows the job.
func (p *Pages) postCancel(w http.ResponseWriter, r *http.Request) {
	p.change(w, r, func(id string, why any) (string, error) {
		var c client.Cancellation
		err := p.ask(r, http.MethodPost, "/api/jobs/"+id+"/cancel", why, &c)
		if c.Requested {
			return say("cancel_asked", ""), err
		}
		return say("cancelled", ""), err
	})
}

// postRequeue requeues a job and shows the job.
func (p *Pages) postRequeue(w http.ResponseWriter, r *http.Request) {
	p.change(w, r, func(id string, why any) (string, error) {
		err := p.ask(r, http.MethodPost, "/jobs/"+id+"/retry", why, nil)
		if err == nil {
			p.tellRequeue(r, id, "requeued it")
		}
		return say("job_requeued", ""), err
	})
}

// change applies an action to the job that a form names, with the reason that the form may give, and goes back to
// the job's page, which shows the result.
func (p *Pages) change(w http.ResponseWriter, r *http.Request, do func(id string, why any) (done string, err error)) {
	f, err := p.form(r)
	if err != nil {
		p.fail(w, r, err)
		return
	}
	p.changeOf(w, r, f, do)
}

// changeOf is change for a form that was read.
func (p *Pages) changeOf(
	w http.ResponseWriter, r *http.Request, f url.Values, do func(id string, why any) (done string, err error),
) {
	query := url.Values{"jobId": {f.Get("jobId")}}
	id, err := job.ParseID(f.Get("jobId"))
	if err != nil {
		p.back(w, "/poll", query, "", "")
		return
	}
	var why any // the body, if the form gives a reason
	if reason := strings.TrimSpace(f.Get("reason")); reason != "" {
		why = map[string]string{"reason": reason}
	}
	done, err := do(string(id), why)
	switch {
	case err == nil:
		p.back(w, "/poll", query, done, "")
	case r.Context().Err() != nil:
	case refusedWith(err, http.StatusUnauthorized):
		p.toLogin(w, r, "/poll?"+query.Encode())
	default:
		p.back(w, "/poll", query, "", say("refused", p.refusalIn(r, err).code()))
	}
}
