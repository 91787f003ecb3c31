package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// Watch waits as Wait does. It also calls seen with the job's present state and after each change, the last time
// when the job has ended; changes in quick succession may be reported as one. Watch reads the server's events, and
// polls if the event stream does not work.
func (c *Client) Watch(ctx context.Context, jobID string, seen func(Poll)) (Poll, error) {
	now, err := c.Poll(ctx, jobID)
	if err != nil {
		return Poll{}, err
	}
	t := &teller{seen: seen}
	t.tell(now)
	if now.Status.Ended() {
		return now, ending(&now)
	}
	k := call{verb: "watch", method: http.MethodGet, path: "api/jobs/" + jobID + "/events", stream: true}
	err = c.follow(ctx, k, bareTag(now.ETag), func(f frame) bool {
		var p Poll
		if f.name == "status" && json.Unmarshal(f.data, &p) == nil {
			p.Result, p.ETag = present(p.Result), weakTag(f.id)
			t.tell(p)
		}
		return t.last.Status.Ended()
	})
	if err == nil {
		return t.last, ending(&t.last)
	}
	if ctx.Err() != nil {
		return t.last, err
	}
	// A poll works although the stream does not, or its error is clearer.
	return c.wait(ctx, jobID, t)
}

// teller reports each state of a job once.
type teller struct {
	seen func(Poll)
	last Poll
	tag  string // of last, as in a header
}

func (t *teller) tell(p Poll) {
	if same(&p, &t.last) {
		return
	}
	t.last, t.tag = p, weakTag(p.ETag)
	if t.seen != nil {
		t.seen(p)
	}
}

// bareTag returns the text of a poll's tag, which is the form of a stream's ids. weakTag returns the form of the
// header, for a tag in either form.
func bareTag(tag string) string { return strings.Trim(strings.TrimPrefix(tag, "W/"), `"`) }

func weakTag(tag string) string {
	if tag == "" {
		return ""
	}
	return `W/"` + bareTag(tag) + `"`
}

// Events calls seen with the events of all jobs, for operators, until ctx ends or an outage outlasts the tries of
// a call. It always returns an error. It begins after the Event.ID lastID, or now if lastID is "". An Event with
// Resync means that the server dropped events.
func (c *Client) Events(ctx context.Context, lastID string, seen func(Event)) error {
	if !visible(lastID) {
		return fmt.Errorf("events: %w: not the id of an event", ErrInvalid)
	}
	k := call{verb: "events", method: http.MethodGet, path: "api/events", stream: true}
	return c.follow(ctx, k, lastID, func(f frame) bool {
		e := Event{ID: f.id, Resync: f.name == "resync"}
		if e.Resync || f.name != "bye" && json.Unmarshal(f.data, &e) == nil {
			seen(e)
		}
		return false
	})
}
