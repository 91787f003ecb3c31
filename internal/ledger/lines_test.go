package ledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"

	"github.com/tierq/tierq/internal/job"
)

// limitStores are limits as SQL and as the partitions of Redis have them.
type limitStores struct {
	sql   map[string]job.LineLimits
	redis [2]map[string]job.LineLimits
	down  error  // of Redis
	reads int    // of all of SQL's limits
	late  func() // called once, before Redis is given limits
}

func newLimitStores() *limitStores {
	return &limitStores{sql: map[string]job.LineLimits{}, redis: [2]map[string]job.LineLimits{{}, {}}}
}

func (s *limitStores) LineLimits(context.Context) (all []job.LineLimits, err error) {
	s.reads++
	for _, l := range s.sql {
		all = append(all, l)
	}
	return all, nil
}

func (s *limitStores) LimitsOf(_ context.Context, name string) (job.LineLimits, error) {
	return s.sql[name], nil
}

func (s *limitStores) StoreLimits(_ context.Context, l job.LineLimits, version int64) (job.LineLimits, error) {
	if version >= 0 && s.sql[l.Name].Version != version {
		return l, job.ErrChanged
	}
	l.Version = s.sql[l.Name].Version + 1
	s.sql[l.Name] = l
	return l, nil
}

func (s *limitStores) SetLimits(_ context.Context, partition int, limits []job.LineLimits) error {
	if late := s.late; late != nil {
		s.late = nil
		late()
	}
	for _, l := range limits {
		if s.redis[partition][l.Name] = l; l.None() {
			delete(s.redis[partition], l.Name)
		}
	}
	return s.down
}

func (s *limitStores) OtherLimits(_ context.Context, partition int, wanted []job.LineLimits) (other []job.LineLimits,
	err error) {
	has := s.redis[partition]
	for _, l := range wanted {
		if has[l.Name] != l {
			other = append(other, l)
		}
	}
	for name := range has {
		if !slices.ContainsFunc(wanted, func(l job.LineLimits) bool { return l.Name == name }) {
			other = append(other, job.LineLimits{Name: name})
		}
	}
	return other, s.down
}

func (s *limitStores) lines() *Lines {
	return &Lines{SQL: s, Redis: s, Partitions: 2, Log: slog.New(slog.DiscardHandler)}
}

// New limits are in SQL, and in the partition of the key; those of jobs without a key are in all of them. What cannot
// be stored changes nothing.
func TestLines_SetLimits(t *testing.T) {
	t.Parallel()
	s := newLimitStores()
	l := s.lines()
	homes := job.HomesOfLine("acme", 2)
	if len(homes) != 1 {
		t.Fatal(homes)
	}
	stored, err := l.SetLimits(t.Context(), job.LineLimits{Name: "acme", Running: 2}, 0)
	if err != nil || stored.Version != 1 || s.redis[homes[0]]["acme"] != stored || len(s.redis[1-homes[0]]) != 0 {
		t.Errorf("%+v, %v; %+v", stored, err, s.redis)
	}
	if _, err := l.SetLimits(t.Context(), job.LineLimits{Name: job.NoKey, Weight: 2}, -1); err != nil ||
		s.redis[0][job.NoKey].Weight != 2 || s.redis[1][job.NoKey].Weight != 2 {
		t.Errorf("%v; %+v", err, s.redis)
	}
	before := fmt.Sprint(s.sql, s.redis)
	for version, bad := range map[int64]job.LineLimits{7: {Name: "acme"}, -1: {Name: "acme", Running: -1}} {
		_, err := l.SetLimits(t.Context(), bad, version)
		if !errors.Is(err, job.ErrChanged) && !errors.Is(err, job.ErrBadLimits) {
			t.Error(err)
		}
	}
	if now := fmt.Sprint(s.sql, s.redis); now != before {
		t.Errorf("%s, and now %s", before, now)
	}
	s.down = job.ErrUnavailable
	limits := job.LineLimits{Name: "acme", Running: 9}
	if _, err := l.SetLimits(t.Context(), limits, 1); !errors.Is(err, job.ErrUnavailable) ||
		s.sql["acme"].Running != 9 {
		t.Errorf("%v; %+v", err, s.sql)
	}
}

// A Redis that has lost its data, or has limits that SQL does not have, gets SQL's. Nothing is asked again while the
// incarnations are the same, unless the last attempt failed.
func TestLines_Sync(t *testing.T) {
	t.Parallel()
	s := newLimitStores()
	l := s.lines()
	for i := range 20 {
		name := fmt.Sprint("key ", i)
		s.sql[name] = job.LineLimits{Name: name, Running: 1 + i, Version: 1}
	}
	s.redis[0]["gone"] = job.LineLimits{Name: "gone", Running: 1}
	s.down = job.ErrUnavailable
	if err := l.Sync(t.Context(), []string{"a", "b"}); !errors.Is(err, job.ErrUnavailable) {
		t.Error(err)
	}
	s.down = nil
	for range 2 {
		if err := l.Sync(t.Context(), []string{"a", "b"}); err != nil {
			t.Fatal(err)
		}
	}
	if s.reads != 3 || len(s.redis[0])+len(s.redis[1]) != 20 || len(s.redis[0]) == 0 || len(s.redis[1]) == 0 {
		t.Errorf("%d reads; %+v", s.reads, s.redis)
	}
	for p := range s.redis {
		for name := range s.redis[p] {
			if job.HomesOfLine(name, 2)[0] != p {
				t.Errorf("%s is in the partition %d", name, p)
			}
		}
	}
	s.redis[1] = map[string]job.LineLimits{}
	if err := l.Sync(t.Context(), []string{"", "c"}); err != nil || len(s.redis[0])+len(s.redis[1]) != 20 {
		t.Errorf("%v; %+v", err, s.redis)
	}
}

// Limits that an operator changes while Redis is given the old ones are in Redis afterwards.
func TestLines_SyncMeetsAChange(t *testing.T) {
	t.Parallel()
	s := newLimitStores()
	l, p := s.lines(), job.HomesOfLine("acme", 2)[0]
	s.sql["acme"] = job.LineLimits{Name: "acme", Running: 1, Version: 1}
	s.late = func() {
		if _, err := l.SetLimits(t.Context(), job.LineLimits{Name: "acme", Running: 9}, 1); err != nil {
			t.Error(err)
		}
	}
	if err := l.Sync(t.Context(), []string{"a", "b"}); err != nil || s.redis[p]["acme"].Running != 9 {
		t.Errorf("%v; %+v", err, s.redis)
	}
}
