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
	listenPatience = 3 * time.Second // after this silence the listener pings the server
	listenBound    = 2 * time.Second // the time limit of the ping and of a renewal
	listenRenew    = 2 * time.Second // how often a listener renews the key that makes scripts publish
	listenKnown    = 15 * time.Second
	listenPipe     = 32 // commands per pipeline
)

// Listen receives every event of every partition over one connection, until ctx ends or the connection fails, and
// returns that error. It calls heard with the events of one script call together and in order. It calls up once
// the subscription stands and the scripts know of it: every later event is received. If heard is slow to return,
// the server drops the subscriber.
//
// Scripts publish nothing while no process listens. A key, which the listeners renew, says that a process listens.
// In a cluster each partition's key is on that partition's server. A server that is away silences only its own
// partitions; Listen calls up again when they are back.
func (q *Queue) Listen(ctx context.Context, heard func([]job.Event), up func()) error {
	return q.listen(ctx, q.channels[eventsChannel], heard, up)
}

// ListenAlarms is Listen for the few events that operators hear of: jobs that died and jobs that were reclaimed.
// It does not make the scripts publish other events.
func (q *Queue) ListenAlarms(ctx context.Context, heard func([]job.Event), up func()) error {
	return q.listen(ctx, q.channels[alarmsChannel], heard, up)
}

func (q *Queue) listen(ctx context.Context, channel string, heard func([]job.Event), up func()) error {
	channels := make([]string, q.opts.Partitions)
	// In a cluster the client subscribes to the server of the first channel, whichever partitions that server has:
	// each server of a cluster forwards all channels. The first channel is random because its server may be away for
	// long.
	for p, first := 0, rand.IntN(len(channels)); p < len(channels); p++ {
		channels[p] = prefix((first+p)%len(channels)) + channel
	}
	s := q.redis.Read.Subscribe(ctx, channels...)
	defer func() { _ = s.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = s.Close() }) // a blocking read ignores ctx
	defer stop()
	standing, asked, renewed := 0, false, time.Time{}
	var known map[string]bool // the keys that the last renewal could set
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

// unheard is classify for a subscription. go-redis makes its connection without our hooks, so unheard reloads the
// cluster's slot map, which may be old.
func (q *Queue) unheard(what string, err error) error {
	if cluster, ok := q.redis.Read.(*redis.ClusterClient); ok {
		cluster.ReloadState(context.Background())
	}
	return classify(what, err)
}

// listening sets the key that makes the scripts of every partition publish, and returns the keys that it could
// set. It returns an error if it could set none.
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

// readEvents reads the message of one script call: the time in ms, then a line "id tier status attempt cause" per
// job.
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
			ID: job.ID(f[0]), Tier: job.Tier(f[1]), Status: job.Status(f[2]).Shown(), Attempt: number(f[3]),
			Cause: job.Cause(undash(f[4])), At: at,
		})
	}
	return events, nil
}

// fields splits an event's line. whole is false if the line has too few or too many parts. It avoids allocations
// because there may be tens of thousands of events a second.
func fields(line string) (f [5]string, whole bool) {
	for i := range f {
		var more bool
		if f[i], line, more = strings.Cut(line, " "); more != (i < len(f)-1) {
			return f, false
		}
	}
	return f, true
}
