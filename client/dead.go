package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"net/http"
	"time"
)

// Dead lists the dead letters, which are jobs that FAILED and were not requeued, the latest first. cursor is "" at
// first, then the last page's Next.
func (c *Client) Dead(ctx context.Context, f Filter, cursor string) (Page, error) {
	if err := f.deadOnly(); err != nil {
		return Page{}, fmt.Errorf("dead: %w", err)
	}
	return c.page(ctx, "dead", "admin/dead", f, cursor)
}

// AllDead iterates over all pages of Dead. An error is the last element.
func (c *Client) AllDead(ctx context.Context, f Filter) iter.Seq2[Job, error] {
	return pages(func(cursor string) (Page, error) { return c.Dead(ctx, f, cursor) })
}

// DeadExport opens the dead letters with their payloads, one JSON object per line. The caller must close the
// reader. A read returns an error if the export breaks off.
func (c *Client) DeadExport(ctx context.Context, f Filter) (io.ReadCloser, error) {
	if err := f.deadOnly(); err != nil {
		return nil, fmt.Errorf("dead export: %w", err)
	}
	resp, err := c.open(ctx, call{
		verb: "dead export", method: http.MethodGet, path: "admin/dead/export", query: f.query(), stream: true,
		header: http.Header{"Accept": {"application/x-ndjson"}},
	})
	if err != nil {
		return nil, err
	}
	if typ, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err != nil || typ != "application/x-ndjson" {
		wrong := &Error{Status: resp.StatusCode, Err: errNoExport}
		return nil, errors.Join(fmt.Errorf("dead export: %w", wrong), resp.Body.Close())
	}
	return resp.Body, nil
}

// Requeued is the result of a bulk requeue.
type Requeued struct {
	Matched  int `json:"matched"`
	Requeued int `json:"requeued"` // 0 in a dry run
}

// RequeueDead requeues up to limit dead letters, at a rate that the server limits. Filter.From and Filter.To
// select by the time of death. A dry run only counts. The client does not repeat a call whose answer was lost,
// because a repeat would requeue further dead letters. The caller may repeat it: no dead letter is requeued twice.
func (c *Client) RequeueDead(ctx context.Context, f Filter, limit int, dryRun bool) (Requeued, error) {
	return c.RequeueDeadBecause(ctx, f, limit, dryRun, "")
}

// RequeueDeadBecause is RequeueDead with a reason, which is stored with each of the jobs; "" = none.
func (c *Client) RequeueDeadBecause(
	ctx context.Context,
	f Filter,
	limit int,
	dryRun bool,
	reason string,
) (Requeued, error) {
	if err := f.requeueOnly(); err != nil {
		return Requeued{}, fmt.Errorf("requeue dead: %w", err)
	}
	body, err := json.Marshal(struct {
		Tier   Tier      `json:"tier,omitempty"`
		Cause  string    `json:"cause,omitempty"`
		Type   string    `json:"type,omitempty"`
		After  time.Time `json:"after,omitzero"`
		Before time.Time `json:"before,omitzero"`
		Limit  int       `json:"limit"`
		DryRun bool      `json:"dryRun"`
		Reason string    `json:"reason,omitempty"`
	}{f.Tier, f.Cause, f.Type, f.From.UTC(), f.To.UTC(), limit, dryRun, reason})
	if err != nil {
		return Requeued{}, fmt.Errorf("requeue dead: %w", err)
	}
	done, _, err := fetch[Requeued](ctx, c, call{
		verb: "requeue dead", method: http.MethodPost, path: "admin/dead/requeue", body: body, changes: !dryRun,
		once: !dryRun, hold: time.Minute,
	})
	return done, err
}

// deadOnly refuses a filter that selects other jobs than dead letters. If the filter were ignored, the call would
// act on too many jobs.
func (f *Filter) deadOnly() error {
	if f.Status != "" && f.Status != Failed {
		return fmt.Errorf("%w: dead letters are FAILED, not %s", ErrInvalid, f.Status)
	}
	if f.Queue != "" {
		return fmt.Errorf("%w: dead letters are not picked by queue", ErrInvalid)
	}
	f.Status = ""
	return nil
}

// requeueOnly refuses what deadOnly refuses, and a trace id, which a requeue does not support.
func (f *Filter) requeueOnly() error {
	if f.TraceID != "" {
		return fmt.Errorf("%w: a requeue does not pick by trace id", ErrInvalid)
	}
	return f.deadOnly()
}
