package archive

import (
	"context"
	"slices"

	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/job"
)

const livingOf = "SELECT a.* FROM accepted_jobs a WHERE a.job_id IN ? AND NOT (" + takenBack + ") AND " + unended +
	" ORDER BY a.job_id"

// LivingOf reads the journal rows of these jobs, with payloads. The answer leaves out jobs without a row, jobs
// with an outcome, and rows that their submits may still take back.
func (a *Archive) LivingOf(ctx context.Context, ids []job.ID) ([]job.JournalRow, error) {
	var living []job.JournalRow
	for part := range slices.Chunk(ids, job.MaxBatch) {
		var rows []acceptedRow
		if err := a.db.Read.WithContext(ctx).Raw(livingOf, sameLength(part)).Scan(&rows).Error; err != nil {
			return nil, database.Unavailable("read the journal", err)
		}
		for i := range rows {
			l, err := rows[i].living()
			if err != nil { // the job lives on without its unreadable options
				a.db.Log.Error("an accepted job cannot be read whole", "job_id", rows[i].JobID, "err", err)
			}
			living = append(living, l)
		}
	}
	return living, nil
}

// sameLength repeats the last id up to job.MaxBatch, so that only one statement is prepared.
func sameLength(ids []job.ID) []string {
	keys := make([]string, job.MaxBatch)
	for i := range keys {
		keys[i] = string(ids[min(i, len(ids)-1)])
	}
	return keys
}

const outcomesOf = "SELECT job_id, generation, outcome FROM job_outcomes " +
	"WHERE job_id IN ? AND outcome <> 'COMPLETED' " +
	"UNION ALL SELECT job_id, generation, 'COMPLETED' FROM job_results WHERE job_id IN ? ORDER BY job_id, generation"

// Outcomes reads the outcome of each ended generation of these jobs. A job without an outcome is not in the
// answer. After job.ErrUnavailable nothing is known about any of them.
func (a *Archive) Outcomes(ctx context.Context, ids []job.ID) (map[job.ID][]job.Recorded, error) {
	all := map[job.ID][]job.Recorded{}
	for part := range slices.Chunk(ids, job.MaxBatch) {
		var rows []outcomeRow
		keys := sameLength(part)
		if err := a.db.Read.WithContext(ctx).Raw(outcomesOf, keys, keys).Scan(&rows).Error; err != nil {
			return nil, database.Unavailable("read outcomes", err)
		}
		for _, r := range rows {
			id := job.ID(r.JobID)
			all[id] = append(all[id], job.Recorded{Generation: r.Generation, Status: job.Status(r.Outcome)})
		}
	}
	return all, nil
}
