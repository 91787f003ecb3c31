package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

const (
	riverWorkers     = 1000
	riverConnections = 80 // 64 clients, and what its own loops need
	riverCooldown    = time.Millisecond
	riverPoll        = 20 * time.Millisecond // what River's own benchmark uses; notifications come before it
	riverBatch       = 1000
	riverLanes       = 4
)

// riverPeer drives github.com/riverqueue/river on a PostgreSQL of its own.
type riverPeer struct {
	folders []string // where PostgreSQL may be
	dirty   bool     // there may be jobs
	pg      *postgres
	pool    *pgxpool.Pool
	client  *river.Client[pgx.Tx] // only inserts
}

func newRiver() contender { return &riverPeer{folders: postgresFolders()} }

// riverArgs are payloadSize bytes of JSON. River stores them as jsonb, which drops the spaces of payload().
type riverArgs struct {
	N   int    `json:"n"`
	Pad string `json:"pad"`
}

func (riverArgs) Kind() string { return "nothing" }

func argsOf(n int) riverArgs {
	return riverArgs{N: n, Pad: padding[:max(payloadSize-len(fmt.Sprintf(`{"n":%d,"pad":""}`, n)), 0)]}
}

var padding = strings.Repeat("x", payloadSize)

func (r *riverPeer) name() string { return "River" }

func (r *riverPeer) open(ctx context.Context, _ *lab) (string, error) {
	var err error
	if r.pg, err = startPostgres(ctx, r.folders); err != nil {
		return "", err
	}
	config, err := pgxpool.ParseConfig(r.pg.url("postgres"))
	if err != nil {
		return "", fmt.Errorf("PostgreSQL: %w", err)
	}
	config.MaxConns = riverConnections
	if r.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return "", fmt.Errorf("PostgreSQL: %w", err)
	}
	migrator, err := rivermigrate.New(riverpgxv5.New(r.pool), &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return "", fmt.Errorf("migrate: %w", err)
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return "", fmt.Errorf("migrate: %w", err)
	}
	if r.client, err = river.NewClient(riverpgxv5.New(r.pool),
		&river.Config{Logger: slog.New(slog.DiscardHandler)}); err != nil {
		return "", err
	}
	return r.about(ctx)
}

func (r *riverPeer) about(ctx context.Context) (string, error) {
	var version, fsync, commit, buffers, wal string
	for name, value := range map[string]*string{"server_version": &version, "fsync": &fsync, "synchronous_commit": &commit,
		"shared_buffers": &buffers, "max_wal_size": &wal} {
		if err := r.pool.QueryRow(ctx, "SHOW "+name).Scan(value); err != nil {
			return "", fmt.Errorf("show %s: %w", name, err)
		}
	}
	return fmt.Sprintf("github.com/riverqueue/river %s on PostgreSQL %s, fsync %s, synchronous_commit %s, "+
		"shared_buffers %s, max_wal_size %s; InsertMany %d x %d; %d workers, FetchCooldown %v, "+
		"FetchPollInterval %v, pool of %d", moduleVersion("github.com/riverqueue/river"), version, fsync, commit, buffers,
		wal, riverLanes, riverBatch, riverWorkers, riverCooldown,
		riverPoll, riverConnections), nil
}

func (r *riverPeer) close() error {
	if r.pool != nil {
		r.pool.Close()
		r.pool = nil
	}
	if r.pg == nil {
		return nil
	}
	err := r.pg.stop()
	r.pg = nil
	return err
}

// reset also writes the checkpoint that would otherwise come in the middle of a measure.
func (r *riverPeer) reset(ctx context.Context) error {
	if !r.dirty {
		return nil
	}
	for _, statement := range []string{"TRUNCATE river_job RESTART IDENTITY", "CHECKPOINT"} {
		if _, err := r.pool.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	r.dirty = false
	return nil
}

func (r *riverPeer) enqueue(ctx context.Context, clients, n int) (time.Duration, error) {
	if err := r.connect(ctx, clients); err != nil {
		return 0, err
	}
	r.dirty = true
	took, err := together(ctx, clients, n, func(int) error {
		_, err := r.client.Insert(ctx, argsOf(0), nil)
		return err
	})
	return took, errors.Join(err, r.expect(ctx, "available", n))
}

// connect opens so many connections of the pool; they stay in it.
func (r *riverPeer) connect(ctx context.Context, n int) error {
	for range n {
		c, err := r.pool.Acquire(ctx)
		if err != nil {
			return fmt.Errorf("PostgreSQL: %w", err)
		}
		defer c.Release()
	}
	return nil
}

// expect fails unless the table holds n jobs, all in this state.
func (r *riverPeer) expect(ctx context.Context, state string, n int) error {
	var of, all int
	if err := r.pool.QueryRow(ctx, "SELECT count(*) FILTER (WHERE state = $1::river_job_state), count(*) FROM river_job",
		state).Scan(&of, &all); err != nil {
		return fmt.Errorf("count the jobs: %w", err)
	}
	if of != n || all != n {
		return fmt.Errorf("%d of %d jobs are %s, not %d", of, all, state, n)
	}
	return nil
}

func (r *riverPeer) bulk(ctx context.Context, n int) (time.Duration, error) {
	return r.batches(ctx, n, func(jobs []river.InsertManyParams) error {
		_, err := r.client.InsertMany(ctx, jobs)
		return err
	})
}

// fast is bulk by COPY.
func (r *riverPeer) fast(ctx context.Context, n int) (time.Duration, error) {
	return r.batches(ctx, n, func(jobs []river.InsertManyParams) error {
		_, err := r.client.InsertManyFast(ctx, jobs)
		return err
	})
}

func (r *riverPeer) batches(ctx context.Context, n int, insert func([]river.InsertManyParams) error) (time.Duration,
	error) {
	if err := r.connect(ctx, riverLanes); err != nil {
		return 0, err
	}
	r.dirty = true
	var sent atomic.Int64
	took, err := together(ctx, riverLanes, (n+riverBatch-1)/riverBatch, func(int) error {
		last := int(sent.Add(riverBatch))
		jobs := make([]river.InsertManyParams, riverBatch-max(last-n, 0))
		for i := range jobs {
			jobs[i].Args = argsOf(last - riverBatch + i)
		}
		return insert(jobs)
	})
	return took, errors.Join(err, r.expect(ctx, "available", n))
}

// riverWorker hands each job to a function.
type riverWorker struct {
	river.WorkerDefaults[riverArgs]
	run func(riverArgs)
}

func (w *riverWorker) Work(_ context.Context, j *river.Job[riverArgs]) error {
	w.run(j.Args)
	return nil
}

// worker is a client that also works; the caller starts and stops it.
func (r *riverPeer) worker(run func(riverArgs)) (*river.Client[pgx.Tx], error) {
	workers := river.NewWorkers()
	river.AddWorker(workers, &riverWorker{run: run})
	return river.NewClient(riverpgxv5.New(r.pool), &river.Config{
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: riverWorkers}}, Workers: workers,
		FetchCooldown: riverCooldown, FetchPollInterval: riverPoll, Logger: slog.New(slog.DiscardHandler),
	})
}

func (r *riverPeer) drain(ctx context.Context, n int) (d drained, err error) {
	if _, err := r.fast(ctx, n); err != nil {
		return d, err
	}
	// What its autovacuum would have done by the time a queue of this length has come together in life.
	if _, err := r.pool.Exec(ctx, "VACUUM ANALYZE river_job"); err != nil {
		return d, fmt.Errorf("analyze: %w", err)
	}
	var runs atomic.Int64
	client, err := r.worker(func(riverArgs) { runs.Add(1) })
	if err != nil {
		return d, err
	}
	// An event says that the job's end is in the table. One that finds the channel full is dropped, so there is room for
	// all.
	ended, unsubscribe := client.SubscribeConfig(&river.SubscribeConfig{ChanSize: 2 * n,
		Kinds: []river.EventKind{river.EventKindJobCompleted, river.EventKindJobFailed}})
	defer unsubscribe()
	began := time.Now()
	if err := client.Start(ctx); err != nil {
		return d, fmt.Errorf("start the workers: %w", err)
	}
	err = awaitEnds(ctx, ended, n)
	d.took = time.Since(began)
	err = errors.Join(err, client.Stop(ctx), r.expect(ctx, "completed", n))
	if got := int(runs.Load()); err == nil && got != n {
		err = fmt.Errorf("%d runs of %d jobs", got, n)
	}
	return d, err
}

func awaitEnds(ctx context.Context, ended <-chan *river.Event, n int) error {
	timeout := time.After(patience)
	for i := range n {
		select {
		case e := <-ended:
			if e.Kind != river.EventKindJobCompleted {
				return fmt.Errorf("job %d: %s", e.Job.ID, e.Kind)
			}
		case <-timeout:
			return fmt.Errorf("%d of %d jobs ended", i, n)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (r *riverPeer) pickup(ctx context.Context, rate, n int) (waits []time.Duration, err error) {
	r.dirty = true
	starts := make(chan start, 2*(n+warmSubmits))
	client, err := r.worker(func(args riverArgs) { starts <- start{args.N, time.Now()} })
	if err != nil {
		return nil, err
	}
	if err := client.Start(ctx); err != nil {
		return nil, fmt.Errorf("start the workers: %w", err)
	}
	defer func() { err = errors.Join(err, client.Stop(ctx)) }()
	return pickups(ctx, rate, n, starts, func(i int) (time.Time, error) {
		_, err := client.Insert(ctx, argsOf(i), nil)
		return time.Now(), err
	})
}

// queuedBytes: its jobs are on the disk.
func (r *riverPeer) queuedBytes(context.Context, int) (float64, error) { return 0, errNone }
