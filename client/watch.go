package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// Watch is Wait that calls seen with the job as it stands and again at each change, the last time when it has ended;
// changes that follow closely may be told as one. It listens to the server's events, and polls where those do not come
// through.
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
	// Whatever is wrong with the stream, a poll works, or says better what is wrong.
	return c.wait(ctx, jobID, t)
}

// teller tells each state of a job once.
type teller struct {
	seen func(Poll)
	last Poll
	tag  string // of last, as a header
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

// bareTag is the text of a poll's tag: what a stream's ids are. weakTag is the tag as the header has it, whichever form
// it came in.
func bareTag(tag string) string { return strings.Trim(strings.TrimPrefix(tag, "W/"), `"`) }

func weakTag(tag string) string {
	if tag == "" {
		return ""
	}
	return `W/"` + bareTag(tag) + `"`
}

// Events calls seen with what happens to any job, for operators, until ctx ends or the server stays away for as many
// tries as a call has; it always returns an error. lastID goes on behind that Event.ID, "" begins now. Where the server
// had to drop events, an Event with Resync tells.
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
