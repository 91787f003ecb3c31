package pages

import (
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/tierq/tierq/client"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/web"
)

const flowsPath = "/flows"

// getFlows serves the list of the flows that the caller may see.
func (p *Pages) getFlows(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	v := web.FlowsView{Frame: p.frame(r), State: q.Get("state")}
	query := url.Values{"limit": {strconv.Itoa(perList)}}
	for name, value := range map[string]string{"state": v.State, "cursor": q.Get("cursor")} {
		if value != "" {
			query.Set(name, value)
		}
	}
	var page client.FlowsPage
	if err := p.ask(r, http.MethodGet, "/api/flows?"+query.Encode(), nil, &page); err != nil {
		p.fail(w, r, err)
		return
	}
	for i := range page.Items {
		v.Flows = append(v.Flows, flowRowOf(&page.Items[i]))
	}
	shown := url.Values{}
	if v.State != "" {
		shown.Set("state", v.State)
	}
	v.More = more(flowsPath, shown, page.Next)
	p.show(w, r, http.StatusOK, func(w io.Writer) error { return p.o.Set.Flows(w, v) })
}

func flowRowOf(f *client.Flow) web.FlowRow {
	n := &f.Counts
	failed := n.Failed + n.Cancelled + n.Expired
	return web.FlowRow{
		ID: f.FlowID, Name: f.Name, State: string(f.State), Done: n.Completed, Failed: failed,
		Jobs: n.Completed + failed + n.Waiting + n.Living, CreatedAt: f.CreatedAt, EndedAt: f.EndedAt,
	}
}

// addrIn returns the id in a path such as /flows/<id>, and the API's address of that flow or batch.
func addrIn(r *http.Request, list, what string) (id, path string, err error) {
	named, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, list+"/"), "/")
	asked, err := job.ParseID(named)
	if err != nil {
		detail := "There is no " + what + " with this id."
		return "", "", &apiError{Status: http.StatusNotFound, Code: "NOT_FOUND", Detail: detail}
	}
	return string(asked), "/api" + list + "/" + string(asked), nil
}

// getFlow serves the page of one flow, with a drawing of its jobs.
func (p *Pages) getFlow(w http.ResponseWriter, r *http.Request) {
	_, path, err := addrIn(r, flowsPath, "flow")
	var f client.Flow
	if err == nil {
		err = p.ask(r, http.MethodGet, path, nil, &f)
	}
	if err != nil {
		p.fail(w, r, err)
		return
	}
	v := web.FlowView{Frame: p.frame(r), FlowRow: flowRowOf(&f), Asked: f.CancelRequested, Jobs: flowJobsOf(&f)}
	v.Drawing = web.DrawFlow(v.Jobs)
	v.CanCancel = f.EndedAt.IsZero() && !f.CancelRequested && p.who(r).Submits
	p.show(w, r, http.StatusOK, func(w io.Writer) error { return p.o.Set.Flow(w, v) })
}

// flowJobsOf returns the jobs of a flow, each behind those that it waits for.
func flowJobsOf(f *client.Flow) (jobs []web.FlowJob) {
	nodes, byName := make([]*job.FlowNode, len(f.Jobs)), make(map[string]*client.FlowJobInfo, len(f.Jobs))
	for i := range f.Jobs {
		nodes[i] = &job.FlowNode{Name: f.Jobs[i].Name, After: f.Jobs[i].After}
		byName[f.Jobs[i].Name] = &f.Jobs[i]
	}
	graph, err := job.NewFlowGraph(nodes)
	if err != nil { // the API has flows without a fault only
		return nil
	}
	for _, name := range graph.Order() {
		j := byName[name]
		jobs = append(jobs, web.FlowJob{
			Name: name, ID: j.JobID, Status: string(j.Status), Tier: string(j.Tier), Type: j.Type, After: j.After,
			Parents: graph.Parents(name), OnFailure: string(j.OnFailure), Cause: j.FailureCause,
		})
	}
	return jobs
}

// postFlowCancel cancels a flow.
func (p *Pages) postFlowCancel(w http.ResponseWriter, r *http.Request) {
	id, path, err := addrIn(r, flowsPath, "flow")
	var form url.Values
	if err == nil {
		form, err = p.form(r)
	}
	if err == nil {
		body := struct {
			Reason string `json:"reason,omitempty"`
		}{form.Get("reason")}
		err = p.ask(r, http.MethodPost, path+"/cancel", &body, nil)
	}
	if err != nil {
		p.fail(w, r, err)
		return
	}
	p.back(w, flowsPath+"/"+id, nil, say("flow_cancelled", ""), "")
}
