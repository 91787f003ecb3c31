package recovery

import (
	"context"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// jobs deletes a page of each kind in turn.
func (r *Retention) jobs(ctx context.Context, end time.Time) (deleted int64, whole bool, err error) {
	kinds, err := r.o.Rows.Kinds(ctx)
	if err != nil {
		return 0, false, err
	}
	for len(kinds) > 0 {
		var left []job.Kind
		for _, k := range kinds {
			if time.Now().After(end) {
				return deleted, false, nil
			}
			n, more, err := r.page(ctx, k)
			deleted += n
			if err != nil {
				return deleted, false, err
			}
			if more {
				left = append(left, k)
			}
		}
		kinds = left
	}
	return deleted, true, nil
}

// page deletes the unneeded jobs of one page of a kind, and says whether there may be more pages. After an error
// the next run begins with the same page.
func (r *Retention) page(ctx context.Context, k job.Kind) (deleted int64, more bool, err error) {
	age := r.o.Age(k)
	if age <= 0 {
		return 0, false, nil
	}
	began := time.Now()
	old, err := r.o.Rows.OldJobs(ctx, k, age, r.places[k])
	if err != nil {
		return 0, false, err
	}
	if len(old) == 0 {
		delete(r.places, k) // jobs that stayed may be deleted in the next run
		return 0, false, nil
	}
	for i := range old {
		old[i].Callback = r.o.Callback(old[i].ID, old[i].Generation)
	}
	free, err := r.o.Rows.UnneededJobs(ctx, old)
	if err == nil {
		free, err = r.forgotten(ctx, free)
	}
	for err == nil {
		n := step(free)
		if n > 0 {
			err = r.delete(ctx, free[:n], &deleted)
		}
		if err == nil {
			err = rest(ctx, began)
		}
		if free, began = free[n:], time.Now(); len(free) == 0 {
			break
		}
	}
	if err != nil {
		return deleted, false, err
	}
	r.places[k] = old[len(old)-1]
	return deleted, true, nil
}

// forgotten returns the jobs that Redis lacks, and whose callback jobs it lacks too. A job that Redis has is
// alive, not acknowledged yet, or answered from Redis.
func (r *Retention) forgotten(ctx context.Context, old []job.OldJob) (free []job.OldJob, err error) {
	var ids []job.ID
	for i := range old {
		for _, id := range []job.ID{old[i].ID, old[i].Callback} {
			if r.ours(id) {
				ids = append(ids, id)
			}
		}
	}
	missing := map[job.ID]bool{}
	if len(ids) > 0 {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		gone, err := r.o.Redis.Missing(call, ids)
		if err != nil {
			return nil, err
		}
		for _, id := range gone {
			missing[id] = true
		}
	}
	for _, o := range old {
		if (missing[o.ID] || !r.ours(o.ID)) && (missing[o.Callback] || !r.ours(o.Callback)) {
			free = append(free, o)
		}
	}
	return free, nil
}

// ours says whether a job can be in Redis. A job of a partition that does not exist any more cannot: partitions
// are removed only while the queue is empty.
func (r *Retention) ours(id job.ID) bool {
	p := id.Partition()
	return p >= 0 && p < r.o.Partitions
}

// delete deletes files before rows, so that after a crash in between the rows still lead to the files. If a file
// cannot be deleted, its job stays, and so do, in this run, all other jobs that may have a file: a store that does
// not answer would delay each of them.
func (r *Retention) delete(ctx context.Context, old []job.OldJob, deleted *int64) error {
	free := old[:0:0]
	for _, o := range old {
		makes := r.o.MakesFile(o.Type)
		if makes && r.files == nil {
			call, cancel := context.WithTimeout(ctx, fileBound)
			r.files = r.o.DeleteFile(call, o.ID)
			cancel()
		}
		if !makes || r.files == nil {
			free = append(free, o)
		}
	}
	if len(free) == 0 {
		return nil
	}
	call, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	rows, err := r.o.Rows.DeleteJobs(call, free)
	for table, n := range rows {
		r.o.Observe.RowsDeleted(table, n)
	}
	// A completed job has a row in job_results, any other in job_outcomes; earlier versions wrote both.
	*deleted += max(rows["job_outcomes"], rows["job_results"])
	return err
}

// step returns how many of the jobs one step deletes: at least one, and at most rowsPerStep rows.
func step(old []job.OldJob) int {
	rows := 0
	for n := range old {
		if rows += old[n].Rows; rows > rowsPerStep && n > 0 {
			return n
		}
	}
	return len(old)
}
