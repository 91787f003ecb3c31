package job

import (
	"encoding/json"
	"fmt"
	"time"
)

// queueText is a declared queue as Redis and SQL store it, without its name.
type queueText struct {
	Limit    int                        `json:"limit"`
	Types    []string                   `json:"types,omitempty"`
	Schemas  map[string]json.RawMessage `json:"schemas,omitempty"`
	MaxRunMs int64                      `json:"maxRunMs,omitempty"`
	Push     *pushText                  `json:"push,omitempty"`
	LogsOff  bool                       `json:"logsOff,omitempty"`
	Faktory  bool                       `json:"faktory,omitempty"`
	Version  int64                      `json:"version"`
}

// pushText is a Push in a queueText.
type pushText struct {
	URL          string `json:"url"`
	Permanent4xx bool   `json:"permanent4xx,omitempty"`
	Concurrency  int    `json:"concurrency,omitempty"`
	Key          string `json:"key,omitempty"`
}

// Text returns the declaration of a queue as Redis and SQL store it.
func (q Queue) Text() string {
	t := queueText{
		Limit: q.Limit, Types: q.Types, Schemas: map[string]json.RawMessage{}, MaxRunMs: q.MaxRun.Milliseconds(),
		LogsOff: q.LogsOff, Faktory: q.Faktory, Version: q.Version,
	}
	if q.Push.On() {
		push := pushText(q.Push)
		t.Push = &push
	}
	for typ, schema := range q.Schemas {
		t.Schemas[typ] = json.RawMessage(schema)
	}
	text, _ := json.Marshal(t) // cannot fail: schemas are JSON
	return string(text)
}

// ReadQueue reads what Text returned. The error wraps ErrBadQueue.
func ReadQueue(name, text string) (Queue, error) {
	var t queueText
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		return Queue{}, fmt.Errorf("%w %q: unreadable: %w", ErrBadQueue, name, err)
	}
	q := Queue{
		Name: name, Limit: t.Limit, Types: t.Types, MaxRun: time.Duration(t.MaxRunMs) * time.Millisecond,
		LogsOff: t.LogsOff, Faktory: t.Faktory, Version: t.Version,
	}
	if t.Push != nil {
		q.Push = Push(*t.Push)
	}
	for typ, schema := range t.Schemas {
		if q.Schemas == nil {
			q.Schemas = map[string]string{}
		}
		q.Schemas[typ] = string(schema)
	}
	return q, q.Check()
}
