package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

const jobType = "SIM"

var errHandler = errors.New("the seed wants this attempt to fail")

type payload struct {
	Of job.ID `json:"of"`
}

type result struct {
	Of      job.ID `json:"of"`
	Attempt int    `json:"attempt"`
}

// registry returns a registry with the one job type. What an attempt does depends on the seed, the job and the
// attempt only. The handler begins and returns through the gate, so that no two handlers do so at the same time.
func (w *World) registry(p *process) *handler.Registry {
	r := handler.NewRegistry()
	handler.Register(r, jobType, func(ctx context.Context, in payload) (result, error) {
		run, _ := handler.Running(ctx)
		h := &attempt{world: w, process: p, run: run}
		if err := h.pass("begin", func() error { return w.shadow.begins(ctx, p, &run, in.Of) }); err != nil {
			return result{}, err
		}
		err := h.act(ctx)
		if left := h.pass("return", func() error { w.shadow.returns(&run); return nil }); left != nil {
			err = left
		}
		return result{run.ID, run.Attempt}, err
	})
	return r
}

type attempt struct {
	world   *World
	process *process
	run     handler.Run
}

// pass takes one step through the gate. It does not use the job's context, because a handler that was told to stop
// still has to return.
func (h *attempt) pass(name string, do func() error) error {
	_, err := h.world.gate.pass(context.Background(), &call{
		proc: h.process, kind: inside, name: name, args: []string{string(h.run.ID), strconv.Itoa(h.run.Attempt)},
		do: func() (any, error) { return nil, do() },
	})
	return err
}

func (h *attempt) act(ctx context.Context) error {
	w, run := h.world, h.run
	sum := fnv.New64a()
	_, _ = fmt.Fprint(sum, run.ID, run.Attempt)
	r := rand.New(rand.NewPCG(w.seed, sum.Sum64()))
	what := r.IntN(100)
	maximum := h.maximum()
	switch {
	case run.Attempt > 8: // so that every job ends
	case w.poison(run.ID):
		h.wait(ctx, ticks(r, 0, 5))
		return h.pass("kill", func() error { w.crash(h.process, "poison"); return errDead })
	case w.ofUnknownType(run.ID) && run.Attempt <= 4:
		return job.ErrUnknownType
	case what < 10:
		h.wait(ctx, ticks(r, 0, 10))
		return errHandler
	case what < 19:
		h.wait(ctx, ticks(r, 0, 5))
		return handler.Permanent(errHandler)
	case what >= 85 && (w.Batches || w.Flows): // more dead letters, so that more jobs are requeued
		h.wait(ctx, ticks(r, 0, 5))
		return handler.Permanent(errHandler)
	case what < 25:
		h.wait(ctx, ticks(r, 0, 15))
		return handler.LaterBecause(ticks(r, 1, 12), fmt.Sprint("not before attempt ", run.Attempt+1))
	case what < 28:
		h.wait(ctx, ticks(r, 0, 5))
		return handler.RetryAfter(ticks(r, 0, 6), errHandler)
	case what < 30: // as if this process had no handler for the job's type
		return job.ErrUnknownType
	case what < 32: // too slow, but the handler obeys its context
		h.wait(ctx, maximum+ticks(r, 1, 20))
	case what < 35: // too slow, and the handler ignores its context
		h.wait(context.Background(), maximum+ticks(r, 1, 40))
	case what < 43: // longer than the tier's heartbeat timeout
		h.wait(ctx, (maximum * 3 / 4).Truncate(grid))
	case what < 51: // as long, and the handler ignores a lost lease and reports
		h.wait(context.Background(), (maximum * 3 / 4).Truncate(grid))
		return nil
	case what < 54: // the handler tells how far it is
		handler.Progress(ctx, int64(run.Attempt), 10, "a b")
		h.wait(ctx, ticks(r, 0, 10))
	case what < 57: // the handler saves a checkpoint
		text, _ := json.Marshal(run.Attempt)
		if err := handler.Checkpoint(ctx, text); err != nil && ctx.Err() == nil && !errors.Is(err, handler.ErrLeaseLost) {
			return err
		}
		h.wait(ctx, ticks(r, 0, 10))
	default:
		h.wait(ctx, ticks(r, 0, 15))
	}
	return context.Cause(ctx)
}

// maximum returns how long the attempt may still run. It counts from Redis' time of the claim: the process counts from
// when it sent the claim, and the pauses between the repeats of a claim are not decided by the seed.
func (h *attempt) maximum() time.Duration {
	plan, known := h.process.plans.Plan(h.run.Tier)
	if !known {
		plan = job.DefaultPlans()[0]
	}
	return plan.MaxProcessingTime - time.Since(h.run.StartedAt)
}

// poison says whether a job kills every process that runs it.
func (w *World) poison(id job.ID) bool {
	return !w.plan.calm && rand.New(rand.NewPCG(w.seed, uint64(id[7]))).IntN(40) == 0
}

// ofUnknownType says whether no process knows a job's type at first.
func (w *World) ofUnknownType(id job.ID) bool {
	return rand.New(rand.NewPCG(w.seed, 1000+uint64(id[7]))).IntN(30) == 0
}

// wait waits for d. It returns early if ctx ends or the process dies.
func (h *attempt) wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	case <-h.process.died:
	}
}
