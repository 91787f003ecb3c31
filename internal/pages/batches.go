package pages

import (
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/tierq/tierq/client"
	"github.com/tierq/tierq/web"
)

const batchesPath = "/batches"

// getBatches serves the list of the batches that the caller may see.
func (p *Pages) getBatches(w http.ResponseWriter, r *http.Request) {
	query := url.Values{"limit": {strconv.Itoa(perList)}}
	if cursor := r.URL.Query().Get("cursor"); cursor != "" {
		query.Set("cursor", cursor)
	}
	var page client.BatchesPage
	if err := p.ask(r, http.MethodGet, "/api/batches?"+query.Encode(), nil, &page); err != nil {
		p.fail(w, r, err)
		return
	}
	v := web.BatchesView{Frame: p.frame(r), More: more(batchesPath, url.Values{}, page.Next)}
	for i := range page.Items {
		v.Batches = append(v.Batches, batchRowOf(&page.Items[i]))
	}
	p.show(w, r, http.StatusOK, func(w io.Writer) error { return p.o.Set.Batches(w, v) })
}

func batchRowOf(b *client.Batch) web.BatchRow {
	return web.BatchRow{
		ID: b.BatchID, Name: b.Name, State: string(b.State), Round: b.Round, Total: b.Total, Ended: b.Total - b.Living,
		Failed: b.Failed, CreatedAt: b.CreatedAt, EndedAt: b.EndedAt,
	}
}

// getBatch serves the page of one batch, with the members that failed.
func (p *Pages) getBatch(w http.ResponseWriter, r *http.Request) {
	_, path, err := addrIn(r, batchesPath, "batch")
	var b struct {
		client.Batch
		Then *struct {
			Type string        `json:"type"`
			On   client.ThenOn `json:"on"`
		} `json:"then"`
	}
	var failed client.MembersPage
	if err == nil {
		err = p.ask(r, http.MethodGet, path, nil, &b)
	}
	if err == nil && b.Failed > 0 {
		err = p.ask(r, http.MethodGet, path+"/members?status=FAILED&limit="+strconv.Itoa(perList), nil, &failed)
	}
	if err != nil {
		p.fail(w, r, err)
		return
	}
	v := web.BatchView{
		Frame: p.frame(r), BatchRow: batchRowOf(&b.Batch), Completed: b.Completed, Cancelled: b.Cancelled,
		Expired: b.Expired, Living: b.Living, Percent: int(100 * b.Progress), ThenJobID: b.ThenJobID,
		Asked: !b.CancelledAt.IsZero(), More: failed.Next != "",
	}
	if b.Then != nil {
		v.Then, v.On = b.Then.Type, string(b.Then.On)
	}
	for _, m := range failed.Items {
		v.Members = append(v.Members, web.BatchMember{ID: m.JobID, EndedAt: m.EndedAt})
	}
	submits := p.who(r).Submits
	v.CanSeal = submits && !b.Sealed
	v.CanCancel = submits && (b.Living > 0 || !b.Sealed)
	p.show(w, r, http.StatusOK, func(w io.Writer) error { return p.o.Set.Batch(w, v) })
}

// postBatchSeal seals a batch.
func (p *Pages) postBatchSeal(w http.ResponseWriter, r *http.Request) {
	p.postBatch(w, r, "/seal", "batch_sealed")
}

// postBatchCancel cancels the members of a batch that live, some thousand of them.
func (p *Pages) postBatchCancel(w http.ResponseWriter, r *http.Request) {
	p.postBatch(w, r, "/cancel", "batch_cancelled")
}

func (p *Pages) postBatch(w http.ResponseWriter, r *http.Request, what, said string) {
	id, path, err := addrIn(r, batchesPath, "batch")
	if err == nil {
		_, err = p.form(r)
	}
	var done struct {
		Next string `json:"next"`
	}
	if err == nil {
		err = p.ask(r, http.MethodPost, path+what, nil, &done)
	}
	if err != nil {
		p.fail(w, r, err)
		return
	}
	if done.Next != "" {
		said = "batch_cancels"
	}
	p.back(w, batchesPath+"/"+id, nil, say(said, ""), "")
}
