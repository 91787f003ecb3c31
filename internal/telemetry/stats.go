package telemetry

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/loop"
)

// Store holds the counts of all processes, by time.
type Store interface {
	// AddStats adds to the counts of the present time.
	AddStats(ctx context.Context, fields map[string]int64) error
}

// Stats writes the counts of Metrics to the store once a second. The fields are "<TIER>:<event>" and, for
// durations, "<TIER>:wait:<bucket>" and "<TIER>:run:<bucket>".
type Stats struct {
	metrics *Metrics
	store   Store
	log     *slog.Logger

	flushing sync.Mutex
	pending  map[string]int64 // counts that are not yet in the store: at most one entry per field
	failing  bool

	loop *loop.Loop
}

const (
	flushEvery   = time.Second
	flushTimeout = 2 * time.Second
)

// NewStats makes a service that does nothing until Start.
func NewStats(m *Metrics, s Store, log *slog.Logger) *Stats {
	stats := &Stats{metrics: m, store: s, log: log, pending: map[string]int64{}}
	stats.loop = loop.New(stats.runOnce)
	return stats
}

// Start begins to flush, until Stop.
func (s *Stats) Start(ctx context.Context) error { return s.loop.Start(ctx) }

// Stop ends the loop and flushes once more. Counts that the store does not accept then are lost: they are only
// statistics.
func (s *Stats) Stop(ctx context.Context) error {
	running := s.loop.Running()
	if err := s.loop.Stop(ctx); err != nil || !running {
		return err
	}
	return s.flush(ctx)
}

// runOnce logs a failure once, when it begins.
func (s *Stats) runOnce(ctx context.Context) time.Duration {
	err := s.flush(ctx)
	if err != nil && !s.failing && ctx.Err() == nil {
		s.log.Warn("cannot flush the statistics; trying again in a second", "err", err)
	}
	s.failing = err != nil
	return flushEvery
}

// flush writes the counts to the store. After a write that was certainly not executed it keeps the counts for the
// next flush. After a lost answer it drops them: losing one second of counts is a bounded error, counting them
// again with each try is not.
func (s *Stats) flush(ctx context.Context) error {
	s.flushing.Lock()
	defer s.flushing.Unlock()
	s.metrics.collect(s.pending)
	if len(s.pending) == 0 {
		return nil
	}
	call, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	err := s.store.AddStats(call, s.pending)
	if err == nil || errors.Is(err, job.ErrAmbiguous) {
		s.pending = map[string]int64{}
	}
	return err
}

// collect adds to into what was counted since the last call.
func (m *Metrics) collect(into map[string]int64) {
	for tier, s := range *m.tiers.Load() {
		for e := range s.counts.events {
			if n := s.counts.events[e].Swap(0); n > 0 {
				into[string(tier)+":"+eventNames[e]] += n
			}
		}
		for b := range buckets {
			if n := s.counts.wait[b].Swap(0); n > 0 {
				into[string(tier)+":wait:"+strconv.Itoa(b)] += n
			}
			if n := s.counts.run[b].Swap(0); n > 0 {
				into[string(tier)+":run:"+strconv.Itoa(b)] += n
			}
		}
	}
}
