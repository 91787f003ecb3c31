package faktory

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// flush serves FLUSH: it cancels all jobs in the queues of Faktory clients, takes their dead letters off the list, and
// forgets the queues and the totals.
func (c *conn) flush(ctx context.Context, _ []byte) error {
	s := c.server
	if !c.caller.Admin() || !c.caller.Open && !s.FlushWithKey {
		return c.refuse(notAllowed)
	}
	var names []string
	for _, q := range s.Queues.All() {
		if q.Faktory {
			names = append(names, q.Name)
		}
	}
	for _, name := range names {
		if err := s.flushQueue(ctx, name); err != nil {
			return c.refuse(err)
		}
	}
	if err := s.dismissAll(ctx, names); err != nil {
		return c.refuse(err)
	}
	for _, name := range names {
		if err := s.forgetQueue(ctx, name); err != nil && !errors.Is(err, job.ErrUnknownQueue) {
			return c.refuse(err)
		}
	}
	s.drops.wait(ctx)
	if err := s.Book.ForgetFaktoryTotals(ctx); err != nil {
		return c.refuse(err)
	}
	return c.ok()
}

const flushed = "FLUSH by a Faktory client"

// flushQueue cancels all living jobs of a queue. Those that run end at once if their worker is connected here, else
// with its report.
func (s *Server) flushQueue(ctx context.Context, name string) error {
	for more := true; more; {
		var err error
		if _, more, err = s.Queues.PurgeQueue(ctx, name); err != nil {
			return err
		}
	}
	counts, err := s.Counts.QueueCounts(ctx)
	if err != nil {
		return err
	}
	for _, of := range []struct {
		status job.Status
		jobs   int64
	}{{job.Scheduled, counts[name].Scheduled}, {job.Processing, counts[name].Running}} {
		if of.jobs == 0 {
			continue
		}
		err := s.each(ctx, job.Filter{Status: of.status, Queue: name}, func(j *job.Job) error {
			_, err := s.Jobs.Cancel(ctx, j.ID, "")
			if errors.Is(err, job.ErrNotFound) || errors.Is(err, job.ErrWrongState) {
				return nil // it has ended meanwhile
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return s.endCancelled(ctx, name)
}

// endCancelled ends the attempts of a queue's jobs, which are to be cancelled, whose workers are connected here.
func (s *Server) endCancelled(ctx context.Context, queue string) error {
	for _, w := range s.workers.list() {
		var fields []string
		var reports []job.WorkerReport
		w.mu.Lock()
		for field, h := range w.held {
			if h.queue == queue {
				fields, reports = append(fields, field), append(reports, job.WorkerReport{
					Sealed: h.Sealed, Report: job.Report{Kind: job.GaveBack},
				})
			}
		}
		w.mu.Unlock()
		for i, end := range s.Leases.End(ctx, w.key, reports) {
			if end.Err == nil || errors.Is(end.Err, job.ErrLeaseLost) || errors.Is(end.Err, job.ErrBadLease) {
				w.drop(fields[i])
				s.drops.add(job.HeldRef{Key: w.key, Worker: w.book(), Field: fields[i]})
			}
		}
	}
	return nil
}

// each calls do with every job that passes a filter and has not ended.
func (s *Server) each(ctx context.Context, f job.Filter, do func(*job.Job) error) error {
	for cursor := ""; ; {
		jobs, next, err := s.Jobs.List(ctx, f, cursor, 100)
		if err != nil {
			return err
		}
		for i := range jobs {
			if err := do(&jobs[i]); err != nil {
				return err
			}
		}
		if cursor = next; cursor == "" {
			return nil
		}
	}
}

// dismissAll takes the dead letters of some queues off the list.
func (s *Server) dismissAll(ctx context.Context, queues []string) error {
	s.dead.settle(ctx, s.Jobs.IsDead)
	n, err := s.Counts.CountDead(ctx, "")
	if err != nil || n == 0 {
		return err
	}
	var dead []job.ID
	err = s.Jobs.EachDead(ctx, job.Filter{}, func(l job.DeadLetter) error {
		if slices.Contains(queues, l.QueueName()) {
			dead = append(dead, l.ID)
		}
		return nil
	})
	for _, id := range dead {
		if err == nil {
			err = s.Jobs.Dismiss(ctx, id, flushed)
		}
	}
	return err
}

// dismissEphemeral takes a job off the list of dead letters that was pushed with a retry of 0: its client wants no
// death of it.
func (s *Server) dismissEphemeral(id job.ID) {
	ctx, cancel := context.WithTimeout(s.io, time.Minute)
	defer cancel()
	for {
		there, err := s.Jobs.IsDead(ctx, id)
		if err == nil && there {
			break
		}
		select {
		case <-ctx.Done():
			return
		case <-s.quit:
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
	j, err := s.Jobs.Find(ctx, id)
	if err == nil {
		j, _, err = s.Jobs.Whole(ctx, j)
	}
	if err != nil {
		s.Log.Debug("a dead letter cannot be read", "job_id", id, "err", err)
		return
	}
	if p, err := readJob(j.Payload); err != nil || p.Retry == nil || *p.Retry != 0 {
		return
	}
	if err := s.Jobs.Dismiss(ctx, id, "pushed with a retry of 0"); err != nil {
		s.Log.Debug("a dead letter of a job with a retry of 0 stays", "job_id", id, "err", err)
	}
}
