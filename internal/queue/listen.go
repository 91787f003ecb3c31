package queue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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

// Listen hears every event of every partition over one connection, until ctx ends or the connection fails, whose error
// it returns. up is called when the subscription stands and the scripts know of it: what happens from then on is heard.
// Events of one script call come together and in order. A listener that does not return in time makes the server drop
// it.
//
// While nobody listens the scripts tell nothing. A key, which the listeners renew, says that somebody does. In a
// cluster each partition's is on its own server, and one server that is away silences its own partitions only: up is
// called again when they are back.
func (q *Queue) Listen(ctx context.Context, heard func([]job.Event), up func()) error {
	return q.listen(ctx, q.channels[eventsChannel], heard, up)
}

// ListenAlarms is Listen for the few that operators hear of: jobs that died, and jobs that were taken back. Listening
// to these makes no script tell the others.
func (q *Queue) ListenAlarms(ctx context.Context, heard func([]job.Event), up func()) error {
	return q.listen(ctx, q.channels[alarmsChannel], heard, up)
}

func (q *Queue) listen(ctx context.Context, channel string, heard func([]job.Event), up func()) error {
	channels := make([]string, q.opts.Partitions)
	// The cluster's server of the first channel is the one that is listened to, whatever it has: every server tells all of
	// them. Another time another one: this one may be away for long.
	for p, first := 0, rand.IntN(len(channels)); p < len(channels); p++ {
		channels[p] = prefix((first+p)%len(channels)) + channel
	}
	s := q.redis.Read.Subscribe(ctx, channels...)
	defer func() { _ = s.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = s.Close() }) // a blocking read does not look at ctx
	defer stop()
	standing, asked, renewed := 0, false, time.Time{}
	var known map[string]bool // the keys that were there after the last renewal
	for {
		if standing == len(channels) && time.Since(renewed) > listenRenew {
			now, err := q.listening(ctx, channels)
			if err != nil {
				return err
			}
			if len(now) < len(channels) && (known == nil || len(known) == len(channels)) {
				q.opts.Log.Warn("some partitions' events are not told: their server is away", "partitions", len(channels)-len(now))
			}
			for key := range now {
				if !known[key] {
					up()
					break
				}
			}
			known, renewed = now, time.Now()
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
				return q.unheard("listen", err)
			}
			asked = true
			continue
		case err != nil:
			return q.unheard("listen", err)
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

// unheard is classify for a connection that go-redis makes past everything that would notice: the cluster's map may be
// old.
func (q *Queue) unheard(what string, err error) error {
	if cluster, ok := q.redis.Read.(*redis.ClusterClient); ok {
		cluster.ReloadState(context.Background())
	}
	return classify(what, err)
}

// listening tells the scripts of every partition that somebody listens, and says which of them know. It is an error
// that none does.
func (q *Queue) listening(ctx context.Context, keys []string) (known map[string]bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, listenBound)
	defer cancel()
	known = map[string]bool{}
	for part := range slices.Chunk(keys, listenPipe) {
		set := make([]*redis.StatusCmd, len(part))
		_, failed := q.redis.Read.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, key := range part {
				set[i] = p.Set(ctx, key, q.opts.Nonce, listenKnown)
			}
			return nil
		})
		if failed != nil {
			err = failed
		}
		for i, key := range part {
			if set[i].Err() == nil {
				known[key] = true
			}
		}
	}
	if err != nil && len(known) == 0 {
		return nil, classify("listen", err)
	}
	return known, nil
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
		f, whole := fields(line)
		if !whole || at.IsZero() {
			return events, fmt.Errorf("event of %d parts: %q", strings.Count(line, " ")+1, line)
		}
		events = append(events, job.Event{
			ID: job.ID(f[0]), Tier: job.Tier(f[1]), Status: job.Status(f[2]), Attempt: number(f[3]),
			Cause: job.Cause(undash(f[4])), At: at,
		})
	}
	return events, nil
}

// fields are the parts of an event's line; whole says that it has as many as it should. There may be tens of thousands
// a second.
func fields(line string) (f [5]string, whole bool) {
	for i := range f {
		var more bool
		if f[i], line, more = strings.Cut(line, " "); more != (i < len(f)-1) {
			return f, false
		}
	}
	return f, true
}
