package leasing

import (
	"context"
	"time"
)

// listen waits at a partition's doorbells of all queues that claims wait for, and wakes the first claim for each token.
// Once a second it wakes the first claim of each queue without a token, because a token can be lost.
func (r *Room) listen(partition int) {
	changed := r.waiters.of[partition].changed
	for r.io.Err() == nil {
		queues := r.waiters.listens(partition)
		if len(queues) == 0 {
			select {
			case <-r.io.Done():
			case <-changed:
			}
			continue
		}
		queue, err := r.bell(partition, queues, changed)
		switch {
		case err != nil:
			r.Log.Debug("a doorbell does not answer", "partition", partition, "err", err)
			select {
			case <-r.io.Done():
			case <-time.After(time.Second):
			}
			fallthrough
		case queue == "":
			for _, q := range queues {
				r.waiters.wake(token{partition: partition, queue: q})
			}
		default:
			r.pass(&token{partition, queue, true})
		}
	}
}

// bell waits for a doorbell, until a claim waits for a queue that is not among those.
func (r *Room) bell(partition int, queues []string, changed chan struct{}) (queue string, err error) {
	ctx, cancel := context.WithCancel(r.io)
	defer cancel()
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		queue, err = r.Doorbell.WaitIn(ctx, partition, queues)
	}()
	select {
	case <-heard:
		return queue, err
	case <-changed:
		cancel() // a token that is lost by this is made up for within a second
		<-heard
		if queue != "" {
			return queue, nil
		}
		return "", nil
	}
}

// pass gives a token to the first claim that can use it; without one it goes back to the doorbell. nil = no token.
func (r *Room) pass(t *token) {
	if t == nil || r.waiters.wake(*t) || r.io.Err() != nil {
		return
	}
	r.wg.Go(func() {
		ctx, cancel := context.WithTimeout(r.io, callBound)
		defer cancel()
		if err := r.Doorbell.RingIn(ctx, t.partition, t.queue); err != nil {
			r.Log.Debug("a doorbell was not rung again", "partition", t.partition, "queue", t.queue, "err", err)
		}
	})
}
