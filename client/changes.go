package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Change is one action of an operator.
type Change struct {
	ID      int64           `json:"id"`
	At      time.Time       `json:"at"`
	Actor   string          `json:"actor,omitempty"`   // the id of the API key; "" = an open server, or the command line
	Name    string          `json:"name,omitempty"`    // of the key, at that time
	Address string          `json:"address,omitempty"` // the caller's address; "" = the command line
	Action  string          `json:"action"`            // such as tier.put
	Target  string          `json:"target"`            // the id of a key or job, a tier, a filter
	Before  json.RawMessage `json:"before,omitempty"`
	After   json.RawMessage `json:"after,omitempty"` // of a refused change: the intended state
	Outcome string          `json:"outcome"`         // done, refused or unknown
	TraceID string          `json:"traceId,omitempty"`
}

// ChangesPage is a part of the log of changes. Next is the cursor of the next part, "" at the end.
type ChangesPage struct {
	Items []Change `json:"items"`
	Next  string   `json:"next"`
}

// Changes reads the log of the operators' changes, newest first. cursor is "" at first, then the last page's Next.
// limit is at most 100, 0 = the server's default.
func (c *Client) Changes(ctx context.Context, cursor string, limit int) (ChangesPage, error) {
	q := url.Values{}
	set(q, "cursor", cursor)
	if limit > 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	p, _, err := fetch[ChangesPage](ctx, c, call{verb: "changes", method: http.MethodGet, path: "admin/audit", query: q})
	for i := range p.Items {
		p.Items[i].Before, p.Items[i].After = present(p.Items[i].Before), present(p.Items[i].After)
	}
	return p, err
}
