package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
)

const (
	bareLoops = 4   // claim, run, complete
	bareRows  = 500 // a transaction
)

// bare is tierq's protocol with nothing around it: the same scripts and the same rows, driven by a few loops. No
// heartbeats, no watches, no plans that may change, no deadlines, no metrics. It is what tierq could reach if all that
// cost nothing.
type bare struct {
	l        *lab
	database string
	clients  queue.Clients
	q        *queue.Queue
	numbers  atomic.Int64
}

func newBare() contender { return &bare{} }

func (b *bare) name() string { return "bare protocol" }

func (b *bare) open(_ context.Context, l *lab) (string, error) {
	b.l = l
	return fmt.Sprintf("tierq's scripts and SQL rows without a server, in this process: single submits through "+
		"net/http and a bare group commit (what waits goes in one "+
		"call); bulk by the submit script, 100 a call; drained by %d loops of claim 100, run, complete, and one of %d "+
		"rows a transaction, acknowledge; retention 24h",
		bareLoops, bareRows), nil
}

func (b *bare) close() error {
	if b.q == nil {
		return nil
	}
	b.q = nil
	return b.clients.Close()
}

func (b *bare) reset(ctx context.Context) (err error) {
	if err := b.close(); err != nil {
		return err
	}
	if err := b.l.empty(ctx); err != nil {
		return err
	}
	if b.clients, err = queue.Connect(b.l.redis.URL()); err != nil {
		return err
	}
	b.numbers.Store(0)
	b.q, err = withPlans(ctx, b.clients, queueOptions())
	return err
}

func (b *bare) enqueue(ctx context.Context, clients, n int) (time.Duration, error) {
	c := commits{q: b.q, waiting: make(chan *commit, 1024)}
	running, stop := context.WithCancel(ctx)
	var group sync.WaitGroup
	group.Go(func() { c.run(running) })
	defer group.Wait()
	defer stop()
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("listen: %w", err)
	}
	s := &http.Server{Handler: &c, ReadHeaderTimeout: time.Minute}
	group.Go(func() { _ = s.Serve(l) }) // Close ends it
	defer s.Close()
	took, err := b.l.sendOver(ctx, l.Addr().String(), clients, n)
	if err != nil {
		return 0, err
	}
	queued, err := b.l.counter(ctx, "fresh")
	if err == nil && queued != n+warmUp {
		err = fmt.Errorf("%d jobs are queued after %d submits", queued, n+warmUp)
	}
	return took, err
}

func (b *bare) bulk(ctx context.Context, n int) (time.Duration, error) {
	began := time.Now()
	err := submitMany(ctx, b.q, n)
	return time.Since(began), err
}

func (b *bare) drain(ctx context.Context, n int) (d drained, err error) {
	if err := b.migrate(ctx); err != nil {
		return d, err
	}
	before, err := b.l.redisCPU(ctx)
	if err != nil {
		return d, err
	}
	if err := submitMany(ctx, b.q, n); err != nil {
		return d, err
	}
	w, err := b.rows(ctx)
	if err != nil {
		return d, err
	}
	defer w.close()
	ended := make(chan []job.Lease, 2*bareLoops)
	running, stop := context.WithCancel(ctx)
	defer stop()
	var loops sync.WaitGroup
	errs := make([]error, bareLoops+1)
	began := time.Now()
	for i := range bareLoops {
		loops.Go(func() {
			if errs[i] = b.work(running, i, ended); errs[i] != nil {
				stop()
			}
		})
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		if errs[bareLoops] = b.write(running, w, ended); errs[bareLoops] != nil {
			stop()
		}
	}()
	loops.Wait()
	close(ended)
	<-written
	d = drained{took: time.Since(began), setting: fmt.Sprint(bareLoops, " loops")}
	if err := errors.Join(errs...); err != nil {
		return d, err
	}
	after, err := b.l.redisCPU(ctx)
	if err != nil {
		return d, err
	}
	d.cpu = after - before
	acknowledged, err := b.l.counter(ctx, "acknowledged")
	if err != nil {
		return d, err
	}
	if runs := int(b.numbers.Load()); runs != n || acknowledged != n {
		return d, fmt.Errorf("%d runs and %d acknowledged of %d jobs", runs, acknowledged, n)
	}
	return d, b.l.allThere(ctx, b.database, n)
}

// migrate makes the archive's tables in a new database.
func (b *bare) migrate(ctx context.Context) (err error) {
	if b.database, _, err = b.l.renew(ctx, b.database); err != nil {
		return err
	}
	db, err := database.Open(database.Options{MySQLDSN: b.l.mariadb.DSN(b.database)})
	if err != nil {
		return err
	}
	return errors.Join(db.Migrate(ctx), db.Close())
}

// work claims, runs and completes until nothing is left. Each loop is a process of its own to the scripts.
func (b *bare) work(ctx context.Context, loop int, ended chan<- []job.Lease) error {
	clients, err := queue.Connect(b.l.redis.URL())
	if err != nil {
		return err
	}
	defer clients.Close()
	o := queueOptions()
	o.Nonce = fmt.Sprint("bench-", loop)
	q, err := withPlans(ctx, clients, o)
	if err != nil {
		return err
	}
	for number := int64(1); ; number++ {
		reply, err := q.Claim(ctx, 0, job.ClaimRequest{Number: number, Max: job.MaxBatch, Bound: math.Inf(1)})
		if err != nil || len(reply.Leases) == 0 {
			return err
		}
		batch := make([]job.Completion, len(reply.Leases))
		for i := range reply.Leases {
			lease := &reply.Leases[i]
			b.numbers.Add(1) // the handler
			lease.Status, lease.Result = job.Completed, []byte(result)
			batch[i] = job.Completion{LeaseRef: lease.Ref(), Result: lease.Result}
		}
		replies, err := q.Complete(ctx, 0, batch)
		if err != nil {
			return err
		}
		for i, r := range replies {
			if r.Word != job.OK {
				return fmt.Errorf("complete answered %s", r.Word)
			}
			reply.Leases[i].EndedAt = r.At
		}
		select {
		case ended <- reply.Leases:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// write brings what ended to SQL, as much at a time as waits and a transaction takes, and acknowledges it while the
// next is written.
func (b *bare) write(ctx context.Context, w *rowWriter, ended <-chan []job.Lease) error {
	told := make(chan []job.Lease, 2)
	var telling error
	var group sync.WaitGroup
	group.Go(func() {
		for batch := range told {
			if telling == nil {
				telling = b.acknowledge(ctx, batch)
			}
		}
	})
	err := func() error {
		defer close(told)
		for {
			batch, more := <-ended
			if !more {
				return nil
			}
			for len(batch)+job.MaxBatch <= bareRows {
				next, waits := nextOf(ended)
				if !waits {
					break
				}
				batch = append(batch, next...)
			}
			if err := w.write(ctx, batch); err != nil {
				return err
			}
			told <- batch
		}
	}()
	group.Wait()
	return errors.Join(err, telling)
}

func nextOf(ended <-chan []job.Lease) ([]job.Lease, bool) {
	select {
	case next, more := <-ended:
		return next, more
	default:
		return nil, false
	}
}

func (b *bare) acknowledge(ctx context.Context, batch []job.Lease) error {
	for len(batch) > 0 {
		part := batch[:min(len(batch), job.MaxBatch)]
		batch = batch[len(part):]
		acks := make([]job.Ack, len(part))
		for i, l := range part {
			acks[i] = job.Ack{ID: l.ID, Generation: l.Generation, Attempt: l.Attempt, Status: job.Completed}
		}
		words, err := b.q.Acknowledge(ctx, 0, acks)
		if err != nil {
			return err
		}
		for _, word := range words {
			if word != job.OK {
				return fmt.Errorf("acknowledge answered %s", word)
			}
		}
	}
	return nil
}

// pickup: without a server nobody waits for work.
func (b *bare) pickup(context.Context, int, int) ([]time.Duration, error) { return nil, errNone }

// queuedBytes: they are tierq's.
func (b *bare) queuedBytes(context.Context, int) (float64, error) { return 0, errNone }
