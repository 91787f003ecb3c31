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
	taken  bool // the server has taken a claim
	number int  // of its last claim
	empty  int  // answers in a row that came at once and had no job
	// unknown is since when claims are answered with nothing but UNKNOWN_QUEUE; zero = they are not
	unknown time.Time
	freed   chan struct{} // holds one when a place may have become free

	hungry bool // of the worker's mutex: it claims as soon as a place is free, and takes reports along
}

// claims asks for jobs until ctx ends or an operator ends the worker. Calls after that have the context calls, and
// handlers the context handlers. The error is the server's refusal of the first claim, or of the queue.
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
	asked := time.Now()
	answer, from, err := w.claim(ctx, calls, &body, c)
	if answer == nil {
		answer = &claimAnswer{}
	} else {
		c.taken = true
		w.heard(answer.State)
	}
	jobs := w.take(answer.Jobs, places)
	rests := c.rests(answer, len(jobs), time.Since(asked))
	w.mu.Lock()
	w.asked -= places
	w.free -= len(jobs)
	w.busy = len(jobs) == places
	c.hungry = rests == 0 && !w.terminated() && (!c.second || w.busy)
	w.mu.Unlock()
	for _, j := range jobs {
		w.start(handlers, j, from)
	}
	signal(w.beatIt)
	w.wakeClaimers()
	return rests, err
}

// rests returns how long a claimer makes no further claim after an answer. A server that has no job holds the claim: if
// it answers at once instead, and asks for no wait, the claimer waits by itself.
func (c *claimer) rests(answer *claimAnswer, jobs int, took time.Duration) time.Duration {
	if jobs > 0 || took > time.Second {
		c.empty = 0
	} else {
		c.empty++
	}
	asked := ms(int64(min(max(answer.RetryAfterMs, 0), 60_000)))
	switch {
	case c.second: // the first claimer waits; this one claims again once there are too many jobs
		return 0
	case answer.State == "quiet" && asked == 0:
		return time.Second
	case asked == 0 && c.empty > 0:
		return min(pause(c.empty, nil), time.Second)
	}
	return asked
}

// take returns the jobs of an answer that the worker runs: at most as many as it asked for, and each lease once. It
// leaves the others to the ends of their leases.
func (w *Worker) take(all []*claimed, places int) (jobs []*claimed) {
	for i, j := range all {
		if j == nil {
			w.log.Warn("a job of the answer to a claim cannot be read; it waits for the end of its lease", "number", i+1)
			continue
		}
		w.mu.Lock()
		ok := len(jobs) < places && w.leases.first(j.Sealed)
		w.mu.Unlock()
		if !ok {
			w.log.Warn("a job was handed out twice, or was not asked for; it waits for the end of its lease", "job_id", j.ID)
			continue
		}
		jobs = append(jobs, j)
	}
	return jobs
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
