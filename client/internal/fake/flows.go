package fake

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

// flow is a set of jobs of which some wait for the ends of others.
type flow struct {
	id, name        string
	trace           string
	jobs            []*Job // by name
	cancelRequested bool
	created         time.Time
}

var flowJobName = regexp.MustCompile(`^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*$`)

func (s *Server) submitFlow(w http.ResponseWriter, r *http.Request) {
	body := read(r)
	if id, found := s.known(w, "flow", r, body); found {
		if id != "" {
			JSON(w, http.StatusCreated, s.flowOf(id).accepted())
		}
		return
	}
	var of struct {
		Name string                     `json:"name"`
		Jobs map[string]json.RawMessage `json:"jobs"`
	}
	if json.Unmarshal(body, &of) != nil || len(of.Jobs) == 0 || len(of.Jobs) > 1000 {
		Refuse(w, http.StatusBadRequest, "INVALID_REQUEST")
		return
	}
	f := &flow{
		id: fmt.Sprintf("019de340-01fe-7a58-be6b-%012x", len(s.flows)+1), name: of.Name, created: time.Now(),
		trace: r.Header.Get("X-Trace-Id"),
	}
	for _, name := range slices.Sorted(maps.Keys(of.Jobs)) {
		j, asked, code := s.newJob("", f.trace, of.Jobs[name])
		if code == "" && (!flowJobName.MatchString(name) || asked.Unique != nil || asked.Batch != "" ||
			asked.ExpiresIn > 0 || !asked.ExpiresAt.IsZero() ||
			!slices.Contains([]string{"", "cancel", "run", "wait"}, asked.OnFailure)) {
			code = "INVALID_REQUEST"
		}
		if code != "" {
			refuseJob(w, code, name)
			return
		}
		j.Status, j.FlowID, j.Name, j.After = "WAITING", f.id, name, asked.After
		j.OnFailure = cmp.Or(asked.OnFailure, "cancel")
		f.jobs = append(f.jobs, j)
	}
	if name := f.wrong(); name != "" {
		refuseJob(w, "INVALID_REQUEST", name)
		return
	}
	for _, j := range f.jobs {
		j.ID = s.newID()
		s.jobs[j.ID] = j
		s.order = append(s.order, j.ID)
	}
	s.flows = append(s.flows, f)
	s.remember("flow", r, f.id, body)
	s.settle(f)
	JSON(w, http.StatusCreated, f.accepted())
}

// refuseJob refuses a flow, or a batch with its first members, because of one job.
func refuseJob(w http.ResponseWriter, code, name string) {
	refuseWith(w, statuses[code], code, map[string]any{
		"errors": []map[string]any{{"field": "jobs." + name, "reason": "is refused"}},
	})
}

func (s *Server) flowOf(id string) *flow {
	for _, f := range s.flows {
		if f.id == id {
			return f
		}
	}
	return nil
}

// job returns a job of the flow by its name; nil if there is none.
func (f *flow) job(name string) *Job {
	for _, j := range f.jobs {
		if j.Name == name {
			return j
		}
	}
	return nil
}

// parents returns the jobs that a job waits for. missing is true if one of them is not in the flow.
func (f *flow) parents(j *Job) (all []*Job, missing bool) {
	for _, after := range j.After {
		name, below := strings.CutSuffix(after, "/*")
		one := f.job(name)
		if one == nil {
			return nil, true
		}
		all = append(all, one)
		for _, other := range f.jobs {
			if below && strings.HasPrefix(other.Name, name+"/") {
				all = append(all, other)
			}
		}
	}
	return all, false
}

// wrong returns the name of a job that waits for a job that is missing, or for itself in the end; "" if there is none.
func (f *flow) wrong() string {
	done := map[*Job]bool{}
	for range f.jobs { // each pass finds the jobs that wait only for jobs of the passes before
		for _, j := range f.jobs {
			parents, missing := f.parents(j)
			if missing {
				return j.Name
			}
			done[j] = !slices.ContainsFunc(parents, func(p *Job) bool { return !done[p] })
		}
	}
	for _, j := range f.jobs {
		if !done[j] {
			return j.Name
		}
	}
	return ""
}

// settle releases or cancels the jobs that wait for nothing any more. A job that it cancels has ended, which settles
// the flow again.
func (s *Server) settle(f *flow) {
	if f.cancelRequested { // all that waited is cancelled
		return
	}
	for _, j := range f.jobs {
		if j.Status != "WAITING" {
			continue
		}
		switch f.verdict(j) {
		case "PENDING":
			j.Status = "PENDING"
			j.due()
			s.moveTo(j, j.Status)
			s.accepted(*j)
		case "CANCELLED":
			j.Cause = "DEPENDENCY_FAILED"
			s.moveTo(j, "CANCELLED")
		}
	}
}

// verdict returns the next status of a job that waits: PENDING, CANCELLED, or still WAITING.
func (f *flow) verdict(j *Job) string {
	parents, _ := f.parents(j)
	open := slices.ContainsFunc(parents, func(p *Job) bool { return !p.Ended() })
	bad := slices.ContainsFunc(parents, func(p *Job) bool { return p.Ended() && p.Status != "COMPLETED" })
	switch {
	case bad && j.OnFailure == "cancel":
		return "CANCELLED"
	case open, bad && j.OnFailure == "wait":
		return "WAITING"
	}
	return "PENDING"
}

// state returns the state of a flow.
func (f *flow) state() string {
	n := tally(f.jobs)
	switch {
	case living(f.jobs) > n["WAITING"]:
		return "RUNNING"
	case n["WAITING"] > 0:
		return "STUCK"
	case n["FAILED"]+n["EXPIRED"] > 0:
		return "FAILED"
	case n["CANCELLED"] > 0:
		return "CANCELLED"
	}
	return "COMPLETED"
}

func (s *Server) getFlow(w http.ResponseWriter, r *http.Request) {
	f := s.flowOf(r.PathValue("id"))
	if f == nil {
		Refuse(w, http.StatusNotFound, "NOT_FOUND")
		return
	}
	JSON(w, http.StatusOK, f.whole())
}

func (s *Server) listFlows(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	list(w, r, reversed(s.flows, func(f *flow) map[string]any {
		of := s.jobs[q.Get("jobId")]
		if q.Has("state") && q.Get("state") != f.state() || q.Has("jobId") && (of == nil || of.FlowID != f.id) {
			return nil
		}
		return f.data()
	}))
}

func (s *Server) cancelFlow(w http.ResponseWriter, r *http.Request) {
	f := s.flowOf(r.PathValue("id"))
	if f == nil {
		Refuse(w, http.StatusNotFound, "NOT_FOUND")
		return
	}
	f.cancelRequested = true
	for _, j := range f.jobs {
		s.stop(j)
	}
	JSON(w, http.StatusOK, f.data())
}

// accepted returns the answer to the submit of a flow.
func (f *flow) accepted() map[string]any {
	ids := map[string]string{}
	for _, j := range f.jobs {
		ids[j.Name] = j.ID
	}
	return map[string]any{"flowId": f.id, "jobs": ids}
}

// data returns the flow as a list shows it.
func (f *flow) data() map[string]any {
	n, alive := tally(f.jobs), living(f.jobs)
	d := map[string]any{
		"flowId": f.id, "name": f.name, "state": f.state(), "cancelRequested": f.cancelRequested,
		"createdAt": orNull(f.created), "endedAt": nil, "traceId": nil,
		"counts": map[string]int{
			"waiting": n["WAITING"], "living": alive - n["WAITING"], "completed": n["COMPLETED"], "failed": n["FAILED"],
			"cancelled": n["CANCELLED"], "expired": n["EXPIRED"],
		},
	}
	if alive == 0 {
		var last time.Time
		for _, j := range f.jobs {
			if j.EndedAt.After(last) {
				last = j.EndedAt
			}
		}
		d["endedAt"] = orNull(last)
	}
	if f.trace != "" {
		d["traceId"] = f.trace
	}
	return d
}

// whole returns the flow with its jobs.
func (f *flow) whole() map[string]any {
	d, jobs := f.data(), []map[string]any{}
	for _, j := range f.jobs {
		shown := map[string]any{
			"name": j.Name, "jobId": j.ID, "status": j.Status, "tier": j.Tier, "type": j.Type,
			"queue": cmp.Or(j.Queue, "main"), "generation": 1, "after": append([]string{}, j.After...),
			"onFailure": j.OnFailure, "failureCause": nil,
		}
		if j.Cause == "DEPENDENCY_FAILED" {
			shown["failureCause"] = j.Cause
		}
		jobs = append(jobs, shown)
	}
	d["jobs"] = jobs
	return d
}
