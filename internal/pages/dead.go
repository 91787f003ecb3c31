package pages

import (
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/tierq/tierq/client"
	"github.com/tierq/tierq/web"
)

const (
	deadPath    = "/dashboard/dead"
	requeuePath = "/admin/dead/requeue"
	mostRequeue = 10000 // the limit of one bulk requeue, and of a count
	mostChosen  = 100   // the rows of a page: a form cannot select more
)

// getDead serves the list of dead letters.
func (p *Pages) getDead(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	v := web.DeadView{Frame: p.frame(r), Base: p.base(r), Query: asked(q), Total: -1}
	v.Query.ID, v.Query.Status, v.Query.Text = "", "", ""
	filter := deadQuery(&v.Query)
	list := deadQuery(&v.Query)
	list.Set("limit", strconv.Itoa(mostChosen))
	if cursor := q.Get("cursor"); cursor != "" {
		list.Set("cursor", cursor)
	}
	var page client.Page
	err := p.ask(r, http.MethodGet, "/admin/dead?"+list.Encode(), nil, &page)
	status := http.StatusOK
	switch {
	case err == nil:
		for i := range page.Items {
			v.Rows = append(v.Rows, rowOf(&page.Items[i]))
		}
		v.Total = p.countDead(r, &v, &page, q.Get("cursor"))
		v.Export = "/admin/dead/export"
		if len(filter) > 0 {
			v.Export += "?" + filter.Encode()
		}
		v.More = more(deadPath, filter, page.Next)
	case refusedWith(err, http.StatusBadRequest):
		status, v.Errors = http.StatusBadRequest, fieldErrors(err)
	default:
		p.fail(w, r, err)
		return
	}
	v.Tiers, v.Types = p.tiersAndTypes(r, &v.Query, v.Rows)
	p.show(w, r, status, func(w io.Writer) error { return p.o.Set.Dead(w, v) })
}

// deadQuery returns a filter of dead letters as the parameters of an address.
func deadQuery(q *web.Query) url.Values {
	values := filters(q)
	for name, value := range map[string]string{"from": q.From, "to": q.To} {
		if value != "" {
			values.Set(name, value)
		}
	}
	return values
}

// countDead returns how many dead letters pass the filter; -1 if the count is not available to this caller. The
// list is shown without it.
func (p *Pages) countDead(r *http.Request, v *web.DeadView, page *client.Page, cursor string) int64 {
	if cursor == "" && page.Next == "" {
		return int64(len(page.Items)) // the page holds all of them
	}
	if len(deadQuery(&v.Query)) == 0 {
		var all struct {
			Total int64 `json:"total"`
		}
		if p.ask(r, http.MethodGet, "/jobs/dead?size=1", nil, &all) == nil {
			return all.Total
		}
		return -1
	}
	if !v.Caller.Change {
		return -1
	}
	done, err := p.requeueAll(r, &v.Query, mostRequeue, true)
	if err != nil {
		return -1
	}
	return done.Matched
}
