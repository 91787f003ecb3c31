package pages

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/tierq/tierq/client"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/web"
)

const (
	perList  = 50  // rows of a page
	perAsk   = 100 // jobs of one page of the API, if errors are searched
	mostAsks = 5   // pages of the API for one page here
)

// getJobs serves the list of jobs that the caller may see, living jobs first. The API cannot search in errors, so
// the search is done here, in a bounded number of jobs at a time.
func (p *Pages) getJobs(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	v := web.JobsView{Frame: p.frame(r), Base: p.base(r), Query: asked(q)}
	v.Asked = v.Query != web.Query{}
	rows, next, looked, err := p.findJobs(r, &v.Query, q.Get("cursor"))
	status := http.StatusOK
	switch {
	case err == nil:
		v.Rows = rows
		v.More = more("/dashboard/jobs", jobsQuery(&v.Query), next)
	case refusedWith(err, http.StatusBadRequest):
		status, v.Errors = http.StatusBadRequest, fieldErrors(err)
	default:
		p.fail(w, r, err)
		return
	}
	if v.Query.Text != "" && err == nil {
		v.Notice = searched(looked, len(rows), next != "")
	}
	v.Tiers, v.Types = p.tiersAndTypes(r, &v.Query, v.Rows)
	p.show(w, r, status, func(w io.Writer) error { return p.o.Set.Jobs(w, v) })
}

// asked reads the search that a list's form sent.
func asked(q url.Values) web.Query {
	get := func(name string) string { return strings.TrimSpace(q.Get(name)) }
	return web.Query{
		ID: get(
			"id",
		), Status: get("status"), Tier: get("tier"), Type: get("type"), Cause: get("cause"), Trace: get("trace"),
		Text: get("text"),
		From: get("from"), To: get("to"),
	}
}

// filters returns the parameters that both of the API's lists accept.
func filters(q *web.Query) url.Values {
	values := url.Values{}
	for name, value := range map[string]string{"tier": q.Tier, "type": q.Type, "cause": q.Cause} {
		if value != "" {
			values.Set(name, value)
		}
	}
	return values
}

// jobsQuery returns a search as the parameters of a page's address.
func jobsQuery(q *web.Query) url.Values {
	values := filters(q)
	for name, value := range map[string]string{"id": q.ID, "status": q.Status, "trace": q.Trace, "text": q.Text} {
		if value != "" {
			values.Set(name, value)
		}
	}
	return values
}

// more returns the address of the next page; "" at the end.
func more(path string, query url.Values, cursor string) string {
	if cursor == "" {
		return ""
	}
	query.Set("cursor", cursor)
	return path + "?" + query.Encode()
}

// findJobs returns a page of the jobs that pass a search. looked is how many jobs were read for it.
func (p *Pages) findJobs(r *http.Request, q *web.Query, cursor string) (rows []web.JobRow, next string, looked int,
	err error) {
	if q.ID != "" {
		rows, err = p.findJob(r, q)
		return rows, "", len(rows), err
	}
	query := filters(q)
	if q.Status != "" {
		query.Set("status", q.Status)
	}
	if q.Trace != "" {
		query.Set("traceId", q.Trace)
	}
	limit := perList
	if q.Text != "" {
		limit = perAsk
	}
	query.Set("limit", strconv.Itoa(limit))
	for range mostAsks { // a page of the API may be short, even empty, and still have a next one
		if cursor != "" {
			query.Set("cursor", cursor)
		}
		var page client.Page
		if err := p.ask(r, http.MethodGet, "/api/jobs?"+query.Encode(), nil, &page); err != nil {
			if looked > 0 {
				break // the next page shows the error
			}
			return nil, "", 0, err
		}
		for i := range page.Items {
			if says(&page.Items[i], q.Text) {
				rows = append(rows, rowOf(&page.Items[i]))
			}
		}
		looked += len(page.Items)
		if cursor = page.Next; cursor == "" || len(rows) >= perList || q.Text == "" && len(rows) > 0 {
			break
		}
	}
	return rows, cursor, looked, nil
}

// findJob returns the job with an id, if it passes the rest of the search.
func (p *Pages) findJob(r *http.Request, q *web.Query) ([]web.JobRow, error) {
	id, err := job.ParseID(q.ID)
	if err != nil {
		return nil, badRequest("id", "is not a job id: those have 36 characters, such as "+exampleID)
	}
	var j client.Job
	switch err := p.ask(r, http.MethodGet, "/api/jobs/"+string(id), nil, &j); {
	case refusedWith(err, http.StatusNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	status := string(j.Status)
	if q.Status == string(client.Retrying) && j.Status == client.Scheduled && j.RetryCount > 0 {
		status = q.Status
	}
	for _, one := range [][2]string{{q.Status, status}, {q.Tier, string(j.Tier)}, {q.Type, j.Type},
		{q.Cause, j.FailureCause}, {q.Trace, j.TraceID}} {
		if one[0] != "" && one[0] != one[1] {
			return nil, nil
		}
	}
	if !says(&j, q.Text) {
		return nil, nil
	}
	return []web.JobRow{rowOf(&j)}, nil
}

const exampleID = "019de340-01fe-7a58-be69-567cd7d61000"

// badRequest makes a refusal in the format of the API's.
func badRequest(field, reason string) *apiError {
	return &apiError{
		Status: http.StatusBadRequest, Code: "INVALID_REQUEST", Detail: field + ": " + reason,
		Fields: []web.FieldError{{Field: field, Reason: reason}},
	}
}

// fieldErrors returns what is wrong, by field. A refusal without fields is about the whole request.
func fieldErrors(err error) []web.FieldError {
	e, ok := errors.AsType[*apiError](err)
	switch {
	case !ok:
		return nil
	case len(e.Fields) > 0:
		return e.Fields
	}
	return []web.FieldError{{Field: "request", Reason: e.Detail}}
}

// says says whether a job's last error contains a text, ignoring case.
func says(j *client.Job, text string) bool {
	return text == "" || strings.Contains(strings.ToLower(j.LastError), strings.ToLower(text))
}

func searched(looked, found int, further bool) string {
	text := "The errors of " + strconv.Itoa(looked) + " jobs were looked through, " + strconv.Itoa(found) + " match."
	if further {
		text += " There are older ones."
	}
	return text
}

func rowOf(j *client.Job) web.JobRow {
	return web.JobRow{
		ID: j.JobID, Tier: string(j.Tier), Type: j.Type, Status: string(j.Status), Attempt: j.Attempts,
		ArrivedAt: j.CreatedAt,
		EndedAt:   j.CompletedAt, RunAt: j.RunAt, Cause: j.FailureCause, Error: j.LastError, Note: j.Note,
		Requeued: !j.RequeueRequestedAt.IsZero(),
	}
}

// tiersAndTypes returns what a list's form offers: the tiers with a plan, the built-in types, and the other tiers
// and types on the page.
func (p *Pages) tiersAndTypes(r *http.Request, q *web.Query, rows []web.JobRow) (tiers, types []string) {
	for _, plan := range p.plans(r) { // a caller who may not see the plans is offered the tiers on the page
		tiers = append(tiers, plan.Tier)
	}
	for _, t := range p.o.Set.Types() {
		types = append(types, t.Name)
	}
	add := func(list []string, name string) []string {
		if name == "" || slices.Contains(list, name) {
			return list
		}
		return append(list, name)
	}
	for i := range rows {
		tiers, types = add(tiers, rows[i].Tier), add(types, rows[i].Type)
	}
	return add(tiers, q.Tier), add(types, q.Type)
}
