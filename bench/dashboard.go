package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
)

// The dashboard bench runs a load for several windows of the same length. In a window no, one or twenty browsers have
// the dashboard open. The windows take turns, because other work of the machine then falls on all of them. A window
// with browsers is compared with the mean of the nearest windows without browsers.
const (
	dashboardRate   = 5000 // jobs a second, of the mix
	dashboardMany   = 20
	dashboardQueued = 100000
	dashboardWindow = 10 * time.Second // a whole number of the mix's bursts
)

// dashboardTurns has the number of browsers in each window. The server works on for most of a minute after the last
// browser has left. The bench waits for that time before a window without browsers.
var dashboardTurns = []int{0, 0, 1, dashboardMany, dashboardMany, 1, 0, 0, 1, dashboardMany, dashboardMany, 1, 0, 0}

// dashboardBench measures what dashboards that are left open cost the server and Redis under load, and, where nothing
// runs, whether that grows with the queue.
func dashboardBench(ctx context.Context, l *lab) (figures []figure, err error) {
	loaded, err := l.besideLoad(ctx)
	if err != nil {
		return nil, fmt.Errorf("beside the load: %w", err)
	}
	figures = dashboardFigures(loaded)
	for _, queued := range []int{0, l.scaled(dashboardQueued, 1000)} {
		still, err := l.besideQueue(ctx, queued)
		if err != nil {
			return nil, fmt.Errorf("beside %d queued jobs: %w", queued, err)
		}
		name := fmt.Sprintf("nothing runs, %d queued: one more, ", queued)
		server, redis := dearer(still, 1)
		figures = append(figures, figure{name + "server", "% core", server}, figure{name + "Redis", "% core", redis})
	}
	shown, turn := l.report, l.turn
	l.report = func(out io.Writer, t *table) {
		shown(out, t)
		fmt.Fprintf(out, "  run %d, window by window: who looks; %% of a core of the server, of Redis; us of the server "+
			"per job; jobs/s; snapshots, feed, stale\n", turn+1)
		for i := range loaded {
			w := &loaded[i]
			fmt.Fprintf(out, "  %6d %8.2f %8.2f %8.1f %8.0f %6d %6d %6d\n", w.watchers, w.serverShare(), w.redisShare(),
				micros(w.server, w.ended),
				perSecond(w.ended, w.took), w.snapshots, w.feed, w.stale)
		}
	}
	return figures, nil
}

// besideLoad runs the mix at dashboardRate.
func (l *lab) besideLoad(ctx context.Context) (all []window, err error) {
	database, env, err := l.fresh(ctx)
	if err != nil {
		return nil, err
	}
	s, err := l.launch(ctx, "dashboard", "api,worker,recovery", append(env, fmt.Sprintf("TIERQ_WORKERS=%d", mixSlots),
		"TIERQ_RETENTION="+mixKept.String(), "TIERQ_FAILED_RETENTION="+mixKept.String(),
		fmt.Sprintf("TIERQ_CAPACITY=%d", mixCapacity)))
	if err != nil {
		return nil, err
	}
	defer func() {
		_, stopping := s.stop()
		err = errors.Join(err, stopping)
	}()
	m := newMix(s.addr)
	if err := m.plans(ctx); err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	sending := make(chan error, 1)
	began := time.Now()
	go func() { sending <- m.steady(running, dashboardRate*min(l.scale, 1)) }()
	if err := wait(ctx, l.scaledTime(20*time.Second), sending); err != nil {
		return nil, err
	}
	if err := l.fillHour(ctx); err != nil {
		return nil, err
	}
	v := &viewing{lab: l, server: s, mix: m, began: began, sending: sending,
		long: l.scaledTime(dashboardWindow).Truncate(time.Second)}
	for _, watchers := range dashboardTurns {
		if err := v.window(ctx, watchers); err != nil {
			return nil, err
		}
	}
	stop()
	if err := <-sending; err != nil {
		return nil, err
	}
	if n := m.unknown.Load(); n > 0 {
		fmt.Fprintf(os.Stderr, "bench: of %d submits it is not known what became: this machine has too much else to do\n", n)
		return v.all, nil
	}
	return v.all, l.mixEnds(ctx, database, m)
}

// besideQueue is one who looks at a queue that nobody works on.
func (l *lab) besideQueue(ctx context.Context, queued int) (all []window, err error) {
	_, env, err := l.fresh(ctx)
	if err != nil {
		return nil, err
	}
	s, err := l.launch(ctx, "dashboard-still", "api", env)
	if err != nil {
		return nil, err
	}
	defer func() {
		_, stopping := s.stop()
		err = errors.Join(err, stopping)
	}()
	if err := l.enqueue(ctx, queued); err != nil {
		return nil, err
	}
	v := &viewing{lab: l, server: s, mix: newMix(s.addr), began: time.Now(), sending: make(chan error),
		long: l.scaledTime(dashboardWindow).Truncate(time.Second)}
	for _, watchers := range []int{0, 1} {
		if err := v.window(ctx, watchers); err != nil {
			return nil, err
		}
	}
	return v.all, nil
}

// fillHour gives the time before this bench what the moment has: a server that has run for an hour has as much to read.
func (l *lab) fillHour(ctx context.Context) error {
	for resolution, buckets := range map[string]int64{"1m": 60, "10s": 90} {
		var latest int64
		var beginning string
		found := l.client.Scan(ctx, 0, "*:stats:"+resolution+":*", 10000).Iterator()
		for found.Next(ctx) {
			at := strings.LastIndex(found.Val(), ":") + 1
			if n, err := strconv.ParseInt(found.Val()[at:], 10, 64); err == nil && n > latest {
				latest, beginning = n, found.Val()[:at]
			}
		}
		if err := found.Err(); err != nil {
			return fmt.Errorf("find the counts: %w", err)
		}
		if latest == 0 {
			return fmt.Errorf("nothing is counted by %s", resolution)
		}
		name := func(n int64) string { return beginning + strconv.FormatInt(n, 10) }
		for back := int64(1); back <= buckets; back++ {
			if err := l.client.Copy(ctx, name(latest), name(latest-back), l.client.Options().DB, false).Err(); err != nil {
				return fmt.Errorf("copy the counts: %w", err)
			}
		}
	}
	return nil
}

func dashboardFigures(all []window) (figures []figure) {
	for _, watchers := range []int{0, 1, dashboardMany} {
		var rates, servers, redises []float64
		for i := range all {
			if w := &all[i]; w.watchers == watchers {
				rates, servers, redises = append(rates, perSecond(w.ended, w.took)), append(servers, w.serverShare()),
					append(redises, w.redisShare())
			}
		}
		name := fmt.Sprintf("%d look: ", watchers)
		figures = append(figures, figure{name + "ended", "jobs/s", halfway(rates)},
			figure{name + "server", "% core", halfway(servers)},
			figure{name + "Redis", "% core", halfway(redises)})
		if watchers > 0 {
			server, redis := dearer(all, watchers)
			figures = append(figures, figure{name + "server, more than with nobody", "% core", server},
				figure{name + "Redis, the same", "% core", redis})
		}
	}
	refused := 0
	for i := range all {
		refused += all[i].refused
	}
	return append(figures, figure{"refused", "jobs", float64(refused)})
}
