package archive_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/archive/archivetest"
	"github.com/tierq/tierq/internal/database/databasetest"
	"github.com/tierq/tierq/internal/job"
)

// back takes rows back and compares the answer with want.
func back(t *testing.T, j *archive.Journal, rows []job.JournalRow, want ...bool) {
	t.Helper()
	if gone, err := j.TakeBack(t.Context(), rows); err != nil || !slices.Equal(gone, want) {
		t.Errorf("gone: %v, %v; want %v", gone, err, want)
	}
}

// there returns how many rows and keys the jobs have.
func there(t *testing.T, s *archivetest.Store, jobs ...int) (rows, keys int) {
	t.Helper()
	for _, n := range jobs {
		rows += s.Count(t, "accepted_jobs WHERE job_id = ?", string(id(n)))
		keys += s.Count(t, "idempotency_keys WHERE job_id = ?", string(id(n)))
	}
	return rows, keys
}

// A refused submit takes back its row and its key: once, and no other row or key.
func TestTakeBack(t *testing.T) {
	t.Parallel()
	archivetest.EachJournal(t, func(t *testing.T, s *archivetest.Store) {
		j := journal(t, s.Archive, archive.JournalOptions{})
		keyless := submitting(3)
		keyless.Idempotency = job.Idempotency{}
		done(t, submit(t.Context(), j, submitting(1), submitting(2), keyless, submitting(4)))
		done(t, j.Claimed(t.Context(), nil))
		if gone, err := j.TakeBack(t.Context(), nil); len(gone) != 0 || err != nil {
			t.Errorf("nothing to take back: %v, %v", gone, err)
		}

		back(t, j, []job.JournalRow{submitting(9), keyless, submitting(1)}, false, true, true)
		if rows, keys := there(t, s, 1, 3); rows != 0 || keys != 0 {
			t.Errorf("%d rows and %d keys were left", rows, keys)
		}
		back(t, j, []job.JournalRow{submitting(1), keyless}, false, false)
		if rows, keys := there(t, s, 2, 4); rows != 2 || keys != 2 {
			t.Errorf("the bystanders have %d rows and %d keys", rows, keys)
		}

		// The key is free: a repeat of the refused submit makes a new job.
		meets(t, s, j, under(5, 1), job.KeyHolder{})
		back(t, j, []job.JournalRow{submitting(1)}, false)
		meets(t, s, j, under(6, 1), job.KeyHolder{ID: id(5), Submitting: true})

		// A key that another job took over in the meantime stays.
		const expire = "UPDATE idempotency_keys SET expires_at = '2026-01-01 00:00:00.000000' WHERE job_id = ?"
		execute(t, s.DB, expire, string(id(2)))
		meets(t, s, j, under(7, 2), job.KeyHolder{})
		back(t, j, []job.JournalRow{submitting(2)}, true)
		if rows, keys := there(t, s, 7); rows != 1 || keys != 1 {
			t.Errorf("the one that took the key over has %d rows and %d keys", rows, keys)
		}
		if n := s.Count(t, "accepted_jobs"); n != 3 || s.Count(t, "idempotency_keys") != 3 {
			t.Errorf("%d rows, %d keys", n, s.Count(t, "idempotency_keys"))
		}
	})
}

// A submit cannot take back a row whose job Redis has, or is given, or that another caller knows. Row and key
// stay, and the answer is false.
func TestTakeBack_NotTheSubmits(t *testing.T) {
	t.Parallel()
	for name, hand := range map[string]func(s *archivetest.Store, j *archive.Journal, ctx context.Context) error{
		"owed": func(s *archivetest.Store, _ *archive.Journal, ctx context.Context) error {
			return s.Owe(ctx, []job.ID{id(1)})
		},
		"found": func(s *archivetest.Store, _ *archive.Journal, ctx context.Context) error {
			return s.Found(ctx, firstLives(id(1)), "run-1")
		},
		"to be cancelled": func(s *archivetest.Store, _ *archive.Journal, ctx context.Context) error {
			return s.Cancelling(ctx, id(1), "run-1")
		},
		"to be cancelled, as SQL alone knows": func(s *archivetest.Store, _ *archive.Journal, ctx context.Context) error {
			return s.Cancelling(ctx, id(1), "")
		},
		"claimed": func(_ *archivetest.Store, j *archive.Journal, ctx context.Context) error {
			return j.Claimed(ctx, []job.Lease{lease(1, 1, 1)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			archivetest.EachJournal(t, func(t *testing.T, s *archivetest.Store) {
				j := journal(t, s.Archive, archive.JournalOptions{Incarnation: func(int) string { return "run-1" }})
				done(t, submit(t.Context(), j, submitting(1), submitting(2)))
				done(t, hand(s, j, t.Context()))
				row := accepted(t, s, 1)
				back(t, j, []job.JournalRow{submitting(1), submitting(2)}, false, true)
				check(t, name, accepted(t, s, 1), row)
				if rows, keys := there(t, s, 1); rows != 1 || keys != 1 {
					t.Errorf("%d rows, %d keys", rows, keys)
				}
				if rows, keys := there(t, s, 2); rows != 0 || keys != 0 {
					t.Errorf("the one beside it has %d rows, %d keys", rows, keys)
				}
				meets(t, s, j, under(3, 1), job.KeyHolder{ID: id(1)})
			})
		})
	}
}

// Rows are taken back and owed in groups of 500. The last group is padded and changes no other row.
func TestTakeBack_Many(t *testing.T) {
	t.Parallel()
	archivetest.EachJournal(t, func(t *testing.T, s *archivetest.Store) {
		j := journal(t, s.Archive, archive.JournalOptions{})
		const rows, owed = 1203, 601
		all := make([]job.JournalRow, rows)
		for n := range all {
			all[n] = submitting(n)
		}
		done(t, submit(t.Context(), j, all...))
		done(t, submit(t.Context(), j, submitting(5000)))
		var ids []job.ID
		for n := range owed {
			ids = append(ids, id(2*n))
		}
		slices.Reverse(ids)
		given := slices.Clone(ids)
		done(t, s.Owe(t.Context(), append(ids, id(9000))))
		if !slices.Equal(ids, given) {
			t.Error("the caller's ids are in another order")
		}
		if n := s.Count(t, "accepted_jobs WHERE submitting = 0"); n != owed {
			t.Errorf("%d are owed, want %d", n, owed)
		}
		before := j.Stats().Batches
		gone, err := j.TakeBack(t.Context(), all)
		done(t, err)
		for n := range gone {
			if want := n%2 == 1 || n == rows-1; gone[n] != want {
				t.Fatalf("job %d is gone: %v", n, gone[n])
			}
		}
		if n := j.Stats().Batches - before; n != 3 {
			t.Errorf("%d transactions", n)
		}
		left := owed + 1
		if n, keys := s.Count(t, "accepted_jobs"), s.Count(t, "idempotency_keys"); n != left || keys != left {
			t.Errorf("%d rows, %d keys; want %d", n, keys, left)
		}
	})
}

// Owe changes nothing else in a row, and no other row.
func TestOwe(t *testing.T) {
	t.Parallel()
	archivetest.EachJournal(t, func(t *testing.T, s *archivetest.Store) {
		j := journal(t, s.Archive, archive.JournalOptions{})
		done(t, submit(t.Context(), j, submitting(1), submitting(2), living(3)))
		done(t, s.Owe(t.Context(), nil))
		for range 2 {
			done(t, s.Owe(t.Context(), []job.ID{id(9), id(3), id(1)}))
		}
		check(t, "owed", accepted(t, s, 1), fresh(1, map[string]any{"run_id": ""}))
		check(t, "the bystander", accepted(t, s, 2), fresh(2, map[string]any{"run_id": "", "submitting": int64(1)}))
		check(t, "owed, and Redis had it", accepted(t, s, 3), fresh(3, nil))
		if n := s.Count(t, "accepted_jobs"); n != 3 {
			t.Errorf("%d rows", n)
		}
		execute(t, s.DB, "DROP TABLE accepted_jobs")
		if err := s.Owe(t.Context(), []job.ID{id(1)}); !errors.Is(err, job.ErrUnavailable) {
			t.Errorf("no table: %v", err)
		}
	})
}

// Repeats race the take back of the submit that they repeat: each job that a repeat meets has its row. A key
// without a row would answer repeats with a job that does not exist.
func TestTakeBack_RacesRepeats(t *testing.T) {
	t.Attr("proves", "F19 S13")
	t.Parallel()
	t.Run("mariadb", func(t *testing.T) {
		s := archivetest.NewJournal(t, databasetest.MariaDB(t))
		const rounds, processes, repeats = 40, 4, 5
		journals := []*archive.Journal{journal(t, s.Archive, archive.JournalOptions{})}
		for len(journals) < processes {
			journals = append(journals, journal(t, s.Beside(t), archive.JournalOptions{}))
		}
		var mu sync.Mutex
		met, fresh := 0, 0
		for round := range rounds {
			first := 1000 * (round + 1)
			done(t, submit(t.Context(), journals[0], submitting(first)))
			key := submitting(first).Idempotency
			sound := func(who string, h job.KeyHolder, err error) {
				mu.Lock()
				defer mu.Unlock()
				if err != nil || h.ID != "" && (!h.Submitting || h.OtherBody) {
					t.Errorf("round %d: %s meets %+v, %v", round, who, h, err)
				}
				if h.ID == "" {
					fresh++
				} else {
					met++
				}
			}
			var all, step sync.WaitGroup
			step.Add(1 + 2*(processes-1)*repeats)
			all.Go(func() {
				step.Done()
				step.Wait()
				gone, err := journals[0].TakeBack(t.Context(), []job.JournalRow{submitting(first)})
				if err != nil || !slices.Equal(gone, []bool{true}) {
					t.Errorf("round %d: gone: %v, %v", round, gone, err)
				}
			})
			for p := 1; p < processes; p++ {
				for r := range repeats {
					all.Go(func() {
						step.Done()
						step.Wait()
						held, err := journals[p].Submit(t.Context(), []job.JournalRow{under(first+p*repeats+r, first)})
						if len(held) != 1 {
							held = []job.KeyHolder{{}}
						}
						sound(fmt.Sprint("a repeat of process ", p), held[0], err)
					})
					all.Go(func() {
						step.Done()
						step.Wait()
						h, err := journals[p].Holder(t.Context(), key)
						sound("a look", h, err)
					})
				}
			}
			all.Wait()
			if n := s.Count(t, "accepted_jobs WHERE idempotency_key = ?", key.Key); n > 1 {
				t.Errorf("round %d: %d jobs under one key", round, n)
			}
		}
		orphans := s.Count(t, "idempotency_keys k LEFT JOIN accepted_jobs a ON a.job_id = k.job_id WHERE a.job_id IS NULL")
		bare := s.Count(t, "accepted_jobs a LEFT JOIN idempotency_keys k ON a.job_id = k.job_id WHERE k.job_id IS NULL")
		if orphans != 0 || bare != 0 {
			t.Errorf("%d keys without a row, %d rows without their key", orphans, bare)
		}
		t.Logf("%d met a job, %d met none; %d repeats became the job", met, fresh, s.Count(t, "accepted_jobs"))
	})
}
