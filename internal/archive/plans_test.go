package archive_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/archive/archivetest"
	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/database/databasetest"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/testkit"
)

// aPlan returns a plan of the tier GOLD with a value in every field.
func aPlan(version int64) job.Plan {
	backoff := job.Backoff{Base: 2 * time.Second, Factor: 2.5, Cap: 5 * time.Minute, Jitter: 0.2}
	return job.Plan{
		Tier: "GOLD", Priority: 4, MaxRetries: int(version), HeartbeatTimeout: 1500 * time.Millisecond,
		MaxProcessingTime: 24 * time.Hour, Share: 60, Backoff: backoff, Version: version,
		TypeBackoff: map[string]job.Backoff{"SEND_EMAIL": {Base: time.Second, Factor: 1, Cap: time.Minute}},
	}
}

func nothing(context.Context) error { return nil }

func wantPlans(t *testing.T, a *archive.Archive, want ...job.Plan) {
	t.Helper()
	got, err := a.Plans(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A plan is read back as it was stored. A later version replaces it; the same version or an older one does not.
func TestPlansReplaced(t *testing.T) {
	t.Parallel()
	archivetest.Each(t, func(t *testing.T, a *archive.Archive) {
		got, err := a.Plans(t.Context())
		if len(got) != 0 || err != nil {
			t.Fatalf("a fresh database has the plans %v, %v", got, err)
		}
		for _, version := range []int64{1, 3} {
			if err := a.ReplacePlan(t.Context(), aPlan(version), nothing); err != nil {
				t.Fatal(err)
			}
			wantPlans(t, a, aPlan(version))
		}
		for _, version := range []int64{2, 3} {
			other := aPlan(version)
			other.Share = 7
			err := a.ReplacePlan(t.Context(), other, func(context.Context) error {
				t.Error("the plan was stored elsewhere")
				return nil
			})
			if !errors.Is(err, job.ErrChanged) {
				t.Errorf("version %d in place of 3: %v", version, err)
			}
		}
		wantPlans(t, a, aPlan(3))
		seed := job.DefaultPlans()[0]
		as := aPlan(3)
		as.Share = 7
		if err := a.KeepPlans(t.Context(), []job.Plan{seed, as}); err != nil {
			t.Fatal(err)
		}
		wantPlans(t, a, as, seed) // for the same version Redis' text wins
		if err := a.KeepPlans(t.Context(), []job.Plan{aPlan(2), seed}); err != nil {
			t.Fatal(err)
		}
		wantPlans(t, a, as, seed)
	})
}

// A row without maxCrashes is of a plan whose crashes count as retries; a row of an earlier version lacks other fields.
func TestPlansOfAnEarlierVersion(t *testing.T) {
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		stored, want := aPlan(1), aPlan(1)
		stored.MaxCrashes = new(7)
		stored.MaxWait, want.MaxWait = 90*time.Second, 90*time.Second
		if err := s.ReplacePlan(t.Context(), stored, nothing); err != nil {
			t.Fatal(err)
		}
		wantPlans(t, s.Archive, stored)
		execute(t, s.DB, `UPDATE plans SET plan = REPLACE(plan, '"maxCrashes":7,', '')`)
		wantPlans(t, s.Archive, want)
	})
}

// A plan that Redis refuses is not stored in SQL, and a plan that SQL does not take is never offered to Redis.
func TestPlansStoredInBothOrNeither(t *testing.T) {
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		for _, refusal := range []error{job.ErrUnavailable, job.ErrAmbiguous, job.ErrChanged} {
			err := s.ReplacePlan(t.Context(), aPlan(1), func(context.Context) error { return refusal })
			if !errors.Is(err, refusal) {
				t.Errorf("%v, want %v", err, refusal)
			}
			wantPlans(t, s.Archive, []job.Plan{}...)
		}
		if err := s.ReplacePlan(t.Context(), aPlan(1), nothing); err != nil {
			t.Fatal(err)
		}
		execute(t, s.DB, "DROP TABLE plans") // stands for any refusal of SQL
		err := s.ReplacePlan(t.Context(), aPlan(2), func(context.Context) error {
			t.Error("Redis was asked")
			return nil
		})
		if !errors.Is(err, job.ErrUnavailable) || errors.Is(err, job.ErrAmbiguous) {
			t.Error(err)
		}
	})
	t.Run("mariadb without its server", func(t *testing.T) {
		server := testkit.NewMariaDB(t)
		s := archivetest.New(t, database.Options{MySQLDSN: server.NewDatabase(t)})
		if err := s.ReplacePlan(t.Context(), aPlan(1), nothing); err != nil {
			t.Fatal(err)
		}
		err := s.ReplacePlan(t.Context(), aPlan(2), func(context.Context) error { return server.Kill() })
		if !errors.Is(err, job.ErrAmbiguous) { // Redis has the plan
			t.Errorf("the server went between Redis' answer and the commit: %v", err)
		}
		err = s.ReplacePlan(t.Context(), aPlan(2), func(context.Context) error {
			t.Error("Redis was asked")
			return nil
		})
		if !errors.Is(err, job.ErrUnavailable) || errors.Is(err, job.ErrAmbiguous) {
			t.Error(err)
		}
		if _, err := s.Plans(t.Context()); !errors.Is(err, job.ErrUnavailable) {
			t.Error(err)
		}
	})
}

// Of several processes that store one version of a plan, one succeeds.
func TestPlansReplacedAtOnce(t *testing.T) {
	t.Parallel()
	for backend, fresh := range databasetest.Backends {
		t.Run(backend, func(t *testing.T) {
			first := archivetest.New(t, fresh(t))
			other := first.Beside(t)
			var one sync.Mutex
			for version := range int64(5) {
				var all sync.WaitGroup
				stored, changed := 0, 0
				for n := range 6 {
					a := []*archive.Archive{first.Archive, other}[n%2]
					all.Go(func() {
						err := a.ReplacePlan(t.Context(), aPlan(version+1), nothing)
						one.Lock()
						defer one.Unlock()
						switch {
						case err == nil:
							stored++
						case errors.Is(err, job.ErrChanged):
							changed++
						default:
							t.Error(err)
						}
					})
				}
				all.Wait()
				if stored != 1 || changed != 5 {
					t.Errorf("version %d: %d stored it, %d found it changed", version+1, stored, changed)
				}
			}
			wantPlans(t, first.Archive, aPlan(5))
		})
	}
}

// A row that no server can have written is an error that names the tier.
func TestPlansUnreadable(t *testing.T) {
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		for _, text := range []string{"", "{", `{"priority":900}`} {
			if err := s.KeepPlans(t.Context(), []job.Plan{aPlan(1)}); err != nil {
				t.Fatal(err)
			}
			execute(t, s.DB, "UPDATE plans SET plan = '"+text+"'")
			if _, err := s.Plans(t.Context()); !errors.Is(err, job.ErrBadPlan) {
				t.Errorf("%q: %v", text, err)
			}
		}
	})
}
