package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// LineKey names a key of lines: what submits say (WithKey), or the id of the API key whose submits said none. Both
// empty: the jobs without a key of tiers whose plans have lines by key.
type LineKey struct {
	Key   string
	Owner string
}

const linesPath = "admin/lines"

// Query returns the query that names the key in the API's addresses.
func (k LineKey) Query() url.Values {
	if k.Owner != "" {
		return url.Values{"owner": {k.Owner}}
	}
	return url.Values{"key": {k.Key}}
}

// Line is the ready jobs of one key in one tier and one queue.
type Line struct {
	LineKey
	Tier    Tier
	Queue   string
	Waiting int64
	Running int       // attempts of the key, in all its lines
	Share   float64   // of the worker time that all lines of its tier had in the last five minutes, 0 to 1
	Noisy   bool      // its share is more than a tenth, and thirty attempts of the key or more run
	Parked  bool      // the key may not start an attempt now
	Until   time.Time // with Parked: when it may; zero: when one of its attempts ends, or an operator allows it
}

// LinePlace is the place of a job in the line of its key.
type LinePlace struct {
	LineKey
	Ahead   int64     // jobs of the line before it
	Running int       // attempts of the key, in all its lines
	Parked  bool      // the key may not start an attempt now
	Until   time.Time // with Parked: as in Line
}

// Lines are the longest lines, how many lines there are, and how many attempts of keys of lines run.
type Lines struct {
	Items   []Line
	Lines   int64
	Running int
}

// LineLimits are what a key of lines is allowed, in all its lines together. Zero means no limit.
type LineLimits struct {
	LineKey
	Running int     // so many of its attempts run at the same time, at most
	Weight  int     // its share of a tier's worker time, beside the weights of other keys; 1 to 1000, 0 is 1
	Rate    float64 // so many attempts start per second on average, at most
	Burst   int     // so many of them at once, with Rate; 0 is 1
	Waiting int     // so many jobs are ready in one of its lines, at most; further submits are refused: ErrRateLimited
	Strict  bool    // one attempt after the other, in the order of arrival, also through retries
	Paused  *Pause  // no attempt starts; Scope and Refuse are not used
	Version int64   // set by the server; 0: the key has no limits
}

// ETag returns the tag of this version of the limits, for SetLineLimits.
func (l LineLimits) ETag() string { return `"` + strconv.FormatInt(l.Version, 10) + `"` }

// wireLineKey is a LineKey on the wire.
type wireLineKey struct {
	Key   *string `json:"key"`
	Owner *string `json:"owner"`
}

func (w wireLineKey) read() (k LineKey) {
	if w.Key != nil {
		k.Key = *w.Key
	}
	if w.Owner != nil {
		k.Owner = *w.Owner
	}
	return k
}

// UnmarshalJSON decodes the line as the server encodes it.
func (l *Line) UnmarshalJSON(text []byte) error {
	var w struct {
		wireLineKey
		Tier    Tier      `json:"tier"`
		Queue   string    `json:"queue"`
		Waiting int64     `json:"waiting"`
		Running int       `json:"running"`
		Share   float64   `json:"share"`
		Noisy   bool      `json:"noisy"`
		Parked  bool      `json:"parked"`
		Until   time.Time `json:"until"` // null leaves the zero time
	}
	if err := json.Unmarshal(text, &w); err != nil {
		return err
	}
	*l = Line{LineKey: w.read(), Tier: w.Tier, Queue: w.Queue, Waiting: w.Waiting, Running: w.Running, Share: w.Share,
		Noisy: w.Noisy, Parked: w.Parked, Until: w.Until}
	return nil
}

// UnmarshalJSON decodes the place as the server encodes it.
func (p *LinePlace) UnmarshalJSON(text []byte) error {
	var w struct {
		wireLineKey
		Ahead   int64     `json:"ahead"`
		Running int       `json:"running"`
		Parked  bool      `json:"parked"`
		Until   time.Time `json:"until"` // null leaves the zero time
	}
	if err := json.Unmarshal(text, &w); err != nil {
		return err
	}
	*p = LinePlace{w.read(), w.Ahead, w.Running, w.Parked, w.Until}
	return nil
}

// wireLimits are LineLimits on the wire.
type wireLimits struct {
	Running int        `json:"running"`
	Weight  int        `json:"weight"`
	Rate    float64    `json:"rate"`
	Burst   int        `json:"burst"`
	Waiting int        `json:"waiting"`
	Strict  bool       `json:"strict"`
	Paused  *linePause `json:"paused,omitempty"`
	Version int64      `json:"version,omitempty"`
}

// MarshalJSON encodes the limits as the server does.
func (l LineLimits) MarshalJSON() ([]byte, error) {
	w := struct {
		Key   string `json:"key,omitempty"`
		Owner string `json:"owner,omitempty"`
		wireLimits
	}{l.Key, l.Owner, wireLimits{Running: l.Running, Weight: l.Weight, Rate: l.Rate, Burst: l.Burst, Waiting: l.Waiting,
		Strict: l.Strict, Version: l.Version}}
	if p := l.Paused; p != nil {
		w.Paused = &linePause{ForSeconds: wholeSeconds(p.For), Reason: p.Reason}
		if !p.Since.IsZero() {
			w.Paused.Since = &p.Since
		}
		if !p.Until.IsZero() {
			w.Paused.Until = &p.Until
		}
		if p.By != "" {
			w.Paused.By = &p.By
		}
	}
	return json.Marshal(w)
}

// Wanted returns the limits without what a server sets by itself: the body of a PUT, which SetLineLimits sends.
func (l LineLimits) Wanted() LineLimits {
	l.LineKey, l.Version = LineKey{}, 0
	if l.Paused != nil {
		l.Paused = &Pause{Until: l.Paused.Until, For: l.Paused.For, Reason: l.Paused.Reason}
	}
	return l
}

// linePause is the pause of a key on the wire.
type linePause struct {
	Since      *time.Time `json:"since,omitempty"`
	Until      *time.Time `json:"until,omitempty"`
	ForSeconds int64      `json:"forSeconds,omitempty"`
	By         *string    `json:"by,omitempty"`
	Reason     string     `json:"reason,omitempty"`
}

// UnmarshalJSON decodes the limits as the server encodes them.
func (l *LineLimits) UnmarshalJSON(text []byte) error {
	var w struct {
		wireLineKey
		wireLimits
	}
	if err := json.Unmarshal(text, &w); err != nil {
		return err
	}
	*l = LineLimits{LineKey: w.read(), Running: w.Running, Weight: w.Weight, Rate: w.Rate, Burst: w.Burst,
		Waiting: w.Waiting, Strict: w.Strict, Version: w.Version}
	if p := w.Paused; p != nil {
		l.Paused = &Pause{Reason: p.Reason}
		if p.Since != nil {
			l.Paused.Since = *p.Since
		}
		if p.Until != nil {
			l.Paused.Until = *p.Until
		}
		if p.By != nil {
			l.Paused.By = *p.By
		}
	}
	return nil
}

// LineOrder says which lines come first.
type LineOrder string

// The values of LineOrder.
const (
	ByWaiting LineOrder = "waiting" // those with the most jobs
	ByRunning LineOrder = "running" // those of the keys with the most running attempts
	ByShare   LineOrder = "share"   // those with the largest share
)

// Lines returns the first lines in an order, at most limit.
func (c *Client) Lines(ctx context.Context, limit int, order LineOrder) (Lines, error) {
	query := url.Values{"limit": {strconv.Itoa(limit)}, "sort": {string(order)}}
	got, _, err := fetch[struct {
		Items   []Line `json:"items"`
		Lines   int64  `json:"lines"`
		Running int    `json:"running"`
	}](ctx, c, call{verb: "lines", method: http.MethodGet, path: linesPath, query: query})
	return Lines(got), err
}

// LinesOf returns the lines of a key that have jobs, and the limits of the key.
func (c *Client) LinesOf(ctx context.Context, key LineKey) ([]Line, LineLimits, error) {
	got, _, err := fetch[struct {
		Items  []Line     `json:"items"`
		Limits LineLimits `json:"limits"`
	}](ctx, c, call{verb: "lines", method: http.MethodGet, path: linesPath, query: key.Query()})
	return got.Items, got.Limits, err
}

// SetLineLimits replaces the limits of a key on every instance at once, and returns what is stored. etag is the
// LineLimits.ETag that the change is based on: SetLineLimits returns ErrChanged if the limits have changed since. With
// "" it replaces any. The client does not repeat a call whose answer was lost.
func (c *Client) SetLineLimits(ctx context.Context, l LineLimits, etag string) (LineLimits, error) {
	body, err := json.Marshal(l.Wanted())
	if err != nil {
		return l, fmt.Errorf("set line limits: %w", err)
	}
	k := call{
		verb: "set line limits", method: http.MethodPut, path: linesPath, query: l.Query(), header: http.Header{},
		body: body, changes: true, once: true,
	}
	if etag != "" {
		k.header.Set("If-Match", etag)
	}
	got, _, err := fetch[LineLimits](ctx, c, k)
	return got, err
}
