package client

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Queue is a set of jobs that wait for the same workers. MainQueue is always there.
type Queue struct {
	Name  string
	Limit int      // jobs that may be ready and were never claimed, and as many delayed ones; 0 for MainQueue
	Types []string // the job types that it takes; none = any
	// Schemas has JSON Schemas (draft 2020-12) by job type: a payload that does not fit is refused at its submit.
	Schemas   map[string]json.RawMessage
	MaxRun    time.Duration // how long an attempt of its jobs may run, in whole seconds; 0 = what the tier's plan says
	Push      *Push         // where its jobs are posted; nil: they are not
	LogsOff   bool          // the server stores no line of a log of its jobs
	Paused    time.Time     // since when no process claims its jobs; zero: it is not paused
	Ready     int64
	Scheduled int64
	Running   int64
	Version   int64 // grows with each change of the declaration
}

// Push makes a queue post its jobs to a URL: the payload is the body, and the answer the result.
type Push struct {
	URL          string `json:"url"`
	Permanent4xx bool   `json:"permanent4xx"` // a 4xx answer that no repeat can change ends the job for good
	Concurrency  int    `json:"concurrency"`  // posts at once, of each instance; DeclareQueue: 0 = 10
	// Key is the id of the API key, of the role worker, with which the receiver ends jobs that it answered with 202; "" =
	// none. A server without keys needs none.
	Key string `json:"key"`
	// Webhook has what the receiver verifies the posts with. The server fills it for admins; nil = nothing.
	Webhook *WebhookKeys `json:"webhook,omitempty"`
}

// MainQueue is the queue of the jobs whose submit names none.
const MainQueue = "main"

// ETag returns the tag of this version of the queue, for DeclareQueue.
func (q Queue) ETag() string { return `"` + strconv.FormatInt(q.Version, 10) + `"` }

type wireQueue struct {
	Name      string                     `json:"name"`
	Limit     *int                       `json:"limit"`
	Types     []string                   `json:"types"`
	Schemas   map[string]json.RawMessage `json:"schemas"`
	MaxRun    *float64                   `json:"maxProcessingSeconds"`
	Push      *wirePush                  `json:"push"`
	Logs      string                     `json:"logs"` // on or off; a server before this member says nothing
	Paused    *time.Time                 `json:"paused"`
	Ready     int64                      `json:"ready"`
	Scheduled int64                      `json:"scheduled"`
	Running   int64                      `json:"running"`
	Version   int64                      `json:"version"`
}

// logsOff is the word for a queue whose jobs have no logs.
const logsOff = "off"

// wirePush is a Push with the key that a server has: null for none.
type wirePush struct {
	Push
	Key *string `json:"key"`
}

// MarshalJSON encodes the queue as the server does.
func (q Queue) MarshalJSON() ([]byte, error) {
	w := wireQueue{
		Name: q.Name, Ready: q.Ready, Scheduled: q.Scheduled, Running: q.Running, Version: q.Version,
	}
	if q.Name != MainQueue {
		w.Limit = &q.Limit
	}
	w.Types, w.Schemas = append([]string{}, q.Types...), map[string]json.RawMessage{}
	maps.Copy(w.Schemas, q.Schemas)
	if seconds := q.MaxRun.Seconds(); seconds > 0 {
		w.MaxRun = &seconds
	}
	if q.Push != nil {
		w.Push = &wirePush{Push: *q.Push}
		if q.Push.Key != "" {
			w.Push.Key = &q.Push.Key
		}
	}
	if w.Logs = "on"; q.LogsOff {
		w.Logs = logsOff
	}
	if !q.Paused.IsZero() {
		w.Paused = &q.Paused
	}
	return json.Marshal(w)
}

// UnmarshalJSON decodes the queue as the server encodes it.
func (q *Queue) UnmarshalJSON(text []byte) error {
	var w wireQueue
	if err := json.Unmarshal(text, &w); err != nil {
		return err
	}
	*q = Queue{Name: w.Name, Ready: w.Ready, Scheduled: w.Scheduled, Running: w.Running, Version: w.Version}
	if w.Limit != nil {
		q.Limit = *w.Limit
	}
	if w.Push != nil {
		q.Push = &w.Push.Push
		if w.Push.Key != nil {
			q.Push.Key = *w.Push.Key
		}
	}
	q.LogsOff = w.Logs == logsOff
	if w.Paused != nil {
		q.Paused = *w.Paused
	}
	if len(w.Types) > 0 {
		q.Types = w.Types
	}
	if len(w.Schemas) > 0 {
		q.Schemas = w.Schemas
	}
	if w.MaxRun != nil {
		q.MaxRun = time.Duration(*w.MaxRun * float64(time.Second))
	}
	return nil
}

func queuePath(name, action string) string { return "admin/queues/" + url.PathEscape(name) + action }

// Queues lists MainQueue and the declared queues.
func (c *Client) Queues(ctx context.Context) ([]Queue, error) {
	got, _, err := fetch[struct {
		Items []Queue `json:"items"`
	}](ctx, c, call{verb: "queues", method: http.MethodGet, path: "admin/queues"})
	return got.Items, err
}

// DeclareQueue declares a queue or replaces its declaration, on every instance within about a second: its Name, Limit
// (0 = a quarter of the server's capacity), Types, Schemas, MaxRun, Push and LogsOff. etag is the Queue.ETag that the
// change is based on: DeclareQueue returns ErrChanged if the queue has changed since. With "" it replaces any
// declaration. The client does not repeat a call whose answer was lost: after ErrOutcomeUnknown, read Queues a few
// seconds later.
func (c *Client) DeclareQueue(ctx context.Context, q Queue, etag string) (Queue, error) {
	type push struct {
		URL          string `json:"url"`
		Permanent4xx bool   `json:"permanent4xx,omitempty"`
		Concurrency  int    `json:"concurrency,omitempty"`
		Key          string `json:"key,omitempty"`
	}
	var to *push
	if q.Push != nil {
		to = &push{q.Push.URL, q.Push.Permanent4xx, q.Push.Concurrency, q.Push.Key}
	}
	logs := ""
	if q.LogsOff {
		logs = logsOff
	}
	body, err := json.Marshal(struct {
		Limit   int                        `json:"limit"`
		Types   []string                   `json:"types,omitempty"`
		Schemas map[string]json.RawMessage `json:"schemas,omitempty"`
		MaxRun  int64                      `json:"maxProcessingSeconds,omitempty"`
		Push    *push                      `json:"push,omitempty"`
		Logs    string                     `json:"logs,omitempty"`
	}{q.Limit, q.Types, q.Schemas, int64(q.MaxRun / time.Second), to, logs})
	if err != nil {
		return Queue{}, fmt.Errorf("declare queue: %w", err)
	}
	return put[Queue](ctx, c, "declare queue", queuePath(q.Name, ""), body, "If-Match", etag)
}

// DeleteQueue removes the declaration of a queue. It returns ErrConflict while the queue has jobs that have not ended.
func (c *Client) DeleteQueue(ctx context.Context, name string) error {
	_, err := c.do(ctx, call{
		verb: "delete queue", method: http.MethodDelete, path: queuePath(name, ""), changes: true, once: true,
	})
	return err
}

// Purged says what a PurgeQueue did.
type Purged struct {
	Cancelled int  `json:"cancelled"`
	More      bool `json:"more"` // others may be ready
}

// PurgeQueue cancels ready jobs of a queue, some thousand at most; scheduled jobs stay. Call it again while
// Purged.More.
func (c *Client) PurgeQueue(ctx context.Context, name string) (Purged, error) {
	got, _, err := fetch[Purged](ctx, c, call{
		verb: "purge queue", method: http.MethodPost, path: queuePath(name, "/purge"), changes: true, once: true,
		hold: time.Minute,
	})
	return got, err
}

// PauseQueue pauses a queue: within about a second no process claims its jobs any more. Running jobs run on, and
// submits are accepted. ResumeQueue ends the pause.
func (c *Client) PauseQueue(ctx context.Context, name string) (Queue, error) {
	got, _, err := fetch[Queue](ctx, c, call{
		verb: "pause queue", method: http.MethodPost, path: queuePath(name, "/pause"), changes: true,
	})
	return got, err
}

// ResumeQueue ends the pause of a queue.
func (c *Client) ResumeQueue(ctx context.Context, name string) (Queue, error) {
	got, _, err := fetch[Queue](ctx, c, call{
		verb: "resume queue", method: http.MethodPost, path: queuePath(name, "/resume"), changes: true,
	})
	return got, err
}
