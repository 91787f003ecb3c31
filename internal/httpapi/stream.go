package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/tierq/tierq/internal/job"
)

// lastEvent returns the id of the last event that a client got, which browsers send when they reconnect; "" = from
// now on.
func lastEvent(h http.Header) string {
	if id := h.Get("Last-Event-Id"); len(id) <= 128 && visible(id) {
		return id
	}
	return ""
}

// jobEvents serves GET /api/jobs/{id}/events: the job as a poll shows it, now and at each change, until it has ended.
// The ids of the events are the poll's tags without W/ and quotes.
func (a *api) jobEvents(c *gin.Context) error {
	id, err := bareID(c)
	if err != nil {
		return err
	}
	if err := a.known(c, id); err != nil {
		return aboutJob(err, id)
	}
	leave, err := a.enter(c)
	if err != nil {
		return err
	}
	defer leave()
	s, ctx := a.openStream(c)
	defer s.close()
	last := lastEvent(c.Request.Header)
	err = a.Wait.Follow(ctx, id, func(j job.Job) error {
		tag := strings.Trim(strings.TrimPrefix(etag(&j), "W/"), `"`)
		if tag == last {
			return s.start()
		}
		last = tag
		a.veil(c, &j)
		view := a.view(ctx, &j)
		data, err := encode(&view)
		if err != nil {
			return err
		}
		return s.send("status", tag, data)
	})
	if err != nil {
		err = aboutJob(err, id)
	}
	return a.endStream(c, s, err)
}

// endStream sends the event bye to a client that is still there. An error before the first event gets an ordinary
// answer; a later error breaks the stream off, and the client reconnects.
func (a *api) endStream(c *gin.Context, s *stream, err error) error {
	if err != nil && !s.begun {
		return err
	}
	if left := c.Request.Context().Err(); left != nil {
		return left
	}
	if err != nil && !errors.Is(err, context.Canceled) { // Canceled: the server ended the stream itself
		return a.breakOff(c, "stream", err)
	}
	s.close() // no ping after bye
	s.bye()
	return nil
}

type eventBody struct {
	JobID   job.ID     `json:"jobId"`
	Tier    job.Tier   `json:"tier"`
	Status  job.Status `json:"status"`
	Attempt int        `json:"attempt"`
	Cause   *job.Cause `json:"cause"`
	At      string     `json:"at"`
}

// allEvents serves GET /api/events: every change of every job, for operators. The event resync reports that events were
// lost.
func (a *api) allEvents(c *gin.Context) error {
	if err := noQuery(c); err != nil {
		return err
	}
	leave, err := a.enterStream()
	if err != nil {
		return err
	}
	defer leave()
	s, ctx := a.openStream(c)
	defer s.close()
	subscription := a.Events.Stream(lastEvent(c.Request.Header))
	defer subscription.Close()
	err = s.start()
	if err == nil {
		err = tellAll(ctx, s, subscription)
	}
	return a.endStream(c, s, err)
}

// tellAll sends the subscription's messages until there are no more, or ctx ends.
func tellAll(ctx context.Context, s *stream, subscription Subscription) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case m, open := <-subscription.C():
			if !open || m.Bye {
				return nil
			}
			if err := tell(s, &m); err != nil {
				return err
			}
		}
	}
}

func tell(s *stream, m *job.Message) error {
	if m.Resync {
		return s.send("resync", m.ID, []byte("{}"))
	}
	e := &m.Event
	data, err := encode(&eventBody{e.ID, e.Tier, e.Status.Shown(), e.Attempt, orNull(e.Cause), stamp(e.At)})
	if err != nil {
		return err
	}
	return s.send("job", m.ID, data)
}
