// Package worker runs the jobs of a tierq server in a program of its own. It uses only the standard library. A worker
// takes three lines:
//
//	w := worker.New("http://localhost:8080", []string{"pictures"}, worker.WithConcurrency(16))
//	worker.Handle(w, "RESIZE", func(ctx context.Context, in Size) (Size, error) { return in.Half(), nil })
//	err := w.Run(ctx)
//
// A handler returns a result, which becomes the job's, or an error, which costs a retry. Permanent, RetryAfter and
// Later make errors that ask for something else. Running returns the job, and Checkpoint saves its progress for a
// later attempt. A job may run more than once: use its id as the key of its side effects. Whatever a handler returns,
// saves, logs or panics with costs at most its own attempt; only what ends the process, such as a panic in a goroutine
// that the handler starts, disturbs other jobs.
//
// The worker keeps the jobs that it holds by heartbeats, all in one call. A handler's context ends when its job may be
// another worker's, when a user cancelled the job, at the maximum processing time, which is its deadline, and when Run
// waits no longer; errors.Is with context.Cause says which. Reports travel with the next claim, and every call is
// repeated until it is answered: the server counts it once.
//
//	worker.go   New and Run: who does what, and the order of the end; options.go has the options
//	claimer.go  asks for as many jobs as there are free places; claim.go makes the calls
//	attempt.go  a job that this worker holds: its handler and its clock; says.go has what its report says
//	guard.go    the methods of users' errors and values; json.go and contained.go have what else users' code may break
//	answer.go   what the server answers, whatever its form
//	beat.go     heartbeats, checkpoints and progress
//	report.go   reports that no claim carries
//	call.go     one call over HTTP, and its repeats
//	job.go      what a handler sees and says
package worker

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// Worker claims jobs of some queues from one server, or from several behind one address. Make it with New.
type Worker struct {
	base      *url.URL
	http      *http.Client
	token     string
	name      string
	version   string // of the program
	queues    []string
	tiers     []string
	places    int
	lease     time.Duration // 0 = the server's
	drain     time.Duration
	log       *slog.Logger
	handlers  map[string]handler
	firstType string // of the handlers
	wrong     error  // the first error in an argument, which Run returns
	begun     atomic.Bool

	mu      sync.Mutex
	held    map[string]*attempt // by lease, until the server has answered their report
	free    int                 // places without a running handler
	asked   int                 // of these, what the claims under way may fill
	busy    bool                // the last claim got as many jobs as it asked for
	ended   []*report           // reports that no call carries yet
	logging bool                // a call with lines of logs is coming
	toldAt  time.Time           // when a heartbeat took progress along last
	leases  leases              // that were handed out last

	logCalls sync.Mutex // held by the call that sends lines

	claimers [2]*claimer

	toSend chan struct{} // holds one when a report may wait
	beatIt chan struct{} // holds one when there is something new for heartbeats
	term   chan struct{} // closed when the server told the worker to terminate
	told   sync.Once
}

// New returns a worker for the jobs of some queues of the server at baseURL, such as "http://localhost:8080". New does
// not fail: Run returns the error in an argument.
func New(baseURL string, queues []string, opts ...Option) *Worker {
	w := &Worker{
		http: &http.Client{Transport: transport()}, queues: queues, places: 10, drain: 25 * time.Second,
		log: slog.Default(), name: ownName(), handlers: map[string]handler{}, held: map[string]*attempt{},
		toSend: make(chan struct{}, 1), beatIt: make(chan struct{}, 1),
		term: make(chan struct{}),
	}
	u, err := url.Parse(baseURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		w.refuse("the server's address is not http://host or https://host") // it may hold a password: it is not shown
		u = &url.URL{}
	}
	w.base = u
	if len(queues) == 0 {
		w.refuse("no queue is named")
	}
	for _, o := range opts {
		o(w)
	}
	// A redirect could send a key to a wrong server.
	own := *w.http
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	w.http = &own
	w.log = slog.New(contained{w.log.Handler()})
	w.free = w.places
	for i := range w.claimers {
		w.claimers[i] = &claimer{w: w, second: i > 0, taken: i > 0, freed: make(chan struct{}, 1)}
	}
	return w
}

func (w *Worker) refuse(why string) {
	if w.wrong == nil {
		w.wrong = errors.New("worker: " + why)
	}
}

// Run claims and runs jobs until ctx ends or an operator ends the worker. Then Run claims nothing more, waits for the
// running handlers for as long as WithDrain says, and ends the contexts of the handlers that still run. The job of a
// handler that returns an error after that goes back to its queue, at no cost. A handler that ignores its context keeps
// its job until the lease is over. Run returns nil after such an end, and an error if an argument is wrong, if the
// server refuses the first claim, or if it does not know the queue for 10 s. It may be called once.
func (w *Worker) Run(ctx context.Context) error {
	switch {
	case w.wrong != nil:
		return w.wrong
	case len(w.handlers) == 0:
		return errors.New("worker: it has no handler")
	case w.begun.Swap(true):
		return errors.New("worker: it was run before")
	}
	defer w.http.CloseIdleConnections()
	handlers, stopHandlers := context.WithCancelCause(context.WithoutCancel(ctx))
	calls, stopCalls := context.WithCancel(context.WithoutCancel(ctx))
	defer stopCalls()
	var loops sync.WaitGroup
	loops.Go(func() { w.beats(calls) })
	loops.Go(func() { w.reports(calls) })
	err := w.claims(ctx, calls, handlers)
	w.await(w.drain, w.idle)
	stopHandlers(ErrStopping)
	w.await(grace, w.idle)
	w.await(grace, w.settled)
	stopCalls()
	loops.Wait()
	if left := w.running(); left > 0 {
		w.log.Warn("handlers ignore the end of their contexts; their jobs go to other workers", "jobs", left)
	}
	return err
}

// grace is how long Run waits for handlers whose context has ended, and then for the answers to the last reports.
const grace = 5 * time.Second

// await waits until done says so, at most this long.
func (w *Worker) await(most time.Duration, done func() bool) {
	end := time.NewTimer(most)
	defer end.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-end.C:
			return
		case <-tick.C:
		}
	}
}

func (w *Worker) running() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.places - w.free
}

func (w *Worker) idle() bool { return w.running() == 0 }

// settled says whether the server has answered all reports.
func (w *Worker) settled() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.held) == w.places-w.free
}

// signal fills a channel that holds one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
