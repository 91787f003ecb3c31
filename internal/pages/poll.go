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

// getPoll is /poll: the form that asks for a job, and the job that was asked for. Somebody else's is not there, in the
// words of one that nobody has.
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

// job reads a job, and of one that lives why it has not ended.
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
	j.CanRetry = me.Submits && j.Status == string(client.Failed)
	if j.Ended() {
		return j, nil
	}
	j.Follow, j.CanStop = path+"/events", me.Submits && !j.CancelRequested
	p.why(r, path, j)
	return j, nil
}

// why adds why a job has not ended. Where nobody says so, or it has moved on meanwhile, nothing is added: at its next
// event the page is read again.
func (p *Pages) why(r *http.Request, path string, j *web.Job) {
	var why client.Why
	if p.ask(r, http.MethodGet, path+"/why", nil, &why) != nil || string(why.Status) != j.Status {
		return
	}
	j.Why = why.Reasons
	if why.Position != nil {
		j.Position = *why.Position
	}
	if why.ETASeconds != nil {
		j.ETA = time.Duration(*why.ETASeconds) * time.Second
	}
}

func jobOf(is *client.Job) *web.Job {
	j := &web.Job{
		ID: is.JobID, Generation: is.Generation, Tier: string(is.Tier), Type: is.Type, Status: string(is.Status),
		Attempt:    is.Attempts,
		RetryCount: is.RetryCount, MaxRetries: is.MaxRetries, CancelRequested: is.CancelRequested, Owner: is.Owner,
		TraceID:     is.TraceID,
		CallbackURL: is.CallbackURL, ArrivedAt: is.CreatedAt, FirstTriedAt: is.FirstTriedAt, EndedAt: is.CompletedAt,
		RunAt: is.RunAt,
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
	j.Artifact = fileOf(j)
	return j
}

// present is nil for a JSON null.
func present(text json.RawMessage) []byte {
	if string(text) == "null" {
		return nil
	}
	return text
}

// fileOf is the address of the file that a job made, as its result names it: only ever that job's own.
func fileOf(j *web.Job) string {
	var made struct{ Artifact struct{ URL string } }
	own := "/jobs/" + j.ID + "/artifact"
	if json.Unmarshal(j.Result, &made) != nil || made.Artifact.URL != own {
		return ""
	}
	return own
}

// postCancel cancels a job and shows it.
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

// postRequeue gives a job a new life and shows it.
func (p *Pages) postRequeue(w http.ResponseWriter, r *http.Request) {
	p.change(w, r, func(id string, why any) (string, error) {
		err := p.ask(r, http.MethodPost, "/jobs/"+id+"/retry", why, nil)
		if err == nil {
			p.tellRequeue(r, id, "gave it a new life")
		}
		return say("job_requeued", ""), err
	})
}

// change does something to the job that a form names, for the reason that it may give, and goes back to the job's page
// to say what came of it.
func (p *Pages) change(w http.ResponseWriter, r *http.Request, do func(id string, why any) (done string, err error)) {
	f, err := p.form(r)
	if err != nil {
		p.fail(w, r, err)
		return
	}
	query := url.Values{"jobId": {f.Get("jobId")}}
	id, err := job.ParseID(f.Get("jobId"))
	if err != nil {
		p.back(w, "/poll", query, "", "")
		return
	}
	var why any // the body, where the form says why
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
