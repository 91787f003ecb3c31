package faktory

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// fetchFor is how long a FETCH waits for a job, as at the server of Faktory. Clients read for 5 s.
const fetchFor = 2 * time.Second

// mostQueues is how many queues a FETCH may name.
const mostQueues = 100

// fetchKey names what FETCHes must have in common to share a claim.
type fetchKey struct {
	worker *worker
	queues string
	tiers  string
}

// fetchers gather the FETCHes that wait: those of one worker and its queues share a claim.
type fetchers struct {
	mu  sync.Mutex
	all map[fetchKey]*fetcher
}

// fetcher makes the claims for the FETCHes with one key, one at a time. What comes during a claim shares the next.
type fetcher struct {
	key     fetchKey
	tiers   []job.Tier
	waiting []*waiting // in the order of their coming
	stop    context.CancelFunc
}

// waiting is a FETCH.
type waiting struct {
	conn  *conn
	until time.Time
	done  chan fetched // gets one answer at most
}

// fetched is the answer to a FETCH: a job, or none.
type fetched struct {
	lease *job.WorkerLease
	job   *named
	err   error
}

// named is a job of a lease as clients know it.
type named struct {
	text []byte // the JSON of the job as it was pushed
	pushed
}

// fetch serves FETCH.
func (c *conn) fetch(_ context.Context, rest []byte) error {
	queues := strings.Fields(string(rest))
	if len(queues) == 0 {
		return c.fail("must call fetch with at least one queue")
	}
	if len(queues) > mostQueues {
		return c.fail("too many queues")
	}
	if err := c.mayFetch(queues); err != nil {
		return c.refuse(err)
	}
	w := &waiting{conn: c, until: time.Now().Add(fetchFor), done: make(chan fetched, 1)}
	c.worker.fetches(queues)
	if c.idles() {
		return c.idle(w)
	}
	c.server.await(w, queues, c.caller.FetchTiers())
	answer, there := c.wait(w)
	switch {
	case !there:
		return errClosing
	case answer.err != nil:
		return c.refuse(answer.err)
	case answer.lease == nil:
		return c.nothing()
	}
	if err := c.hand(answer.lease, answer.job); err != nil { // the client has gone, and did not get its job
		c.server.giveBack(c.worker, answer.lease)
		return err
	}
	return nil
}

// mayFetch returns an error if the caller may not fetch from one of some queues. A queue that nobody has pushed to is
// no error for a caller that may declare it.
func (c *conn) mayFetch(queues []string) error {
	for _, name := range queues {
		if !c.caller.MayFetch(name) {
			return notAllowed
		}
		if err := (job.Queue{Name: name}).Check(); err != nil {
			return err
		}
		if _, known := c.server.Queues.Find(name); !known && !c.caller.MayDeclare(name) && !c.caller.Admin() {
			return refusal("there is no queue " + name + ", and this key declares none")
		}
	}
	return nil
}

// idles says whether the worker is to get no more jobs: it says so itself, or an operator does.
func (c *conn) idles() bool {
	w := c.worker
	w.mu.Lock()
	own := w.state
	w.mu.Unlock()
	return own != job.WorkerRuns || c.server.Leases.Asked(w.key, w.name) != job.WorkerRuns
}

// idle answers a FETCH of a worker that is to get no more jobs, after the time that a FETCH waits.
func (c *conn) idle(w *waiting) error {
	if _, there := c.wait(w); !there {
		return errClosing
	}
	return c.nothing()
}

// wait waits for the answer to a FETCH until its time is over. It returns false if the client has gone; a job that
// comes nevertheless is given back.
func (c *conn) wait(w *waiting) (answer fetched, there bool) {
	soon := time.NewTimer(5 * time.Millisecond) // mostly a job is there
	defer soon.Stop()
	select {
	case answer = <-w.done:
		return answer, true
	case <-soon.C:
	}
	gone := make(chan struct{})
	stop := c.watch(func() { close(gone) })
	over := time.NewTimer(time.Until(w.until))
	defer over.Stop()
	there = true
	select {
	case answer = <-w.done:
	case <-over.C:
	case <-c.server.quit:
	case <-gone:
		there = false
	}
	stop()
	if !there || answer == (fetched{}) {
		answer = c.server.forget(w)
	}
	if !there && answer.lease != nil {
		c.server.giveBack(c.worker, answer.lease)
	}
	return answer, there
}

// await puts a FETCH among those that wait, and begins to claim for it.
func (s *Server) await(w *waiting, queues []string, tiers []job.Tier) {
	key := fetchKey{worker: w.conn.worker, queues: strings.Join(queues, " ")}
	for _, t := range tiers {
		key.tiers += string(t) + " "
	}
	f := &s.fetchers
	f.mu.Lock()
	defer f.mu.Unlock()
	one := f.all[key]
	if one == nil {
		one = &fetcher{key: key, tiers: slices.Clone(tiers)}
		f.all[key] = one
		s.group.Go(func() { s.claims(one) })
	}
	one.waiting = append(one.waiting, w)
}

// forget takes a FETCH out of those that wait. It returns the answer that came meanwhile.
func (s *Server) forget(w *waiting) fetched {
	f := &s.fetchers
	f.mu.Lock()
	for _, one := range f.all {
		if one.key.worker != w.conn.worker {
			continue
		}
		if at := slices.Index(one.waiting, w); at >= 0 {
			one.waiting = slices.Delete(one.waiting, at, at+1)
			if len(one.waiting) == 0 && one.stop != nil {
				one.stop() // nobody waits for that claim
			}
		}
	}
	f.mu.Unlock()
	select {
	case answer := <-w.done:
		return answer
	default:
		return fetched{}
	}
}

// claims claims for the FETCHes of a fetcher until none waits.
func (s *Server) claims(one *fetcher) {
	f := &s.fetchers
	for {
		done, atOnce := s.turn(one)
		f.mu.Lock()
		if len(one.waiting) == 0 || s.io.Err() != nil {
			delete(f.all, one.key)
			f.mu.Unlock()
			done()
			return
		}
		n, last := min(len(one.waiting), job.MaxBatch), one.waiting[len(one.waiting)-1].until
		if atOnce {
			last = time.Time{}
		}
		ctx, cancel := context.WithCancel(s.io)
		one.stop = cancel
		f.mu.Unlock()

		leases, jobs, err := s.claim(ctx, one, n, time.Until(last))
		done()
		f.mu.Lock()
		one.stop = nil
		f.mu.Unlock()
		_, full := errors.AsType[*job.RateError](err)
		if full { // the key holds as many leases as it may: a FETCH waits for one to end as it waits for a job
			err = nil
		}
		if len(leases) == 0 && (err == nil || ctx.Err() != nil) {
			s.rest(ctx, full || s.idlesFor(one.key.worker))
		}
		cancel()
		s.deal(one, leases, jobs, err)
	}
}

// rest waits after a claim that found nothing before its time: of a worker that is to get no more jobs, of a key that
// holds all leases that it may, or of a process that ends. The FETCHes that wait end by themselves.
func (s *Server) rest(ctx context.Context, early bool) {
	if !early {
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(100 * time.Millisecond):
	}
}

func (s *Server) idlesFor(w *worker) bool {
	select {
	case <-s.quit:
		return true
	default:
		return s.Leases.Asked(w.key, w.name) != job.WorkerRuns
	}
}

// claim claims up to n jobs, and enters them into the book of their worker.
func (s *Server) claim(ctx context.Context, one *fetcher, n int, wait time.Duration) (
	[]job.WorkerLease, []named, error,
) {
	id := make([]byte, 12)
	_, _ = rand.Read(id) // never fails, says crypto/rand
	w := one.key.worker
	leases, err := s.Leases.Claim(ctx, job.WorkerClaim{
		Key: w.key, Worker: w.name, ID: hex.EncodeToString(id), Queues: strings.Fields(one.key.queues), ByName: true,
		Tiers: one.tiers, Max: n, Wait: max(wait, 0), Lease: leaseFor,
	})
	w.busy.Store(len(leases) > 0)
	if err != nil || len(leases) == 0 {
		return nil, nil, err
	}
	entries, jobs := make([]job.HeldLease, len(leases)), make([]named, len(leases))
	for i := range leases {
		jid, text, p := jidOf(&leases[i].Lease)
		jobs[i] = named{text, p}
		entries[i] = job.HeldLease{
			Field: job.HeldField(leases[i].ID, leases[i].Attempt), Sealed: leases[i].Sealed, Name: jid,
		}
	}
	if err := s.hold(w, entries); err != nil { // a worker must not get a job that its ACK would not find
		s.Leases.GiveBack(leases)
		return nil, nil, err
	}
	w.take(entries)
	return leases, jobs, nil
}

// hold writes leases into the book.
func (s *Server) hold(w *worker, entries []job.HeldLease) error {
	ctx, cancel := context.WithTimeout(s.io, commandTime)
	defer cancel()
	return s.Book.HoldLeases(ctx, w.key, w.book(), entries)
}

// deal gives each job to a FETCH that waits, and releases those that are left.
func (s *Server) deal(one *fetcher, leases []job.WorkerLease, jobs []named, err error) {
	f := &s.fetchers
	f.mu.Lock()
	n := min(len(leases), len(one.waiting))
	if err != nil && !errors.Is(err, context.Canceled) {
		n = len(one.waiting) // all hear of the error
	}
	lucky := slices.Clone(one.waiting[:n])
	one.waiting = slices.Delete(one.waiting, 0, n)
	for i, w := range lucky {
		if err != nil {
			w.done <- fetched{err: err}
			continue
		}
		w.done <- fetched{lease: &leases[i], job: &jobs[i]}
	}
	f.mu.Unlock()
	if err == nil {
		for i := n; i < len(leases); i++ {
			s.giveBack(one.key.worker, &leases[i])
		}
	}
}

// giveBack releases a lease that its worker did not get.
func (s *Server) giveBack(w *worker, l *job.WorkerLease) {
	field := job.HeldField(l.ID, l.Attempt)
	w.drop(field)
	s.drops.add(job.HeldRef{Key: w.key, Worker: w.book(), Field: field})
	s.Leases.GiveBack([]job.WorkerLease{*l})
}

// hand writes a job as the reply to a FETCH.
func (c *conn) hand(l *job.WorkerLease, j *named) error {
	c.worker.owns(job.HeldField(l.ID, l.Attempt), l.QueueName(), c)
	var failed *failure
	if l.RetryCount > 0 {
		failed = c.server.failureOf(&l.Lease)
	}
	return c.result(complete(j.text, &j.pushed, &l.Lease, failed))
}

// failureOf returns what is known of the attempts before this one.
func (s *Server) failureOf(l *job.Lease) *failure {
	f := &failure{RetryCount: l.RetryCount - 1, Remaining: max(l.MaxRetries-l.RetryCount+1, 0)}
	ctx, cancel := context.WithTimeout(s.io, time.Second)
	defer cancel()
	attempts, err := s.Jobs.Attempts(ctx, l.ID)
	if err != nil {
		s.Log.Debug("the attempts of a job cannot be read", "job_id", l.ID, "err", err)
	}
	for i := len(attempts) - 1; i >= 0; i-- {
		if a := &attempts[i]; a.Outcome != "RELEASED" && a.Outcome != "LATER" {
			f.FailedAt = stamp(a.FinishedAt)
			f.ErrorType, f.Message, f.Backtrace = readError(a.Error)
			if f.ErrorType == "" {
				f.ErrorType = a.Outcome
			}
			break
		}
	}
	if f.FailedAt == "" {
		f.FailedAt = stamp(l.StartedAt)
	}
	return f
}
