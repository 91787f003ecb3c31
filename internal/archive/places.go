package archive

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"gorm.io/gorm"

	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/job"
)

// What has a reserved place in Redis: a WAITING job of a flow, a job that has a journal row and is not in Redis yet,
// and the jobs that a batch will owe at the end of its present round.

const (
	placesWaiting = "SELECT job_id FROM flow_jobs WHERE job_id IN ? AND status = 'WAITING'"
	placesLiving  = "SELECT a.job_id FROM accepted_jobs a WHERE a.job_id IN ? AND " + unended
	placesEnded   = "SELECT job_id, generation FROM job_results WHERE job_id IN ? UNION ALL " +
		"SELECT job_id, generation FROM job_outcomes WHERE job_id IN ?"
	placesOpen = "SELECT * FROM batches WHERE id IN ? AND ended_round < round"

	// These read the pages of Places.
	pageWaiting = "SELECT job_id, generation, tier, owner, queue, options, LENGTH(payload) AS bytes FROM flow_jobs " +
		"WHERE status = 'WAITING' AND job_id > ? ORDER BY job_id LIMIT ?"
	pageLiving = "SELECT a.job_id, a.generation, a.tier, a.owner, a.options, a.due_at, a.first_tried_at, " +
		"LENGTH(a.payload) AS bytes FROM accepted_jobs a WHERE a.job_id > ? AND " + unended + " ORDER BY a.job_id LIMIT ?"
	pageOpen = "SELECT * FROM batches WHERE id > ? AND ended_round < round ORDER BY id LIMIT ?"
)

// NeededPlaces says of each place whether SQL has a job that needs it.
func (a *Archive) NeededPlaces(ctx context.Context, places []job.Reserved) error {
	needed := map[job.ID]bool{}
	for part := range slices.Chunk(places, maxBatch) {
		var ids, batches []job.ID
		for _, p := range part {
			ids = append(ids, p.ID)
			if p.Batch != "" {
				batches = append(batches, p.Batch)
			}
		}
		// The writing connection: a row that is not reached must not look absent.
		db := a.db.Write.WithContext(ctx)
		// First, because the transaction of an end writes the callback too.
		if err := needForEnds(db, part, needed); err != nil {
			return database.Unavailable("look for the ends of places", err)
		}
		for _, query := range []string{placesWaiting, placesLiving} {
			var found []job.ID
			if err := db.Raw(query, padded(ids, database.SizeFor(len(ids)))).Scan(&found).Error; err != nil {
				return database.Unavailable("look for the jobs of places", err)
			}
			for _, id := range found {
				needed[id] = true
			}
		}
		if len(batches) == 0 {
			continue
		}
		var open []batchRow
		if err := db.Raw(placesOpen, padded(batches, database.SizeFor(len(batches)))).Scan(&open).Error; err != nil {
			return database.Unavailable("look for the batches of places", err)
		}
		for i := range open {
			for _, place := range a.owedBy(&open[i]) {
				needed[place.ID] = true
			}
		}
	}
	for i := range places {
		places[i].Needed = needed[places[i].ID]
	}
	return nil
}

// needForEnds notes the places of the callbacks of jobs whose end SQL does not have yet.
func needForEnds(db *gorm.DB, places []job.Reserved, needed map[job.ID]bool) error {
	var ids []job.ID
	for _, p := range places {
		if id, _, ends := strings.Cut(p.Ended, ":"); ends {
			ids = append(ids, job.ID(id))
		}
	}
	if len(ids) == 0 {
		return nil
	}
	in := padded(ids, database.SizeFor(len(ids)))
	var rows []struct {
		JobID      string
		Generation int
	}
	if err := db.Raw(placesEnded, in, in).Scan(&rows).Error; err != nil {
		return err
	}
	known := map[string]bool{}
	for _, r := range rows {
		known[r.JobID+":"+strconv.Itoa(r.Generation)] = true
	}
	for _, p := range places {
		if p.Ended != "" && !known[p.Ended] {
			needed[p.ID] = true
		}
	}
	return nil
}

// owedBy returns the places of the jobs that a batch will owe.
func (a *Archive) owedBy(r *batchRow) []job.Reservation {
	b, err := r.batch()
	if err != nil {
		a.db.Log.Error("a batch is broken and has no places", "batch_id", r.ID, "err", err)
		return nil
	}
	if a.placesOf == nil {
		return nil
	}
	return a.placesOf(b)
}

// PlacesOfBatches sets the function that returns the places of the jobs that a batch will owe. Set it before anything
// is read; without it batches have none.
func (a *Archive) PlacesOfBatches(places func(*job.Batch) []job.Reservation) { a.placesOf = places }

// FreePlaces sets the function that gives places back whose jobs will not come: the batch owes them no more. Set it
// before anything is written.
func (a *Archive) FreePlaces(free func([]job.ID)) { a.freePlaces = free }

// unowed has the places that a transaction makes needless.
type unowed struct{ ids []job.ID }

type unowedKey struct{}

// withUnowed returns a ctx in which endRound notes places. After the transaction committed, tellUnowed gives them back.
func withUnowed(ctx context.Context) (context.Context, *unowed) {
	u := &unowed{}
	return context.WithValue(ctx, unowedKey{}, u), u
}

func (a *Archive) tellUnowed(u *unowed) {
	if len(u.ids) > 0 && a.freePlaces != nil {
		a.freePlaces(u.ids)
	}
}

// noteUnowed notes the places of a batch whose round has ended that are not those of the jobs which it owes now.
func (a *Archive) noteUnowed(ctx context.Context, b *job.Batch, owed []job.JournalRow) {
	u, noting := ctx.Value(unowedKey{}).(*unowed)
	if !noting || a.placesOf == nil {
		return
	}
	for _, place := range a.placesOf(b) {
		if !slices.ContainsFunc(owed, func(l job.JournalRow) bool { return l.ID == place.ID }) {
			u.ids = append(u.ids, place.ID)
		}
	}
}

// placeRow is a job that needs a place, as a query reads it.
type placeRow struct {
	JobID        string
	Generation   int
	Tier         string
	Owner        string
	Queue        string
	Options      []byte
	Bytes        int
	DueAt        *string
	FirstTriedAt *string
}

func (r *placeRow) place(waits bool) job.Reservation {
	o, _ := job.ReadOptions(string(r.Options)) // the job comes without options that cannot be read
	if r.Queue != "" {
		o.Queue = r.Queue
	}
	return job.Reservation{
		ID: job.ID(r.JobID), Tier: job.Tier(r.Tier), Owner: r.Owner, Generation: r.Generation, Options: o, Bytes: r.Bytes,
		Waits: waits || r.DueAt != nil, Started: r.FirstTriedAt != nil,
	}
}

// Places reads the next places that SQL's jobs need, whether or not Redis has these jobs by now. "" is the first cursor
// and the last next.
func (a *Archive) Places(ctx context.Context, cursor string, limit int) (places []job.Reservation, next string,
	err error) {
	of, after, _ := strings.Cut(cursor, ":")
	db := a.db.Read.WithContext(ctx)
	var last string
	var n int
	switch of {
	case "", "flows":
		of = "flows"
		var rows []placeRow
		err = db.Raw(pageWaiting, after, limit).Scan(&rows).Error
		for i := range rows {
			places, last = append(places, rows[i].place(true)), rows[i].JobID
		}
		n = len(rows)
	case "jobs":
		var rows []placeRow
		err = db.Raw(pageLiving, after, limit).Scan(&rows).Error
		for i := range rows {
			places, last = append(places, rows[i].place(false)), rows[i].JobID
		}
		n = len(rows)
	default:
		var rows []batchRow
		err = db.Raw(pageOpen, after, limit).Scan(&rows).Error
		for i := range rows {
			places, last = append(places, a.owedBy(&rows[i])...), rows[i].ID
		}
		n = len(rows)
	}
	if err != nil {
		return nil, "", database.Unavailable("read the places that jobs need", err)
	}
	if n == limit {
		return places, of + ":" + last, nil
	}
	return places, map[string]string{"flows": "jobs:", "jobs": "batches:"}[of], nil
}
