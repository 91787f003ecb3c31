package worker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// claimer makes one claim after the other. A worker has two: while the server answers a claim of one, the jobs of the
// other run. The second one claims only while there are more jobs than places, so an idle worker has one claim waiting.
type claimer struct {
	w      *Worker
	second bool
	taken  bool          // the server has taken a claim
	number int           // of its last claim
	freed  chan struct{} // holds one when a place may have become free

	hungry bool // of the worker's mutex: it claims as soon as a place is free, and takes reports along
}

// claims asks for jobs until ctx ends or an operator ends the worker. Calls after that have the context calls, and
// handlers the context handlers. The error is the server's refusal of the first claim.
func (w *Worker) claims(ctx, calls, handlers context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-w.term:
			cancel()
		case <-ctx.Done():
		}
	}()
	start := fmt.Sprintf("%08x", rand.Uint32()) // claims of another process with this name have other ids
	var second sync.WaitGroup
	second.Go(func() { _ = w.claimers[1].run(ctx, calls, handlers, start+"-b") }) // only a first claim has an error
	err := w.claimers[0].run(ctx, calls, handlers, start)
	cancel()
	second.Wait()
	return err
}

// run makes claims whose ids begin with start.
func (c *claimer) run(ctx, calls, handlers context.Context, start string) error {
	for {
		places := c.awaitPlaces(ctx)
		if places == 0 {
			return nil
		}
		rested, err := c.claim(ctx, calls, handlers, start, places)
		if err != nil {
			return err
		}
		rest(ctx, rested)
	}
}

// claim makes a claim for some places, and starts the handlers of the jobs that it got. It returns how long the server
// wants no further claim.
func (c *claimer) claim(ctx, calls, handlers context.Context, start string, places int) (time.Duration, error) {
	w := c.w
	c.number++
	body := claimBody{
		Worker: w.name, Queues: w.queues, Tiers: w.tiers, Max: places, Lease: int64(w.lease / time.Second),
		ID: fmt.Sprintf("%s-%d", start, c.number), Info: w.info(),
	}
	if !c.second {
		body.Wait = int64(claimWait / time.Second)
	}
	answer, sent, err := w.claim(ctx, calls, &body, c)
	if answer == nil {
		answer = &claimAnswer{}
	} else {
		c.taken = true
		w.heard(answer.State)
	}
	if answer.State == "quiet" && answer.RetryAfterMs == 0 {
		answer.RetryAfterMs = 1000
	}
	if c.second {
		answer.RetryAfterMs = 0 // the first claimer waits; this one claims again once there are too many jobs
	}
	w.mu.Lock()
	w.asked -= places
	w.free -= len(answer.Jobs)
	w.busy = len(answer.Jobs) == places
	c.hungry = answer.RetryAfterMs == 0 && !w.terminated() && (!c.second || w.busy)
	w.mu.Unlock()
	for i := range answer.Jobs {
		w.start(handlers, &answer.Jobs[i], sent)
	}
	signal(w.beatIt)
	w.wakeClaimers()
	return ms(min(answer.RetryAfterMs, 60_000)), err
}

// awaitPlaces waits for free places, and returns how many the claim may fill; 0 if ctx has ended. While there are more
// jobs than places a claim asks for half of them at most, so that both claimers have work.
func (c *claimer) awaitPlaces(ctx context.Context) int {
	w := c.w
	for {
		w.mu.Lock()
		most := mostClaim
		if w.busy {
			most = min(most, (w.places+1)/2)
		}
		ends := ctx.Err() != nil || w.terminated()
		places := 0
		if c.hungry = !ends && (!c.second || w.busy); c.hungry {
			places = min(w.free-w.asked, most)
			w.asked += places
		}
		w.mu.Unlock()
		switch {
		case ends:
			signal(w.toSend)
			return 0
		case places > 0:
			return places
		case !c.hungry:
			signal(w.toSend)
		}
		select {
		case <-c.freed:
		case <-ctx.Done():
		}
	}
}

// wakeClaimers tells the claimers that places may have become free.
func (w *Worker) wakeClaimers() {
	for _, c := range w.claimers {
		signal(c.freed)
	}
}

// hungry says whether a claimer takes the reports along that come now. w.mu is held.
func (w *Worker) hungry() bool { return w.claimers[0].hungry || w.claimers[1].hungry }

// heard takes what the server asks of the worker.
func (w *Worker) heard(state string) {
	if state == "terminate" {
		w.told.Do(func() { close(w.term) })
	}
}

func (w *Worker) terminated() bool {
	select {
	case <-w.term:
		return true
	default:
		return false
	}
}
