package ledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// PlaceTable is SQL, which has the jobs that need places in Redis.
type PlaceTable interface {
	// NeededPlaces says of each place whether SQL has a job that needs it.
	NeededPlaces(ctx context.Context, places []job.Reserved) error
	// Places reads the places that SQL's jobs need, page by page: "" is the first cursor and the last next.
	Places(ctx context.Context, cursor string, limit int) (places []job.Reservation, next string, err error)
}

// PlaceKeeper is Redis, which has the places.
type PlaceKeeper interface {
	Reserve(ctx context.Context, partition int, jobs []job.Reservation, forced bool) ([]job.SubmitReply, error)
	Unreserve(ctx context.Context, partition int, looked []job.Reserved) error
	Reserving(ctx context.Context, partition int, before time.Time, limit int) ([]job.Reserved, error)
	ScanReserved(ctx context.Context, partition int, cursor string) (found []job.Reserved, next string, err error)
}

// Places holds the reserved places in Redis to the jobs that SQL has. Apart from Sync it is safe for concurrent use.
type Places struct {
	SQL        PlaceTable
	Redis      PlaceKeeper
	Partitions int
	Now        func() time.Time // Redis' clock
	Log        *slog.Logger

	runs string // the incarnations at the last Sync, which only Reconcile calls
}

const (
	// youngPlace is the age from which a place is looked for in SQL: before that age the transaction that needs it may
	// be under way.
	youngPlace = 15 * time.Second
	placesPage = 500
	// placesPages bounds the pages of one Sweep. The next one goes on.
	placesPages = 20
)

// Sweep looks in SQL for the jobs of places that were reserved a while ago: SQL has the job, and the place is kept, or
// no transaction has written it, and the place is given back.
func (p *Places) Sweep(ctx context.Context) error {
	var problems []error
	for partition := range p.Partitions {
		problems = append(problems, p.sweep(ctx, partition))
	}
	return errors.Join(problems...)
}

func (p *Places) sweep(ctx context.Context, partition int) error {
	before := p.Now().Add(-youngPlace)
	for range placesPages {
		found, err := within(ctx, livePatience, func(ctx context.Context) ([]job.Reserved, error) {
			return p.Redis.Reserving(ctx, partition, before, placesPage)
		})
		if err != nil || len(found) == 0 {
			return err
		}
		if _, err := p.hold(ctx, partition, found); err != nil {
			return err
		}
	}
	return nil
}

// hold gives back those places that no job of SQL needs, and returns how many there were.
func (p *Places) hold(ctx context.Context, partition int, found []job.Reserved) (freed int, err error) {
	_, err = within(ctx, listPatience, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, p.SQL.NeededPlaces(ctx, found)
	})
	if err != nil {
		return 0, err
	}
	for i := range found {
		if !found[i].Needed {
			freed++
		}
	}
	_, err = within(ctx, livePatience, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, p.Redis.Unreserve(ctx, partition, found)
	})
	return freed, err
}

// Check makes a step of a walk over all places that compares them with SQL: it gives back those that no job needs, and
// reserves those that are missing. "" begins the walk, and next is "" at its end. found says what was repaired. A place
// that SQL has not confirmed yet is left to Sweep.
func (p *Places) Check(ctx context.Context, at string) (found []job.Finding, next string, err error) {
	walk, cursor, _ := strings.Cut(at, " ")
	if walk == "sql" {
		var missing []int
		missing, next, err = p.reservePage(ctx, cursor)
		if strings.HasPrefix(next, "jobs:") { // the journal's own walk restores them
			next = "batches:"
		}
		for partition, n := range missing {
			found = append(found, repairedPlaces(partition, n, "missing, SQL has the job")...)
		}
		if next != "" {
			next = "sql " + next
		}
		return found, next, err
	}
	partition, _ := strconv.Atoi(walk)
	places, cursor, err := p.Redis.ScanReserved(ctx, partition, cursor)
	if err == nil && len(places) > 0 {
		var freed int
		freed, err = p.hold(ctx, partition, places)
		found = repairedPlaces(partition, freed, "SQL has no job for it")
	}
	switch {
	case cursor != "":
		next = strconv.Itoa(partition) + " " + cursor
	case partition+1 < p.Partitions:
		next = strconv.Itoa(partition + 1)
	default:
		next = "sql"
	}
	return found, next, err
}

func repairedPlaces(partition, n int, why string) []job.Finding {
	if n == 0 {
		return nil
	}
	detail := fmt.Sprintf("%d reserved: %s", n, why)
	return []job.Finding{{Partition: partition, Result: job.Repaired, Kind: "place", Detail: detail}}
}

// Rebuild reserves the places of all jobs that SQL has, in the partitions that have lost theirs. rows says whether that
// includes the jobs that have a journal row: they count until they are restored.
func (p *Places) Rebuild(ctx context.Context, rows bool, lost func(partition int) bool) error {
	for cursor, more := "", true; more; more = cursor != "" {
		page, next, err := p.page(ctx, cursor)
		if err == nil {
			page = slices.DeleteFunc(page, func(r job.Reservation) bool { return !lost(r.ID.Partition()) })
			_, err = p.reserve(ctx, page)
		}
		if err != nil {
			return err
		}
		if cursor = next; !rows && strings.HasPrefix(cursor, "jobs:") {
			cursor = "batches:"
		}
	}
	return nil
}

// Sync reserves again what waits in SQL if a partition has begun another incarnation: a server that took over may lack
// places. runs are the present incarnations.
func (p *Places) Sync(ctx context.Context, runs []string) error {
	now := strings.Join(runs, " ")
	if now == p.runs {
		return nil
	}
	if p.runs != "" {
		if err := p.Rebuild(ctx, false, func(partition int) bool {
			return partition >= 0 && partition < len(runs) && runs[partition] != ""
		}); err != nil {
			return err
		}
	}
	p.runs = now
	return nil
}

// reservePage reserves the places of a page of SQL's jobs, and returns how many were missing in each partition.
func (p *Places) reservePage(ctx context.Context, cursor string) (missing []int, next string, err error) {
	page, next, err := p.page(ctx, cursor)
	if err != nil {
		return nil, "", err
	}
	missing, err = p.reserve(ctx, page)
	return missing, next, err
}

// reserve reserves places whatever the limits say, and returns how many were missing in each partition.
func (p *Places) reserve(ctx context.Context, page []job.Reservation) (missing []int, err error) {
	missing = make([]int, p.Partitions)
	of := map[int][]job.Reservation{}
	for i := range page {
		if at := page[i].ID.Partition(); at >= 0 && at < p.Partitions {
			of[at] = append(of[at], page[i])
		}
	}
	for partition, jobs := range of {
		replies, err := within(ctx, livePatience, func(ctx context.Context) ([]job.SubmitReply, error) {
			return p.Redis.Reserve(ctx, partition, jobs, true)
		})
		if err != nil {
			return missing, err
		}
		for _, r := range replies {
			if r.Word == job.OK {
				missing[partition]++
			}
		}
	}
	return missing, nil
}

func (p *Places) page(ctx context.Context, cursor string) (page []job.Reservation, next string, err error) {
	page, err = within(ctx, listPatience, func(ctx context.Context) (page []job.Reservation, err error) {
		page, next, err = p.SQL.Places(ctx, cursor, placesPage)
		return page, err
	})
	return page, next, err
}
