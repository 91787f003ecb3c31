package recovery

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/loop"
)

// callTimeout is the time limit of one call to Redis.
const callTimeout = 2 * time.Second

// Promoting does what is due in a partition. Each call returns how many jobs it found, at most job.MaxBatch.
type Promoting interface {
	// Expire ends jobs that nobody claimed by the time that their submit said.
	Expire(ctx context.Context, partition int) (int, error)
	// Promote makes scheduled jobs that are due ready.
	Promote(ctx context.Context, partition int) (int, error)
}

// promotePace is the pace of the promoter: a delayed job becomes ready, and a job whose time is over ends, at most a
// quarter of a second after it is due.
var promotePace = loop.Pace{Floor: 250 * time.Millisecond, Ceiling: 5 * time.Second}

// Promoter moves due jobs from scheduled to their places in the queue, and ends waiting jobs whose time is over.
type Promoter struct {
	*loop.Loop
	queue      Promoting
	partitions int
	woken      func() // called when jobs became ready
	log        *slog.Logger
	wait       time.Duration
}

// NewPromoter makes a promoter. It calls woken when jobs became ready, or may have: the end of a job may free the
// unique key for which another one waits.
func NewPromoter(q Promoting, partitions int, woken func(), log *slog.Logger) *Promoter {
	p := &Promoter{queue: q, partitions: partitions, woken: woken, log: log, wait: promotePace.Floor}
	p.Loop = loop.New(p.runOnce)
	return p
}

func (p *Promoter) runOnce(ctx context.Context) time.Duration {
	n, err := p.promote(ctx)
	if n > 0 {
		p.woken()
	}
	p.wait = promotePace.Next(p.wait, err != nil)
	if err != nil && ctx.Err() == nil {
		p.log.Warn("promoting or expiring due jobs failed", "err", err, "next_in", p.wait)
	}
	return p.wait
}

func (p *Promoter) promote(ctx context.Context) (total int, err error) {
	var problems []error
	for partition := range p.partitions {
		for _, due := range []func(context.Context, int) (int, error){p.queue.Expire, p.queue.Promote} {
			n, err := pages(ctx, partition, due)
			total += n
			if err != nil {
				problems = append(problems, err)
				break // the partition does not answer
			}
		}
	}
	return total, errors.Join(problems...)
}

// pages repeats a call until it finds fewer jobs than a call may find, and returns how many jobs it found.
func pages(ctx context.Context, partition int, due func(context.Context, int) (int, error)) (total int, err error) {
	for range maxPages {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		n, err := due(call, partition)
		cancel()
		total += n
		if err != nil || n < job.MaxBatch {
			return total, err
		}
	}
	return total, nil
}
