package archive_test

import (
	"errors"
	"reflect"
	"testing"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/archive/archivetest"
	"github.com/tierq/tierq/internal/job"
)

// Limits of a key of lines replace those of a version. No limits delete them, and a key without any has version 0.
func TestLineLimits(t *testing.T) {
	t.Parallel()
	archivetest.Each(t, func(t *testing.T, a *archive.Archive) {
		ctx := t.Context()
		name := job.LineOf("Ärger & co/7")
		l := job.LineLimits{Name: name, Running: 3, Rate: 0.5, Burst: 2, Paused: &job.LinePause{Reason: "a fire"}}
		if got, err := a.LimitsOf(ctx, name); err != nil || got.Version != 0 || !got.None() {
			t.Fatalf("%+v, %v", got, err)
		}
		if _, err := a.StoreLimits(ctx, l, 4); !errors.Is(err, job.ErrChanged) {
			t.Error(err)
		}
		for version, ask := range []int64{0, 1, -1} {
			stored, err := a.StoreLimits(ctx, l, ask)
			if err != nil || stored.Version != int64(version)+1 {
				t.Fatalf("%+v, %v", stored, err)
			}
			l.Running++
		}
		l.Running, l.Version = 5, 3
		if got, err := a.LimitsOf(ctx, name); err != nil || !reflect.DeepEqual(got, l) {
			t.Errorf("%+v, %v", got, err)
		}
		if _, err := a.StoreLimits(ctx, l, 2); !errors.Is(err, job.ErrChanged) {
			t.Error(err)
		}
		all, err := a.LineLimits(ctx)
		found := false
		for _, one := range all {
			found = found || reflect.DeepEqual(one, l)
		}
		if err != nil || !found {
			t.Errorf("%+v, %v", all, err)
		}
		for range 2 { // the second time there is nothing to delete
			if _, err := a.StoreLimits(ctx, job.LineLimits{Name: name}, -1); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := a.LimitsOf(ctx, name); err != nil || got.Version != 0 {
			t.Errorf("%+v, %v", got, err)
		}
	})
}
