package recovery

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// fullRedis has servers of 100 bytes, each with jobs of one byte: living jobs, and ended jobs by their ends.
type fullRedis struct {
	living map[string]int
	ended  map[string][]int64
	walked []string // the server of each walk
	err    error
}

func (r *fullRedis) Memory(context.Context) (all []job.ServerMemory, err error) {
	for _, server := range []string{"a", "b"} {
		all = append(all, job.ServerMemory{Server: server, Used: int64(r.living[server] + len(r.ended[server])), Max: 100})
	}
	return all, nil
}

func (r *fullRedis) ForgetStep(
	_ context.Context, server string, cursor uint64, before int64,
) (s job.ForgetStep, err error) {
	if cursor == 0 {
		r.walked = append(r.walked, server)
	}
	if r.err != nil {
		return s, r.err
	}
	var stay []int64
	for _, at := range r.ended[server] {
		if at <= before {
			s.Gone++
			continue
		}
		stay = append(stay, at)
	}
	s.Stayed, r.ended[server] = stay, stay
	return s, nil
}

// ends returns the ends of n jobs, from first on, in no order.
func ends(first, n int64) (all []int64) {
	for i := range n {
		all = append(all, first+(i*7)%n)
	}
	return all
}

func forgetting(t *testing.T, r *fullRedis, looks int) string {
	t.Helper()
	var log bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		f := NewForgetter(r, slog.New(slog.NewTextHandler(&log, nil)))
		for range looks {
			if wait := f.runOnce(t.Context()); wait != forgetEvery {
				t.Errorf("the next look comes in %s", wait)
			}
			<-time.After(forgetEvery)
		}
	})
	return log.String()
}

// The forgetter removes the oldest jobs first, only from the server that is short of memory, and only as many as
// necessary.
func TestForgetterForgetsTheOldest(t *testing.T) {
	t.Parallel()
	r := &fullRedis{
		living: map[string]int{"a": 20, "b": 20},
		ended:  map[string][]int64{"a": ends(1000, 60), "b": ends(1000, 61)},
	}
	said := forgetting(t, r, 3)
	if len(r.ended["a"]) != 60 || slices.Contains(r.walked, "a") {
		t.Errorf("a, of which 80 %% are used, has %d ended jobs left", len(r.ended["a"]))
	}
	if n := len(r.ended["b"]); n > 50 || n < 45 || slices.Min(r.ended["b"]) != 1061-int64(n) {
		t.Errorf("b has %d ended jobs left, the oldest from %d", n, slices.Min(r.ended["b"]))
	}
	if strings.Count(said, "deleted from Redis early") != 1 || strings.Contains(said, "level=WARN") {
		t.Error(said)
	}
}

// If living jobs use the memory, no job can be removed: the forgetter logs that, and checks less often.
func TestForgetterLeavesTheLiving(t *testing.T) {
	t.Parallel()
	r := &fullRedis{living: map[string]int{"a": 90}, ended: map[string][]int64{}}
	said := forgetting(t, r, 2*(forgetRest+1))
	if len(r.walked) != 2 {
		t.Errorf("%d walks", len(r.walked))
	}
	if strings.Count(said, "all ended jobs that may be deleted are deleted") != 1 {
		t.Error(said)
	}
}

func TestForgetterGoesOnAfterAnError(t *testing.T) {
	t.Parallel()
	r := &fullRedis{living: map[string]int{}, ended: map[string][]int64{"a": ends(1, 90)}, err: errors.New("no answer")}
	if said := forgetting(t, r, 1); !strings.Contains(said, "no answer") {
		t.Error(said)
	}
	r.err = nil
	forgetting(t, r, 1)
	if n := len(r.ended["a"]); n > 70 {
		t.Errorf("%d ended jobs are left", n)
	}
}

func TestMemoryOver(t *testing.T) {
	t.Parallel()
	for m, want := range map[job.ServerMemory]bool{
		{Used: 80, Max: 100}: false, {Used: 81, Max: 100}: true, {Used: 1 << 50}: false, {Max: 100}: false, {}: false,
		{Used: 7 << 60, Max: 1<<63 - 1}: true,
	} {
		if m.Over(80) != want {
			t.Errorf("%+v", m)
		}
	}
}
