package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
)

// window is what the server and Redis did in it.
type window struct {
	watchers       int
	took           time.Duration
	server, redis  time.Duration // CPU
	ended, refused int
	snapshots      int // that all watchers got
	feed           int // items of the feed, the same
	stale          int // that there was no snapshot in time, the same
}

func (w *window) serverShare() float64 { return percent(w.server, w.took) }
func (w *window) redisShare() float64  { return percent(w.redis, w.took) }

func percent(part, whole time.Duration) float64 { return 100 * part.Seconds() / whole.Seconds() }

// viewing measures window after window.
type viewing struct {
	*lab
	server  *server
	mix     *mix
	began   time.Time // of the load
	sending chan error
	long    time.Duration
	all     []window
}

// window measures one window. Its browsers have opened the dashboard before it begins, and the browsers of the window
// before it are gone.
func (v *viewing) window(ctx context.Context, watchers int) (err error) {
	if watchers == 0 {
		if err := v.forgotten(ctx); err != nil {
			return err
		}
	}
	looking, leave := context.WithCancel(ctx)
	var open []*watcher
	defer func() {
		leave()
		for _, w := range open {
			err = errors.Join(err, w.left())
		}
	}()
	for range watchers {
		w, err := look(looking, v.server.addr)
		if err != nil {
			return err
		}
		open = append(open, w)
	}
	// Every window begins at the same moment between two bursts.
	between := time.Second - (time.Since(v.began)+100*time.Millisecond)%time.Second
	if err := wait(ctx, between, v.sending); err != nil {
		return err
	}
	before, err := v.sum(ctx, open)
	if err != nil {
		return err
	}
	if err := wait(ctx, time.Until(before.at.Add(v.long)), v.sending); err != nil {
		return err
	}
	after, err := v.sum(ctx, open)
	if err != nil {
		return err
	}
	w := window{
		watchers: watchers, took: after.at.Sub(before.at), server: after.server - before.server,
		redis: after.redis - before.redis,
		ended: after.ended - before.ended, refused: after.refused - before.refused,
		snapshots: after.snapshots - before.snapshots, feed: after.feed - before.feed, stale: after.stale - before.stale,
	}
	if least := watchers * (int(w.took/time.Second) - 2); w.snapshots < least && w.stale == 0 {
		return fmt.Errorf("%d dashboards got %d snapshots in %v, and nobody told them why", watchers, w.snapshots, w.took)
	}
	v.all = append(v.all, w)
	return nil
}

// forgotten waits until the scripts tell nobody any more.
func (v *viewing) forgotten(ctx context.Context) error {
	return until(ctx, "wait until the dashboards are forgotten", func() (bool, error) {
		n, err := v.client.Exists(ctx, tellingKeys...).Result()
		return n == 0, err
	})
}

// tellingKeys say that somebody listens to what the scripts tell.
var tellingKeys = []string{"{tierq:0}:events", "{tierq:0}:alarms"}

// sums are what has been counted so far.
type sums struct {
	at             time.Time
	server, redis  time.Duration
	ended, refused int
	snapshots      int
	feed           int
	stale          int
}

func (v *viewing) sum(ctx context.Context, open []*watcher) (s sums, err error) {
	s.at = time.Now()
	pid := v.server.pid
	if pid == 0 {
		pid = os.Getpid() // -profile
	}
	if s.server, err = processCPU(pid); err != nil {
		return s, err
	}
	if s.redis, err = v.redisCPU(ctx); err != nil {
		return s, err
	}
	if s.ended, err = v.counter(ctx, "acknowledged"); err != nil {
		return s, err
	}
	s.refused = int(v.mix.refused.Load())
	for _, w := range open {
		s.snapshots += int(w.snapshots.Load())
		s.feed += int(w.feed.Load())
		s.stale += int(w.stale.Load())
	}
	return s, nil
}

// dearer is how much more of a core the server and Redis used in the windows with that many browsers. Each of these
// windows is compared with the mean of the nearest windows without browsers, before and after it; dearer is the median.
func dearer(all []window, watchers int) (server, redis float64) {
	var servers, redises []float64
	for i := range all {
		if all[i].watchers != watchers {
			continue
		}
		var server, redis []float64
		for _, w := range append(quietFrom(all, i, -1), quietFrom(all, i, 1)...) {
			server, redis = append(server, w.serverShare()), append(redis, w.redisShare())
		}
		servers, redises = append(servers, all[i].serverShare()-mean(server)),
			append(redises, all[i].redisShare()-mean(redis))
	}
	return halfway(servers), halfway(redises)
}

// quietFrom are the nearest windows with nobody on one side of a window with somebody.
func quietFrom(all []window, at, step int) (quiet []window) {
	for ; at >= 0 && at < len(all); at += step {
		if all[at].watchers == 0 {
			quiet = append(quiet, all[at])
		} else if len(quiet) > 0 {
			break
		}
	}
	return quiet
}

// halfway is the median; of an even number the mean of the two.
func halfway(v []float64) float64 {
	v = slices.Clone(v)
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}
