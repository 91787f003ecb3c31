package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
)

const (
	outsideQueue = "outside"
	outsideSlots = 100 // of a worker, and of the pool beside it
)

// outsideBench measures workers of other programs, which claim and report over HTTP, beside the pool: drains, ends
// alone, claims that wait, and how soon a job is picked up.
func outsideBench(ctx context.Context, l *lab) (figures []figure, err error) {
	n := l.scaled(200000, 500)
	database, env, err := l.fresh(ctx)
	if err != nil {
		return nil, err
	}
	pool, err := l.drainOnce(ctx, database, env, n, outsideSlots, "24h")
	if err != nil {
		return nil, fmt.Errorf("the pool: %w", err)
	}
	figures = append(figures, figure{"the pool: drained", "jobs/s", perSecond(pool.jobs, pool.took)})
	for _, w := range []struct {
		name string
		n    int
		make func(ctx context.Context, l *lab) ([]string, error)
	}{{"a Go worker", n, goWorker}, {"a Node worker", l.scaled(50000, 500), nodeWorker}} {
		command, err := w.make(ctx, l)
		if err != nil {
			return nil, err
		}
		more, err := l.drainOutside(ctx, command, w.n)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", w.name, err)
		}
		for _, f := range more {
			figures = append(figures, figure{w.name + ": " + f.name, f.unit, f.value})
		}
	}
	for _, measure := range []func(context.Context, string, *server) ([]figure, error){
		l.ends, l.held, l.beaten, l.pickupOutside,
	} {
		more, err := l.beside(ctx, measure)
		if err != nil {
			return nil, err
		}
		figures = append(figures, more...)
	}
	return figures, nil
}

// goWorker builds the worker of folder outside.
func goWorker(ctx context.Context, l *lab) ([]string, error) {
	bin := filepath.Join(l.dir, "outside")
	if _, err := os.Stat(bin); err == nil {
		return []string{bin}, nil
	}
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", bin, "./outside").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the worker: %w\n%s", err, out)
	}
	return []string{bin}, nil
}

func nodeWorker(context.Context, *lab) ([]string, error) {
	return []string{"node", filepath.Join("outside", "main.js")}, nil
}

// beside starts a server without a pool on empty stores, with the queue of the workers, for one measure.
func (l *lab) beside(ctx context.Context, measure func(context.Context, string, *server) ([]figure, error)) (
	figures []figure, err error,
) {
	database, env, err := l.fresh(ctx)
	if err != nil {
		return nil, err
	}
	s, err := l.launch(ctx, "outside", "api,recovery", env)
	if err != nil {
		return nil, err
	}
	defer func() {
		_, stopping := s.stop()
		err = errors.Join(err, stopping)
	}()
	if _, err := claimOver(ctx, s.addr, "first", 1); err != nil { // without keys a claim declares its queue
		return nil, err
	}
	return measure(ctx, database, s)
}

// drainOutside lets one worker drain n jobs that waited before it started.
func (l *lab) drainOutside(ctx context.Context, command []string, n int) ([]figure, error) {
	return l.beside(ctx, func(ctx context.Context, database string, s *server) ([]figure, error) {
		if err := l.enqueueOutside(ctx, n); err != nil {
			return nil, err
		}
		before, err := processCPU(s.pid)
		if err != nil {
			return nil, err
		}
		var output bytes.Buffer
		args := append(command[1:], "http://"+s.addr, outsideQueue, strconv.Itoa(outsideSlots))
		cmd := exec.CommandContext(context.WithoutCancel(ctx), command[0], args...)
		cmd.Stdout, cmd.Stderr = &output, &output
		if err := cmd.Start(); err != nil {
			return nil, fmt.Errorf("start a worker: %w", err)
		}
		took, jobs, watching := l.watchDrain(ctx, s, n)
		after, reading := processCPU(s.pid)
		_ = cmd.Process.Signal(syscall.SIGTERM) // if it has ended by itself, Wait says so
		if err := errors.Join(watching, reading, cmd.Wait()); err != nil {
			return nil, fmt.Errorf("%w\n%s", err, output.String())
		}
		used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		figures := []figure{
			{"drained", "jobs/s", perSecond(jobs, took)},
			{"cpu of the server", "us/job", micros(after-before, n)},
			{"cpu of the worker, start included", "us/job", micros(used, n)},
		}
		return figures, l.allThere(ctx, database, n)
	})
}

// enqueueOutside queues n jobs for the workers by the submit script, 100 a call.
func (l *lab) enqueueOutside(ctx context.Context, n int) (err error) {
	clients, err := queue.Connect(l.redis.URL())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, clients.Close()) }()
	o := queueOptions()
	o.Queues = &job.QueueBook{}
	o.Queues.Set([]job.Queue{{Name: outsideQueue, Limit: math.MaxInt32}})
	q, err := withPlans(ctx, clients, o)
	if err != nil {
		return err
	}
	for left := n; left > 0; left -= job.MaxBatch {
		batch := make([]job.Submission, min(left, job.MaxBatch))
		for i := range batch {
			batch[i] = submission("NOOP", []byte(pad(`{}`)))
			batch[i].Queue = outsideQueue
		}
		if err := submitAll(ctx, q, batch); err != nil {
			return err
		}
	}
	return nil
}
