package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

const schedulesPath = "admin/schedules"

// Overlap says what happens to an occurrence of a schedule while the job of an earlier one has not ended.
type Overlap string

// The values of Overlap; "" means OverlapSkip.
const (
	OverlapSkip    Overlap = "skip"    // it is missed
	OverlapAllow   Overlap = "allow"   // its job runs beside the earlier one
	OverlapOne     Overlap = "one"     // its job waits for the end of the earlier one; while one waits, it is missed
	OverlapReplace Overlap = "replace" // as OverlapOne, but a newer job cancels the waiting job, and waits itself
)

// CatchUp says which occurrences are fired later if no server could fire them in time.
type CatchUp string

// The values of CatchUp; "" means CatchUpLast.
const (
	CatchUpLast CatchUp = "last" // the latest one
	CatchUpNone CatchUp = "none" // none that is more than a minute late
	CatchUpAll  CatchUp = "all"  // the last hundred
)

// Schedule makes jobs at times. The first group of members is what PutSchedule stores; the server sets the others.
type Schedule struct {
	Name     string
	Cron     string        // either Cron, such as 30 2 * * *, or Every
	Every    time.Duration // whole seconds
	Timezone string        // the zone whose clock Cron means; "" = UTC
	Start    time.Time     // no occurrence is before it; zero = none
	End      time.Time     // no occurrence is after it; zero = none
	Jitter   time.Duration // each occurrence is fired later by a part of it, in whole seconds
	Overlap  Overlap
	CatchUp  CatchUp
	Job      ScheduledJob

	Owner   string         // the id of the API key that stored it last; "" = a caller without a key
	Paused  *SchedulePause // nil: it is not paused
	Last    time.Time      // the last occurrence; zero = there was none
	Next    []time.Time    // the next five
	Version int64          // grows with each change
	Runs    []ScheduleRun  // the last occurrences, fired or missed, the latest first; only Schedule fills it
}

// ScheduledJob describes the jobs of a schedule, with the members of a submit.
type ScheduledJob struct {
	Tier       Tier // "" = Unpaid
	Type       string
	Payload    json.RawMessage // nil = none; Schedules leaves it out
	Queue      string          // "" = the queue of a submit that names none
	Key        string          // of the line
	MaxRetries *int            // nil = the plan's
	MaxRun     time.Duration   // whole seconds; 0 = what the queue or the plan says
	Callback   string
	ExpiresIn  time.Duration // 0 = it may wait for ever
}

// SchedulePause says since when, by whom and why a schedule makes no jobs.
type SchedulePause struct {
	Since      time.Time
	By, Reason string
}

// ScheduleRun is an occurrence that was fired, or all missed occurrences from Occurrence to Through.
type ScheduleRun struct {
	Occurrence, Through time.Time
	JobID               string // "" = missed
	Living              bool   // the job has not ended
	Asked               bool   // an operator asked for it
	Missed              int    // how many were missed; 0: none, or more than were counted
	Reason              string // why: DOWN, GATE, PAUSED, FULL, QUOTA, OVERLAP or INVALID
	Detail              string
	At                  time.Time
}

// ETag returns the tag of this version of the schedule, for PutSchedule.
func (s Schedule) ETag() string { return `"` + strconv.FormatInt(s.Version, 10) + `"` }

type wireSchedule struct {
	Name     string             `json:"name,omitempty"`
	Cron     string             `json:"cron,omitempty"` // null leaves it as it is
	Every    int64              `json:"everySeconds,omitempty"`
	Timezone string             `json:"timezone,omitempty"`
	Start    *time.Time         `json:"start,omitempty"`
	End      *time.Time         `json:"end,omitempty"`
	Jitter   int64              `json:"jitterSeconds,omitempty"`
	Overlap  Overlap            `json:"overlap,omitempty"`
	CatchUp  CatchUp            `json:"catchUp,omitempty"`
	Job      wireScheduled      `json:"job"`
	Owner    string             `json:"owner,omitempty"`
	Paused   *wireSchedulePause `json:"paused,omitempty"`
	Last     *time.Time         `json:"lastOccurrence,omitempty"`
	Next     []time.Time        `json:"next,omitempty"`
	Version  int64              `json:"version,omitempty"`
	Runs     []wireRun          `json:"runs,omitempty"`
}

type wireScheduled struct {
	Tier       Tier            `json:"tier,omitempty"`
	Type       string          `json:"type,omitempty"`
	Payload    json.RawMessage `json:"payload,omitempty"`
	Queue      string          `json:"queue,omitempty"`
	Key        string          `json:"key,omitempty"`
	MaxRetries *int            `json:"maxRetries,omitempty"`
	MaxRun     int64           `json:"maxProcessingSeconds,omitempty"`
	Callback   string          `json:"callbackUrl,omitempty"`
	ExpiresIn  float64         `json:"expiresIn,omitempty"`
}

type wireSchedulePause struct {
	Since  time.Time `json:"since"`
	By     string    `json:"by"`
	Reason string    `json:"reason"`
}

type wireRun struct {
	Occurrence time.Time `json:"occurrence"`
	Through    time.Time `json:"through"`
	Status     string    `json:"status"`
	JobID      string    `json:"jobId"`
	Living     bool      `json:"living"`
	Asked      bool      `json:"asked"`
	Missed     int       `json:"missed"`
	Reason     string    `json:"reason"`
	Detail     string    `json:"detail"`
	At         time.Time `json:"at"`
}

// MarshalJSON encodes the schedule as the server does.
func (s Schedule) MarshalJSON() ([]byte, error) {
	w := s.wanted()
	w.Name, w.Owner, w.Next, w.Version = s.Name, s.Owner, s.Next, s.Version
	if !s.Last.IsZero() {
		w.Last = &s.Last
	}
	if p := s.Paused; p != nil {
		w.Paused = &wireSchedulePause{p.Since, p.By, p.Reason}
	}
	for _, r := range s.Runs {
		status := "FIRED"
		if r.JobID == "" {
			status = "MISSED"
		}
		w.Runs = append(w.Runs, wireRun{r.Occurrence, r.Through, status, r.JobID, r.Living, r.Asked, r.Missed, r.Reason,
			r.Detail, r.At})
	}
	return textOf(w)
}

// textOf encodes a value as JSON, and leaves the text of a payload unchanged.
func textOf(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// Wanted returns the schedule without the fields that a server sets by itself: the body of a PUT, as PutSchedule sends
// it.
func (s Schedule) Wanted() Schedule {
	s.Name, s.Owner, s.Paused, s.Last, s.Next, s.Version, s.Runs = "", "", nil, time.Time{}, nil, 0, nil
	return s
}

// wanted returns the members that a caller decides.
func (s *Schedule) wanted() wireSchedule {
	w := wireSchedule{
		Cron: s.Cron, Every: int64(s.Every / time.Second), Timezone: s.Timezone, Jitter: int64(s.Jitter / time.Second),
		Overlap: s.Overlap, CatchUp: s.CatchUp,
		Job: wireScheduled{
			Tier: s.Job.Tier, Type: s.Job.Type, Payload: s.Job.Payload, Queue: s.Job.Queue, Key: s.Job.Key,
			MaxRetries: s.Job.MaxRetries, MaxRun: int64(s.Job.MaxRun / time.Second), Callback: s.Job.Callback,
			ExpiresIn: s.Job.ExpiresIn.Seconds(),
		},
	}
	if !s.Start.IsZero() {
		w.Start = &s.Start
	}
	if !s.End.IsZero() {
		w.End = &s.End
	}
	return w
}

// UnmarshalJSON decodes the schedule as the server encodes it.
func (s *Schedule) UnmarshalJSON(text []byte) error {
	var w wireSchedule
	if err := json.Unmarshal(text, &w); err != nil {
		return err
	}
	*s = Schedule{
		Name: w.Name, Cron: w.Cron, Every: time.Duration(w.Every) * time.Second, Timezone: w.Timezone,
		Jitter: time.Duration(w.Jitter) * time.Second, Overlap: w.Overlap, CatchUp: w.CatchUp, Owner: w.Owner, Next: w.Next,
		Version: w.Version,
		Job: ScheduledJob{
			Tier: w.Job.Tier, Type: w.Job.Type, Payload: w.Job.Payload, Queue: w.Job.Queue, Key: w.Job.Key,
			MaxRetries: w.Job.MaxRetries, MaxRun: time.Duration(w.Job.MaxRun) * time.Second, Callback: w.Job.Callback,
			ExpiresIn: time.Duration(w.Job.ExpiresIn * float64(time.Second)),
		},
	}
	for from, to := range map[*time.Time]*time.Time{w.Start: &s.Start, w.End: &s.End, w.Last: &s.Last} {
		if from != nil {
			*to = *from
		}
	}
	if w.Paused != nil {
		s.Paused = &SchedulePause{w.Paused.Since, w.Paused.By, w.Paused.Reason}
	}
	for _, r := range w.Runs {
		s.Runs = append(s.Runs, ScheduleRun{r.Occurrence, r.Through, r.JobID, r.Living, r.Asked, r.Missed, r.Reason,
			r.Detail, r.At})
	}
	return nil
}

func schedulePath(name string) string { return schedulesPath + "/" + url.PathEscape(name) }

// Schedules returns all schedules by name, without payloads and runs.
func (c *Client) Schedules(ctx context.Context) ([]Schedule, error) {
	got, _, err := fetch[struct {
		Items []Schedule `json:"items"`
	}](ctx, c, call{verb: "schedules", method: http.MethodGet, path: schedulesPath})
	return got.Items, err
}

// Schedule returns a schedule with its runs.
func (c *Client) Schedule(ctx context.Context, name string) (Schedule, error) {
	got, _, err := fetch[Schedule](ctx, c, call{verb: "schedule", method: http.MethodGet, path: schedulePath(name)})
	return got, err
}

// PutSchedule stores a schedule, and returns it as it is stored. etag is the Schedule.ETag of the version that it
// replaces: PutSchedule returns ErrChanged if there is another one. With "" it replaces any, with "*" there must be
// none.
// What is stored already keeps its version, so a call may be repeated.
func (c *Client) PutSchedule(ctx context.Context, s Schedule, etag string) (Schedule, error) {
	return c.putSchedule(ctx, s, etag, call{verb: "put schedule", changes: true, once: etag != ""})
}

// TrySchedule checks a schedule as PutSchedule does, with its errors, and stores nothing. It returns the schedule that
// PutSchedule would store, with its next occurrences.
func (c *Client) TrySchedule(ctx context.Context, s Schedule, etag string) (Schedule, error) {
	return c.putSchedule(ctx, s, etag, call{verb: "try schedule", query: url.Values{"dryRun": {"true"}}})
}

func (c *Client) putSchedule(ctx context.Context, s Schedule, etag string, k call) (Schedule, error) {
	body, err := textOf(s.Wanted())
	if err != nil {
		return s, fmt.Errorf("%s: %w", k.verb, err)
	}
	k.method, k.path, k.header, k.body = http.MethodPut, schedulePath(s.Name), http.Header{}, body
	switch etag {
	case "":
	case "*":
		k.header.Set("If-None-Match", etag)
	default:
		k.header.Set("If-Match", etag)
	}
	got, _, err := fetch[Schedule](ctx, c, k)
	return got, err
}

// DeleteSchedule deletes a schedule. Jobs that it has made go on.
func (c *Client) DeleteSchedule(ctx context.Context, name string) error {
	_, err := c.do(ctx, call{
		verb: "delete schedule", method: http.MethodDelete, path: schedulePath(name), changes: true, once: true,
	})
	return err
}

// PauseSchedule makes a schedule make no jobs until it is resumed.
func (c *Client) PauseSchedule(ctx context.Context, name, reason string) (Schedule, error) {
	body, err := json.Marshal(struct {
		Reason string `json:"reason,omitempty"`
	}{reason})
	if err != nil {
		return Schedule{}, fmt.Errorf("pause schedule: %w", err)
	}
	got, _, err := fetch[Schedule](ctx, c, call{
		verb: "pause schedule", method: http.MethodPost, path: schedulePath(name) + "/pause", body: body, changes: true,
	})
	return got, err
}

// ResumeSchedule lets a paused schedule go on, with the next occurrence from now.
func (c *Client) ResumeSchedule(ctx context.Context, name string) (Schedule, error) {
	got, _, err := fetch[Schedule](ctx, c, call{
		verb: "resume schedule", method: http.MethodPost, path: schedulePath(name) + "/resume", changes: true,
	})
	return got, err
}

// RunSchedule makes a job of a schedule now, beside its occurrences, and returns its id. key is an Idempotency-Key: a
// repeat with it gets the same job. With "" the client makes one, so that its own repeats make one job.
func (c *Client) RunSchedule(ctx context.Context, name, key string) (string, error) {
	if key == "" {
		key = rand.Text()
	}
	got, _, err := fetch[struct {
		JobID string `json:"jobId"`
	}](ctx, c, call{
		verb: "run schedule", method: http.MethodPost, path: schedulePath(name) + "/run", key: key,
		changes: true,
	})
	return got.JobID, err
}

// NextOfSchedule returns the next n occurrences of a schedule after a time; the zero time is now.
func (c *Client) NextOfSchedule(ctx context.Context, name string, from time.Time, n int) ([]time.Time, error) {
	query := url.Values{"n": {strconv.Itoa(n)}}
	if !from.IsZero() {
		query.Set("from", from.UTC().Format(time.RFC3339))
	}
	got, _, err := fetch[struct {
		Items []time.Time `json:"items"`
	}](ctx, c, call{verb: "next of schedule", method: http.MethodGet, path: schedulePath(name) + "/next", query: query})
	return got.Items, err
}
