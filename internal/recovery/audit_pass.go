package recovery

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tierq/tierq/internal/job"
)

const (
	// maxRest is the longest rest between two steps: a step that took long because Redis stood still says nothing
	// about the step's cost.
	maxRest = time.Second
	// maxLogged is how many findings of a pass are logged, one line each.
	maxLogged = 20
	// journalAge is how old a journal row must be: the job of a younger row may still be on its way to Redis.
	journalAge = time.Minute
)

// pass is one walk over all data.
type pass struct {
	*Audit
	rest    int
	began   time.Time // by the host's clock, for the duration
	renewed time.Time
	noSQL   error // SQL did not answer, and is not asked again
	totals  map[job.FindingTotal]int64
	logged  int64
	report  job.AuditReport
}

func (a *Audit) begin(rest int) *pass {
	return &pass{
		Audit: a, rest: rest, began: time.Now(), renewed: time.Now(), totals: map[job.FindingTotal]int64{},
		report: job.AuditReport{StartedAt: a.o.Now(), By: a.o.Name, Totals: []job.FindingTotal{}, Findings: []job.Finding{}},
	}
}

// walk first checks the keys' types, because a key of another type fails every script that uses it. Then it reads
// the journal and the flows, so that no job is set aside that can be restored. Then it checks the jobs and the sets. It
// counts last, when every job is in its place.
func (p *pass) walk(ctx context.Context) error {
	if err := p.recount(ctx, false); err != nil {
		return err
	}
	if err := p.journal(ctx); err != nil {
		return err
	}
	if err := p.flows(ctx); err != nil {
		return err
	}
	if err := p.batches(ctx); err != nil {
		return err
	}
	if err := p.places(ctx); err != nil {
		return err
	}
	for at, more := "", true; more; more = at != "" {
		s, err := p.scan(ctx, at)
		if err != nil {
			return err
		}
		if err := p.look(ctx, s); err != nil {
			return err
		}
		at = s.Next
	}
	return p.recount(ctx, true)
}

// places holds the reserved places to SQL. If SQL does not answer, the audit goes on without it.
func (p *pass) places(ctx context.Context) error {
	for at, more := "", p.o.Places != nil; more && p.noSQL == nil; more = at != "" {
		err := p.step(ctx, func(ctx context.Context) (found []job.Finding, err error) {
			found, at, err = p.o.Places.Check(ctx, at)
			return found, err
		})
		if p.noSQL = unavailable(err); err != nil && p.noSQL == nil {
			return err
		}
	}
	return nil
}

func (p *pass) recount(ctx context.Context, count bool) error {
	for partition := range p.o.Partitions {
		err := p.step(ctx, func(ctx context.Context) ([]job.Finding,
			error) {
			return p.o.Queue.Recount(ctx, partition, count)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *pass) scan(ctx context.Context, at string) (s job.Scanned, err error) {
	err = p.step(ctx, func(ctx context.Context) ([]job.Finding, error) {
		s, err = p.o.Queue.Scan(ctx, at)
		return s.Found, err
	})
	return s, err
}

// look audits the suspects of one step of the walk, one Redis call after the other. It asks SQL first, so that an
// outcome from SQL is at least as old as the data that the audit reads.
func (p *pass) look(ctx context.Context, s job.Scanned) error {
	recorded, err := p.outcomes(ctx, s.Ask)
	if err != nil {
		return err
	}
	suspects := s.Suspects
	for i := range suspects {
		suspects[i].Recorded = recorded[suspects[i].ID]
		delete(recorded, suspects[i].ID)
	}
	for id, r := range recorded {
		suspects = append(suspects, job.Suspected{ID: id, Partition: id.Partition(), Recorded: r})
	}
	for batch := range slices.Chunk(suspects, job.MaxBatch) {
		p.report.Looks += int64(len(batch))
		err := p.step(ctx, func(ctx context.Context) ([]job.Finding, error) { return p.o.Queue.AuditJobs(ctx, batch) })
		if err != nil {
			return err
		}
	}
	return nil
}

// outcomes asks SQL about jobs. If SQL does not answer, the audit goes on without it.
func (p *pass) outcomes(ctx context.Context, ids []job.ID) (map[job.ID][]job.Recorded, error) {
	all := map[job.ID][]job.Recorded{}
	for batch := range slices.Chunk(ids, job.MaxBatch) {
		if p.noSQL != nil {
			break
		}
		call, cancel := context.WithTimeout(ctx, callTimeout)
		some, err := p.o.SQL.Outcomes(call, batch)
		cancel()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		p.noSQL = err
		for id, r := range some {
			all[id] = r
		}
	}
	return all, nil
}

// journal restores jobs that were accepted, have no outcome, and are missing in Redis. It asks Redis before SQL: a
// job that still has no outcome in SQL after Redis lacked it has not ended.
func (p *pass) journal(ctx context.Context) error {
	if p.o.Journal == nil || p.o.Restorer == nil {
		return nil
	}
	for after := job.ID(""); ; {
		ids := p.waiting(ctx, after)
		if len(ids) == 0 {
			return ctx.Err()
		}
		after = ids[len(ids)-1]
		var missing []job.ID
		err := p.step(ctx, func(ctx context.Context) (_ []job.Finding, err error) {
			missing, err = p.o.Queue.Missing(ctx, ids)
			return nil, err
		})
		if err == nil && len(missing) > 0 {
			err = p.restore(ctx, missing)
		}
		if err != nil {
			return err
		}
	}
}

// waiting reads the next ids of the journal. It returns none at the journal's end, or if SQL does not answer.
func (p *pass) waiting(ctx context.Context, after job.ID) []job.ID {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	ids, err := p.o.Journal.Waiting(call, after, job.MaxBatch, journalAge)
	if ctx.Err() == nil {
		p.noSQL = err
	}
	return ids
}

// flowsAtOnce is how many flows a step of the audit checks.
const flowsAtOnce = 20

// flows checks the flows that have not ended. Without an answer of SQL the audit goes on without them.
func (p *pass) flows(ctx context.Context) error {
	for after, more := job.ID(""), p.o.Flows != nil; more; more = after != "" {
		var released []job.ID
		err := p.step(ctx, func(ctx context.Context) (found []job.Finding, err error) {
			found, released, after, p.noSQL = p.o.Flows.CheckFlows(ctx, after, flowsAtOnce, p.o.Now())
			return found, nil
		})
		if err != nil || p.noSQL != nil {
			return err
		}
		if len(released) > 0 {
			call, cancel := context.WithTimeout(ctx, recordTimeout)
			_, err := p.o.Restorer.Give(call, released)
			cancel()
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *pass) restore(ctx context.Context, missing []job.ID) error {
	call, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	n, err := p.o.Restorer.Give(call, missing)
	if n > 0 {
		p.find(job.Finding{Partition: missing[0].Partition(), Result: job.Repaired, Kind: "lost",
			Detail: "given back from the journal"}, int64(n))
	}
	return err
}

// batches checks the batches in SQL. If SQL does not answer, the audit goes on without it.
func (p *pass) batches(ctx context.Context) error {
	for after, more := job.ID(""), p.o.Batches != nil && p.noSQL == nil; more; more = after != "" {
		after = p.someBatches(ctx, after)
	}
	return ctx.Err()
}

// someBatches checks some batches and returns where the next call goes on, "" at the end or if SQL does not answer.
func (p *pass) someBatches(ctx context.Context, after job.ID) (next job.ID) {
	call, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	found, next, err := p.o.Batches.CheckBatches(call, after, p.o.Queue.Missing)
	for _, f := range found {
		p.find(f, 1)
	}
	if ctx.Err() == nil {
		p.noSQL = err
	}
	if err != nil {
		return ""
	}
	return next
}

// step makes one Redis call, records its findings, renews the lease if that is due, and rests.
func (p *pass) step(ctx context.Context, call func(context.Context) ([]job.Finding, error)) error {
	bounded, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	began := time.Now()
	found, err := call(bounded)
	took := time.Since(began)
	for _, f := range found {
		p.find(f, 1)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return err
	}
	if time.Since(p.renewed) > auditLook {
		p.renewed = time.Now()
		if _, err := p.o.Desk.Lease(ctx, "audit", auditLease); err != nil {
			return err
		}
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(min(time.Duration(p.rest)*took, maxRest)):
		return nil
	}
}

// find records n findings of one kind.
func (p *pass) find(f job.Finding, n int64) {
	p.totals[job.FindingTotal{Result: f.Result, Kind: f.Kind}] += n
	if len(p.report.Findings) < job.MaxFindings {
		p.report.Findings = append(p.report.Findings, f)
	}
	p.o.Observe.AuditFound(f, n)
	if p.logged++; p.logged <= maxLogged {
		p.o.Log.Warn("the audit found an inconsistency", "job_id", f.ID, "partition", f.Partition, "result", f.Result, "kind",
			f.Kind, "detail", f.Detail)
	}
}

// end completes the report.
func (p *pass) end(err error) job.AuditReport {
	r := &p.report
	r.Seconds, r.Whole = time.Since(p.began).Seconds(), err == nil && p.noSQL == nil
	switch {
	case err != nil:
		r.Problem = "the pass was cut short"
	case p.noSQL != nil:
		r.Problem = "SQL did not answer: its rows were not compared"
		p.o.Log.Warn("the audit goes on without SQL", "err", p.noSQL)
	}
	for t, n := range p.totals {
		t.Count = n
		r.Totals = append(r.Totals, t)
	}
	slices.SortFunc(r.Totals, func(a, b job.FindingTotal) int {
		return cmp.Or(cmp.Compare(a.Result, b.Result), cmp.Compare(a.Kind, b.Kind))
	})
	if more := p.logged - maxLogged; more > 0 {
		p.o.Log.Warn("the audit found more than it logs", "findings", more)
	}
	p.o.Log.Debug("audited", "looks", r.Looks, "findings", p.logged, "seconds", r.Seconds, "whole", r.Whole)
	return *r
}

// unavailable returns an error that says that a store does not answer, and nil for any other.
func unavailable(err error) error {
	if errors.Is(err, job.ErrUnavailable) {
		return err
	}
	return nil
}
