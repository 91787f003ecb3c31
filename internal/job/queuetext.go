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
	Faktory  bool                       `json:"faktory,omitempty"`
	Version  int64                      `json:"version"`
}

// Text returns the declaration of a queue as Redis and SQL store it.
func (q Queue) Text() string {
	t := queueText{q.Limit, q.Types, map[string]json.RawMessage{}, q.MaxRun.Milliseconds(), q.Faktory, q.Version}
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
		Faktory: t.Faktory, Version: t.Version,
	}
	for typ, schema := range t.Schemas {
		if q.Schemas == nil {
			q.Schemas = map[string]string{}
		}
		q.Schemas[typ] = string(schema)
	}
	return q, q.Check()
}
