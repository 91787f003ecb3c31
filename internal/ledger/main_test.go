package ledger

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"go.uber.org/goleak"

	"github.com/tierq/tierq/internal/job"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func testID(n int) job.ID { return job.ID(fmt.Sprintf("019de340-01fe-7a58-be69-0000%06x%02x", n, n%2)) }

var (
	someID  = testID(1)
	bystand = testID(2)
)

// listOf pages through jobs by id. The cursor is the number of jobs before the page.
func listOf(jobs map[job.ID]job.Job, f job.Filter, cursor string, limit int) (items []job.Job, next string, err error) {
	var all []job.Job
	for _, j := range jobs {
		if f.Takes(&j) {
			all = append(all, j)
		}
	}
	slices.SortFunc(all, func(a, b job.Job) int { return cmp.Compare(a.ID, b.ID) })
	from := 0
	if cursor != "" {
		if from, err = strconv.Atoi(cursor); err != nil || from > len(all) {
			return nil, "", job.ErrBadCursor
		}
	}
	to := min(from+limit, len(all))
	if to < len(all) {
		next = strconv.Itoa(to)
	}
	return all[from:to], next, nil
}

// given returns a ledger over two fakes.
func given(redis map[job.ID]job.Job, sql map[job.ID]job.DeadLetter) (*Ledger, *fakeRedis, *fakeSQL) {
	r := &fakeRedis{jobs: redis, attempts: map[job.ID][]job.Attempt{}, run: "run-1"}
	if redis == nil {
		r.jobs = map[job.ID]job.Job{}
	}
	j := &fakeJournal{rows: map[job.ID]job.JournalRow{}, ended: map[job.ID]bool{}}
	s := &fakeSQL{rows: sql, attempts: map[job.ID][]job.Attempt{}, living: j}
	j.sql = s
	for id, d := range sql {
		if d.Status == job.Failed && !d.Open() {
			j.rows[id] = d.Next(1)
		}
	}
	plans := &job.PlanBook{}
	plans.Set(job.DefaultPlans())
	return New(
		Options{
			Live: r, Mover: r, Archive: s, DeadLetters: s, Promises: s, Reasons: s, Plans: plans, Partitions: 2,
			Rows: j, Restorer: &restorer{fakeRedis: r, broken: -1},
		},
	), r, s
}

func is(id job.ID, status job.Status, generation int) job.Job {
	return job.Job{ID: id, Status: status, Generation: generation, Tier: job.Paid, Attempt: 3, Payload: []byte(`{}`)}
}

func living(status job.Status, generation int) map[job.ID]job.Job {
	return map[job.ID]job.Job{someID: is(someID, status, generation), bystand: is(bystand, job.Pending, 1)}
}

func archived(status job.Status, generation int) map[job.ID]job.DeadLetter {
	return map[job.ID]job.DeadLetter{someID: {Job: is(someID, status, generation)}}
}
