package pages

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/tierq/tierq/web"
)

const dashboardPath = "/dashboard"

// dashboards returns the pages for operators.
func (p *Pages) dashboards() []Page {
	return []Page{
		{http.MethodGet, dashboardPath, http.HandlerFunc(p.getDashboard)},
		{http.MethodPost, workersPath, http.HandlerFunc(p.postWorkers)},
		{http.MethodGet, "/dashboard/jobs", http.HandlerFunc(p.getJobs)},
		{http.MethodGet, batchesPath, http.HandlerFunc(p.getBatches)},
		{http.MethodGet, batchesPath + "/:id", http.HandlerFunc(p.getBatch)},
		{http.MethodPost, batchesPath + "/:id/seal", http.HandlerFunc(p.postBatchSeal)},
		{http.MethodPost, batchesPath + "/:id/cancel", http.HandlerFunc(p.postBatchCancel)},
		{http.MethodGet, flowsPath, http.HandlerFunc(p.getFlows)},
		{http.MethodGet, flowsPath + "/:id", http.HandlerFunc(p.getFlow)},
		{http.MethodPost, flowsPath + "/:id/cancel", http.HandlerFunc(p.postFlowCancel)},
		{http.MethodGet, "/dashboard/dead", http.HandlerFunc(p.getDead)},
		{http.MethodPost, "/dashboard/dead/requeue", http.HandlerFunc(p.postDeadRequeue)},
		{http.MethodPost, "/dashboard/dead/dismiss", http.HandlerFunc(p.postDeadDismiss)},
		{http.MethodGet, "/dashboard/tiers", http.HandlerFunc(p.getTiers)},
		{http.MethodGet, "/dashboard/tiers/:tier", http.HandlerFunc(p.getTier)},
		{http.MethodGet, linesPath, http.HandlerFunc(p.getLines)},
		{http.MethodGet, lineAddr, http.HandlerFunc(p.getLine)},
		{http.MethodPost, lineAddr, http.HandlerFunc(p.postLine)},
		{http.MethodGet, schedulesPath, http.HandlerFunc(p.getSchedules)},
		{http.MethodGet, scheduleAddr, http.HandlerFunc(p.getSchedule)},
		{http.MethodPost, scheduleAddr, http.HandlerFunc(p.postSchedule)},
		{http.MethodGet, scheduleNewPath, http.HandlerFunc(p.getNewSchedule)},
		{http.MethodGet, scheduleEditPath, http.HandlerFunc(p.getScheduleForm)},
		{http.MethodPost, scheduleEditPath, http.HandlerFunc(p.postScheduleForm)},
		{http.MethodPost, "/dashboard/tiers/:tier", http.HandlerFunc(p.postTier)},
	}
}

// shownFeed is how many items of the feed a page is opened with; its script keeps as many.
const shownFeed = 100

// getDashboard serves the dashboard, also while Redis is down: the page says so, and recovers by itself.
func (p *Pages) getDashboard(w http.ResponseWriter, r *http.Request) {
	figures, err := p.stats(r)
	v := web.DashboardView{Frame: p.frame(r), Base: p.base(r)}
	switch {
	case err == nil:
		v.Snapshot = p.snapshot(r, figures)
		v.Gate = &v.Snapshot.Gate
	case refusedWith(err, http.StatusForbidden): // the page says so
	case refusedWith(err, http.StatusServiceUnavailable, http.StatusGatewayTimeout):
		v.Problem = storeAway
	default:
		p.fail(w, r, err)
		return
	}
	if v.Live != "" {
		items, after := p.o.Hub.Recent(shownFeed)
		v.Live += "?after=" + url.QueryEscape(after) // no item is lost between this page and its stream
		if v.Snapshot != nil {
			v.Snapshot.Recoveries = shownItems(items)
		}
	}
	p.show(w, r, http.StatusOK, func(w io.Writer) error { return p.o.Set.Dashboard(w, v) })
}

// snapshot returns what the stream shows. If the stream cannot make a snapshot, it returns what the figures of the
// API contain.
func (p *Pages) snapshot(r *http.Request, figures *web.Snapshot) *web.Snapshot {
	if p.o.Hub != nil {
		ctx, cancel := context.WithTimeout(r.Context(), patience)
		defer cancel()
		made, err := p.o.Hub.Snapshot(ctx)
		if whole, ok := made.(*web.Snapshot); ok && err == nil {
			return whole
		}
		p.o.Log.WarnContext(r.Context(), "the dashboard is drawn without its leases", "err", err)
	}
	plans := p.plans(r)
	for i := range figures.Tiers {
		l := &figures.Tiers[i]
		if at := slices.IndexFunc(plans, func(plan web.Plan) bool { return plan.Tier == l.Tier }); at >= 0 {
			l.Plan = &plans[at]
		}
	}
	_, figures.Dead, _ = p.health(r)
	figures.Hint = hint(figures, false)
	return figures
}

// shownItems converts the feed's items for a page.
func shownItems(items []Item) []web.FeedItem {
	var list []web.FeedItem
	for _, i := range items {
		var f web.FeedItem
		if i.Kind != feedEvent || json.Unmarshal(i.Data, &f) != nil {
			continue
		}
		f.ID = i.ID
		list = append(list, f)
	}
	return list
}

// tellRequeue adds an operator's requeue to the feed.
func (p *Pages) tellRequeue(r *http.Request, id, what string) {
	if p.o.Hub == nil {
		return
	}
	who := p.who(r).Name
	if who == "" {
		who = "a visitor"
	}
	p.o.Hub.Tell(feedEvent, web.FeedItem{At: p.o.Now().Truncate(time.Millisecond), Kind: "requeue", JobID: id,
		Text: who + " " + what})
}
