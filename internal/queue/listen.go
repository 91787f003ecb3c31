package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/tierq/tierq/internal/job"
)

const (
	listenPatience = 3 * time.Second // without a word, the server is asked whether it is there
	listenBound    = 2 * time.Second // for its answer
	listenRenew    = 2 * time.Second // how often the scripts are told that somebody listens
	listenKnown    = 15 * time.Second
	listenPipe     = 32 // commands
)

// Listen hears every event of every partition over one connection, until ctx ends or the connection fails, whose error it returns. up is called
// when the subscription stands and the scripts know of it: what happens from then on is heard. Events of one script call come together and in
// order. A listener that does not return in time makes the server drop it.
//
// While nobody listens the scripts tell nothing. A key, which the listeners renew, says that somebody does.
func (q *Queue) Listen(ctx context.Context, heard func([]job.Event), up func()) error {
	channels := make([]string, q.opts.Partitions)
	for p := range channels {
		channels[p] = prefix(p) + q.events
	}
	s := q.redis.Read.Subscribe(ctx, channels...)
	defer func() { _ = s.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = s.Close() }) // a blocking read does not look at ctx
	defer stop()
	standing, asked, renewed := 0, false, time.Time{}
	for {
		if standing == len(channels) && time.Since(renewed) > listenRenew {
			if err := q.listening(ctx, channels); err != nil {
				return err
			}
			if renewed.IsZero() {
				up()
			}
			renewed = time.Now()
		}
		wait := listenPatience
		if asked {
			wait = listenBound
		}
		m, err := s.ReceiveTimeout(ctx, wait)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case isTimeout(err) && !asked && standing == len(channels):
			if err := s.Ping(ctx); err != nil {
				return classify("listen", err)
			}
			asked = true
			continue
		case err != nil:
			return classify("listen", err)
		}
		asked = false
		switch m := m.(type) {
		case *redis.Subscription:
			standing++
		case *redis.Message:
			events, err := readEvents(m.Payload)
			if err != nil {
				q.opts.Log.Error("an event cannot be read", "err", err)
			}
			if len(events) > 0 {
				heard(events)
			}
		}
	}
}

// listening tells the scripts of every partition that somebody listens.
func (q *Queue) listening(ctx context.Context, keys []string) error {
	ctx, cancel := context.WithTimeout(ctx, listenBound)
	defer cancel()
	for part := range slices.Chunk(keys, listenPipe) {
		_, err := q.redis.Read.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, key := range part {
				p.Set(ctx, key, q.opts.Nonce, listenKnown)
			}
			return nil
		})
		if err != nil {
			return classify("listen", err)
		}
	}
	return nil
}

func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout) && timeout.Timeout()
}

// readEvents reads a call's message: the time in ms, then a line "id tier status attempt cause" per job.
func readEvents(message string) ([]job.Event, error) {
	stamp, rest, _ := strings.Cut(message, "\n")
	at := msTime(stamp)
	events := make([]job.Event, 0, strings.Count(rest, "\n")+1)
	for line := range strings.SplitSeq(rest, "\n") {
		f := strings.Split(line, " ")
		if len(f) != 5 || at.IsZero() {
			return events, fmt.Errorf("event of %d parts: %q", len(f), line)
		}
		events = append(events, job.Event{
			ID: job.ID(f[0]), Tier: job.Tier(f[1]), Status: job.Status(f[2]), Attempt: number(f[3]), Cause: job.Cause(undash(f[4])), At: at,
		})
	}
	return events, nil
}
