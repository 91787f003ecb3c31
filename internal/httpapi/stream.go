package httpapi

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

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

// eventsQuery says which events of a job are asked for.
type eventsQuery struct {
	logs  bool
	after int64
}

var eventsParams = params[eventsQuery]{
	"logs": func(q *eventsQuery, value string) (err error) {
		if q.logs = value == "true"; !q.logs && value != "false" {
			return reason("must be true or false")
		}
		return nil
	},
	"after": func(q *eventsQuery, value string) (err error) { q.after, err = seqAsked(value); return err },
}

// jobStream is what a client has got of a job's stream so far.
type jobStream struct {
	eventsQuery
	*stream
	api      *api
	tag      string    // of the last status
	told     time.Time // the time of the last progress
	progress time.Time // when it was sent
}

// id returns the id of an event: the tag, and with logs behind '~' the place of the last line.
func (s *jobStream) id() string {
	if !s.logs {
		return s.tag
	}
	return s.tag + "~" + strconv.FormatInt(s.after, 10)
}

// resume takes the id of the last event that a client got.
func (s *jobStream) resume(last string) {
	tag, seq, both := strings.Cut(last, "~")
	if s.tag = tag; both && s.logs {
		if after, err := seqAsked(seq); err == nil {
			s.after = max(s.after, after)
		}
	}
}

// jobEvents serves GET /api/jobs/{id}/events: the job as a poll shows it, now and at each change, until it has ended.
// The ids of the events are the poll's tags without W/ and quotes. A running job's progress comes at most twice a
// second, and with logs=true the lines of the job's log.
func (a *api) jobEvents(c *gin.Context) error {
	id, err := pathID(c)
	if err != nil {
		return err
	}
	var q eventsQuery
	if err := eventsParams.read(c.Request.URL.RawQuery, &q); err != nil {
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
	of := &jobStream{eventsQuery: q, stream: s, api: a}
	of.resume(lastEvent(c.Request.Header))
	err = a.Wait.Follow(ctx, id, func(j job.Job) error {
		hide := slices.Contains(a.veilFor(c, j.Type), everything)
		a.veil(c, &j)
		if j.Status.Ended() { // the end is the last event
			return cmp.Or(of.lines(ctx, &j, hide), of.status(ctx, &j))
		}
		return cmp.Or(of.status(ctx, &j), of.lines(ctx, &j, hide), of.tell(&j))
	})
	if err != nil {
		err = aboutJob(err, id)
	}
	return a.endStream(c, s, err)
}

// status sends the job, if it has moved since the last time.
func (s *jobStream) status(ctx context.Context, j *job.Job) error {
	tag := strings.Trim(strings.TrimPrefix(etag(j), "W/"), `"`)
	if tag == s.tag {
		return s.start()
	}
	s.tag = tag
	if j.Progress != nil {
		s.told, s.progress = j.Progress.At, time.Now()
	}
	view := s.api.view(ctx, j)
	data, err := encode(&view)
	if err != nil {
		return err
	}
	return s.send("status", s.id(), data)
}

// progressEvery is the least time between two events about a job's progress.
const progressEvery = 500 * time.Millisecond

// tell sends how far the job is, if the client does not have that.
func (s *jobStream) tell(j *job.Job) error {
	if j.Progress == nil || j.Progress.At.Equal(s.told) || time.Since(s.progress) < progressEvery {
		return nil
	}
	s.told, s.progress = j.Progress.At, time.Now()
	data, err := encode(progressOf(j.Progress))
	if err != nil {
		return err
	}
	return s.send("progress", "", data)
}

// lines sends the lines of the job's log that the client does not have.
func (s *jobStream) lines(ctx context.Context, j *job.Job, hide bool) error {
	if !s.logs || j.LogBytes == 0 && !j.Status.Ended() {
		return nil
	}
	lines, err := s.api.Jobs.Logs(ctx, j.ID, s.after)
	if err != nil {
		return err
	}
	for i := range lines {
		line := veilLine(logLineOf(&lines[i]), hide)
		data, err := encode(&line)
		if err != nil {
			return err
		}
		s.after = line.Seq
		if err := s.send("log", s.id(), data); err != nil {
			return err
		}
	}
	return nil
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
