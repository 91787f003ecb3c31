package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Progress is how far the attempt of a job is, in its handler's own units.
type Progress struct {
	At    time.Time `json:"at"`
	Done  int64     `json:"done"`
	Total *int64    `json:"total"` // nil = the handler does not know
	Note  string    `json:"note"`
}

// LogLine is a line of a job's log. A line of the level GAP stands for Lost lines that are missing.
type LogLine struct {
	Seq     int64           `json:"seq"` // grows from line to line, over all attempts and generations
	Attempt int             `json:"attempt"`
	At      time.Time       `json:"at"`
	Level   string          `json:"level"` // DEBUG, INFO, WARN, ERROR or GAP
	Text    string          `json:"text"`
	Attrs   json.RawMessage `json:"attrs,omitempty"` // an object; nil = none
	Lost    int             `json:"lost,omitempty"`
}

// LogFilter says which lines of a log to read. The zero value reads all.
type LogFilter struct {
	After   int64  // only lines behind the one of this Seq
	Attempt int    // only lines of this attempt; 0 = all
	Level   string // only lines of this level or a higher one, and gaps; "" = all
	Limit   int    // 0 = the server's, 2000
}

// LogPage has lines of a log, the oldest first.
type LogPage struct {
	Items []LogLine `json:"items"`
	After int64     `json:"after"` // LogFilter.After of the next page
	More  bool      `json:"more"`  // there are further lines now
	Ended bool      `json:"ended"` // the job has ended: no further lines come, unless it is requeued
}

// Logs reads lines of a job's log. It returns ErrNotFound if the job does not exist.
func (c *Client) Logs(ctx context.Context, jobID string, f LogFilter) (LogPage, error) {
	return c.logs(ctx, jobID, f, 0)
}

func (c *Client) logs(ctx context.Context, jobID string, f LogFilter, hold time.Duration) (LogPage, error) {
	k, err := jobCall("logs", http.MethodGet, "api/jobs/", jobID, "/logs")
	if err != nil {
		return LogPage{}, err
	}
	k.query, k.hold = url.Values{}, hold
	set(k.query, "level", f.Level)
	for name, n := range map[string]int64{
		"after": f.After, "attempt": int64(f.Attempt), "limit": int64(f.Limit), "wait": int64(hold / time.Second),
	} {
		if n > 0 {
			k.query.Set(name, strconv.FormatInt(n, 10))
		}
	}
	p, _, err := fetch[LogPage](ctx, c, k)
	return p, err
}

// FollowLogs calls seen with each line of a job's log, in order, until the job has ended. FollowLogs asks for the lines
// with a higher number than the line that seen got last, so no interruption loses or repeats a line. FollowLogs returns
// nil when the job has ended, or the error of a call whose tries are used up. Limit does not count.
func (c *Client) FollowLogs(ctx context.Context, jobID string, f LogFilter, seen func(LogLine)) error {
	f.Limit = 0
	for idle := 0; ; {
		asked := time.Now()
		p, err := c.logs(ctx, jobID, f, holdPoll)
		if e, ok := errors.AsType[*Error](err); ok && e.Status == http.StatusServiceUnavailable && ctx.Err() == nil {
			p, err = c.logs(ctx, jobID, f, 0) // the server may have no room for waiting requests
		}
		if err != nil {
			return err
		}
		for _, l := range p.Items {
			seen(l)
		}
		f.After = max(f.After, p.After)
		switch {
		case p.Ended && !p.More:
			return nil
		case len(p.Items) > 0 || time.Since(asked) >= holdPoll/2:
			idle = 0
			continue
		}
		// The server is draining, or does not hold answers.
		idle++
		bound := min(c.policy.bound(idle), pausePoll)
		if err := sleep(ctx, bound/2+c.draw(bound/2)); err != nil {
			return fmt.Errorf("logs: %w", err)
		}
	}
}
