package archive_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/archive/archivetest"
	"github.com/tierq/tierq/internal/job"
)

// modelBatch is what a batch must be, worked out without SQL.
type modelBatch struct {
	id      job.ID
	on      job.ThenOn
	sealed  bool
	round   int
	ended   int            // the last round that ended
	thens   map[job.ID]int // the then jobs that are owed, and how often each was owed
	members map[int]*modelMember
}

type modelMember struct {
	generation int
	status     job.Status // "" = it lives
}

func (m *modelBatch) counts() (b job.Batch) {
	b = job.Batch{ID: m.id, Sealed: m.sealed, Round: m.round, EndedRound: m.ended, Total: int64(len(m.members)),
		BatchSpec: job.BatchSpec{Then: &job.Then{On: m.on}}}
	for _, one := range m.members {
		switch one.status {
		case job.Completed:
			b.Completed++
		case job.Failed:
			b.Failed++
		case job.Cancelled:
			b.Cancelled++
		case job.Expired:
			b.Expired++
		}
	}
	return b
}

// turn ends the round if it has to end.
func (m *modelBatch) turn() {
	b := m.counts()
	if !m.sealed || b.Ended() < b.Total || m.ended == m.round {
		return
	}
	m.ended = m.round
	b = m.counts()
	if then, owed := b.ThenJob(); owed {
		m.thens[then.ID]++
	}
}

// pick returns the number of a living member, or of a failed member; -1 = there is none.
func (m *modelBatch) pick(rng *rand.Rand, status job.Status) int {
	best := -1
	for n, one := range m.members {
		if one.status == status && (best < 0 || rng.IntN(2) == 0) {
			best = n
		}
	}
	return best
}

// Whatever happens in whatever order, batches in SQL are what the model says: submits, take-backs, ends, ends that two
// writers store at once, requeues, repeats of all of them, and seals.
func TestBatchModel(t *testing.T) {
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		for seed := range uint64(modelSeeds) {
			batchModel(t, s, seed)
		}
	})
}

const modelSeeds = 6

func batchModel(t *testing.T, s *archivetest.Store, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 44))
	beside := s.Beside(t)
	beside.OwesOfBatches(owesThen)
	j := journal(t, s.Archive, archive.JournalOptions{})
	writers := []*archive.Writer{
		start(t, s.Archive, nobody{}, archive.WriterOptions{}), start(t, beside, nobody{}, archive.WriterOptions{}),
	}
	var batches []*modelBatch
	next := int(seed) * 10_000
	for n := range 3 {
		on := []job.ThenOn{job.ThenFinished, job.ThenSucceeded}[rng.IntN(2)]
		id := newBatch(t, s.Archive, next+n, on)
		batches = append(batches, &modelBatch{id: id, on: on, round: 1, thens: map[job.ID]int{},
			members: map[int]*modelMember{}})
	}
	for step := range 150 {
		m := batches[rng.IntN(len(batches))]
		switch roll := rng.IntN(100); {
		case roll < 35: // a submit, or its repeat
			next++
			err := joins(t, j, member(next, m.id))
			if refused := errors.Is(err, job.ErrSealed); refused != m.sealed {
				t.Fatalf("seed %d step %d: a submit: %v, sealed %v", seed, step, err, m.sealed)
			}
			if !m.sealed {
				m.members[next] = &modelMember{generation: 1}
			}
			if rng.IntN(4) == 0 && !m.sealed {
				_ = joins(t, j, member(next, m.id))
			}
		case roll < 40: // a take-back of a submit that Redis refused
			n := m.pick(rng, "")
			if n < 0 || m.members[n].generation > 1 {
				continue
			}
			gone, err := j.TakeBack(t.Context(), []job.JournalRow{member(n, m.id)})
			if err != nil || !gone[0] {
				t.Fatalf("seed %d step %d: a take-back: %v, %v", seed, step, gone, err)
			}
			delete(m.members, n)
		case roll < 75: // some ends, which two writers may store at once
			var outcomes []job.Outcome
			for range 1 + rng.IntN(3) {
				of := batches[rng.IntN(len(batches))]
				n := of.pick(rng, "")
				if n < 0 {
					continue
				}
				status := []job.Status{job.Completed, job.Completed, job.NeedDiscard, job.Cancelled, job.Expired}[rng.IntN(5)]
				outcomes = append(outcomes, ends(n, of.members[n].generation, of.id, status))
				of.members[n].status = status.Shown()
			}
			var both sync.WaitGroup
			for _, w := range writers[:1+rng.IntN(2)] {
				both.Go(func() { record(t, w, outcomes...) })
			}
			both.Wait()
			for _, of := range batches {
				of.turn()
			}
		case roll < 92: // a requeue, or its repeat
			n := m.pick(rng, job.Failed)
			if n < 0 {
				continue
			}
			one := m.members[n]
			one.generation, one.status = one.generation+1, ""
			if m.ended == m.round {
				m.round++
			}
			l := living(n)
			l.Generation, l.Batch = one.generation, string(m.id)
			for range 1 + rng.IntN(2) {
				mine, err := beside.PromiseRequeues(t.Context(), []job.JournalRow{l},
					job.Request{ID: fmt.Sprint(seed, n, one.generation)})
				if err != nil || !mine[0] {
					t.Fatalf("seed %d step %d: a requeue: %v, %v", seed, step, mine, err)
				}
			}
		default:
			if step < 60 {
				continue
			}
			if _, _, err := beside.SealBatch(t.Context(), m.id, rng.IntN(2) == 0); err != nil {
				t.Fatal(err)
			}
			m.sealed = true
		}
		for _, m := range batches {
			m.turn()
			agrees(t, s, m, fmt.Sprintf("seed %d step %d", seed, step))
		}
		if t.Failed() {
			return
		}
	}
}

// agrees compares a batch in SQL with its model.
func agrees(t *testing.T, s *archivetest.Store, m *modelBatch, when string) {
	t.Helper()
	got, want := batch(t, s.Archive, m.id), m.counts()
	if got.Counts() != (job.BatchCounts{BatchID: m.id, Name: "import", Round: want.Round, Total: want.Total,
		Completed: want.Completed, Failed: want.Failed, Cancelled: want.Cancelled, Expired: want.Expired}) ||
		got.EndedRound != want.EndedRound || got.State() != want.State() {
		t.Errorf("%s: the batch is %s %+v, want %s %+v", when, got.State(), got, want.State(), want)
	}
	for id, times := range m.thens {
		if n := s.Count(t, "accepted_jobs WHERE job_id = ?", string(id)); n != 1 || times != 1 {
			t.Errorf("%s: the then job %s has %d rows, and was owed %d times", when, id, n, times)
		}
	}
	n := s.Count(t, "accepted_jobs WHERE CAST(options AS CHAR) LIKE ?", "%thenOf\":\""+string(m.id)+"%")
	if n != len(m.thens) {
		t.Errorf("%s: %d then jobs, want %d", when, n, len(m.thens))
	}
}

// Members that join, end and are taken back in many goroutines and two processes leave exact counts, and the round ends
// once.
func TestBatchAtOnce(t *testing.T) {
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		beside := s.Beside(t)
		beside.OwesOfBatches(owesThen)
		ids := []job.ID{newBatch(t, s.Archive, 1, job.ThenFinished), newBatch(t, s.Archive, 2, job.ThenFinished)}
		stores := []*archive.Archive{s.Archive, beside}
		var journals []*archive.Journal
		var writers []*archive.Writer
		for _, a := range stores {
			journals = append(journals, journal(t, a, archive.JournalOptions{}))
			writers = append(writers, start(t, a, nobody{}, archive.WriterOptions{}))
		}
		const each = 40
		var all, sealing sync.WaitGroup
		for g := range 8 {
			all.Go(func() {
				for i := range each {
					n, b := g*each+i, ids[g%2]
					if err := joins(t, journals[(g/2)%2], member(n, b)); err != nil {
						t.Error(err)
					}
					if i%8 == 7 {
						if _, err := journals[(g/2)%2].TakeBack(t.Context(), []job.JournalRow{member(n, b)}); err != nil {
							t.Error(err)
						}
						continue
					}
					o := ends(n, 1, b, job.Completed)
					all.Go(func() { record(t, writers[0], o) })
					all.Go(func() { record(t, writers[1], o) })
				}
			})
		}
		all.Wait()
		for i, id := range ids {
			for _, a := range stores { // both processes seal
				sealing.Go(func() {
					if _, _, err := a.SealBatch(t.Context(), id, false); err != nil {
						t.Error(err)
					}
				})
			}
			sealing.Wait()
			b := batch(t, stores[i], id)
			if want := int64(4 * (each - each/8)); b.Total != want || b.Completed != want || b.State() != job.BatchFinished {
				t.Errorf("%d of %d ended: %s", b.Completed, b.Total, b.State())
			}
		}
		owedThens(t, s, 2)
	})
}
