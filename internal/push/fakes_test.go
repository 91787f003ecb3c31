package push

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

// room is a fake of the leases: it hands out what is ready, and notes what it is told.
type room struct {
	mu      sync.Mutex
	ready   int
	made    int
	claims  []job.WorkerClaim
	beats   map[string]int // by sealed lease
	words   map[string]job.Word
	ends    map[string]job.Report
	keys    map[string]bool // with which leases were extended or ended
	endErrs []error         // of the next ends
	failing error           // of claims
	deaf    bool            // heartbeats fail
	late    bool            // claims do not end with their context
	wakes   chan struct{}
}

func newRoom(ready int) *room {
	return &room{ready: ready, beats: map[string]int{}, words: map[string]job.Word{}, ends: map[string]job.Report{},
		keys: map[string]bool{}, wakes: make(chan struct{}, 1000)}
}

func (r *room) Claim(ctx context.Context, c job.WorkerClaim) ([]job.WorkerLease, error) {
	r.mu.Lock()
	r.claims = append(r.claims, c)
	err := r.failing
	r.mu.Unlock()
	if err != nil {
		return nil, err
	}
	over := time.NewTimer(c.Wait)
	defer over.Stop()
	for {
		if leases := r.take(c); len(leases) > 0 {
			return leases, nil
		}
		select {
		case <-r.wakes:
		case <-over.C:
			return nil, nil
		case <-ctx.Done():
			if !r.late {
				return nil, ctx.Err()
			}
			<-time.After(time.Second)
			return r.take(c), nil
		}
	}
}

// leaseFor is the length of the leases.
const leaseFor = 5 * time.Second

func (r *room) take(c job.WorkerClaim) (leases []job.WorkerLease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(leases) < c.Max && r.ready > 0 {
		r.ready--
		r.made++
		l := job.WorkerLease{Sealed: fmt.Sprintf("lease-%d", r.made), For: leaseFor, MaxRun: time.Minute}
		l.Until, l.Ends = time.Now().Add(l.For), time.Now().Add(l.MaxRun)
		l.ID, l.Queue, l.Attempt = job.ID(fmt.Sprintf("job-%d", r.made)), c.Queues[0], 1
		leases = append(leases, l)
	}
	return leases
}

func (r *room) add(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ready += n
	r.wakes <- struct{}{}
}

func (r *room) Heartbeat(_ context.Context, key string, beats []job.WorkerBeat) ([]job.WorkerPulse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.deaf {
		return nil, job.ErrUnavailable
	}
	pulses := make([]job.WorkerPulse, len(beats))
	for i, b := range beats {
		r.beats[b.Sealed]++
		r.keys[key] = true
		if pulses[i].Word = r.words[b.Sealed]; pulses[i].Word == "" {
			pulses[i].Word = job.OK
		}
		pulses[i].Until = time.Now().Add(leaseFor)
	}
	return pulses, nil
}

func (r *room) End(ctx context.Context, key string, reports []job.WorkerReport) []job.WorkerEnd {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys[key] = true
	if ctx.Err() != nil {
		return []job.WorkerEnd{{Err: ctx.Err()}}
	}
	if len(r.endErrs) > 0 {
		err := r.endErrs[0]
		r.endErrs = r.endErrs[1:]
		return []job.WorkerEnd{{Err: err}}
	}
	r.ends[reports[0].Sealed] = reports[0].Report
	return []job.WorkerEnd{{}}
}

func (r *room) ended() map[string]job.Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := map[string]job.Report{}
	for sealed, report := range r.ends {
		all[sealed] = report
	}
	return all
}

// receiver is a fake of the posts. Each post waits for an answer.
type receiver struct {
	mu      sync.Mutex
	posts   int
	leases  []string
	at      int // posts that wait now
	most    int
	answers chan answer
	told    []error // why posts were told to end
}

type answer struct {
	job.PushAnswer
	err error
}

func newReceiver() *receiver { return &receiver{answers: make(chan answer)} }

func (r *receiver) post(ctx context.Context, to job.Push, l *job.WorkerLease, lease string) (job.PushAnswer, error) {
	if run, ok := handler.Running(ctx); !ok || run.ID != l.ID || run.Attempt != l.Attempt || to.URL == "" {
		return job.PushAnswer{}, errors.New("the context has another job")
	}
	r.mu.Lock()
	r.posts++
	r.at++
	r.most = max(r.most, r.at)
	r.leases = append(r.leases, lease)
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.at--
	}()
	select {
	case a := <-r.answers:
		return a.PushAnswer, a.err
	case <-ctx.Done():
		r.mu.Lock()
		r.told = append(r.told, context.Cause(ctx))
		r.mu.Unlock()
		return job.PushAnswer{}, errors.New("cut off")
	}
}

func (r *receiver) counts() (posts, at, most int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.posts, r.at, r.most
}

// declared are the queues, which a test may change.
type declared struct {
	mu  sync.Mutex
	all []job.Queue
}

func (d *declared) list() []job.Queue {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.all)
}

func (d *declared) set(all ...job.Queue) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = all
}

func pictures(atOnce int) job.Queue {
	return job.Queue{Name: "pictures", Push: job.Push{URL: "https://x.example/", Concurrency: atOnce}}
}

// started makes a Pusher, which ends with the test, in a bubble of virtual time.
func started(t *testing.T, r *room, to *receiver, open bool, queues ...job.Queue) (*Pusher, *declared) {
	t.Helper()
	d := &declared{all: queues}
	p := New(Config{Leases: r, Queues: d.list, Post: to.post, Open: func() bool { return open }, Worker: "w1",
		DrainTimeout: 5 * time.Second, Log: slog.New(slog.DiscardHandler)})
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Stop(context.Background()) })
	synctest.Wait()
	return p, d
}

func good(result string) answer { return answer{PushAnswer: job.PushAnswer{Result: []byte(result)}} }
