package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// processCounts are how many processes of a role share one Redis.
var processCounts = []int{1, 2, 4}

// processClients are so many that each of four processes has enough at once to send together.
const processClients = 256

// processesBench lets 1, 2 and 4 API processes take submits, and as many worker processes drain them, 100 slots each.
// On a machine with few cores more processes cannot be faster; they must not be slower.
func processesBench(ctx context.Context, l *lab) (figures []figure, err error) {
	var submits, drains []float64
	for _, n := range processCounts {
		submitted, drained, err := l.processes(ctx, n)
		if err != nil {
			return nil, fmt.Errorf("%d processes: %w", n, err)
		}
		submits, drains = append(submits, submitted), append(drains, drained)
	}
	for i, n := range processCounts {
		figures = append(figures, figure{fmt.Sprintf("%d API processes: submits", n), "per s", submits[i]})
	}
	for i, n := range processCounts {
		figures = append(figures, figure{fmt.Sprintf("%d worker processes: drained", n), "jobs/s", drains[i]})
	}
	last := len(processCounts) - 1
	return append(figures,
			figure{fmt.Sprintf("submits, %d API processes beside 1", processCounts[last]), "times", submits[last] / submits[0]},
			figure{fmt.Sprintf("drained, %d worker processes beside 1", processCounts[last]), "times",
				drains[last] / drains[0]}),
		nil
}

// processes measures n processes of either role: submits a second over processClients connections spread over all, then
// jobs drained a second.
func (l *lab) processes(ctx context.Context, n int) (submitted, drained float64, err error) {
	database, env, err := l.fresh(ctx)
	if err != nil {
		return 0, 0, err
	}
	jobs := l.scaled(100000, 2000)
	if submitted, err = l.submitTo(ctx, n, jobs, env); err != nil {
		return 0, 0, err
	}
	queued, err := l.counter(ctx, "fresh")
	if err != nil {
		return 0, 0, err
	}
	if want := n * (jobs/n + warmUp); queued != want {
		return 0, 0, fmt.Errorf("%d jobs are queued after %d submits were accepted", queued, want)
	}
	var servers []*server
	defer func() {
		for _, s := range servers {
			_, stopping := s.stop()
			err = errors.Join(err, stopping)
		}
	}()
	launched := time.Now()
	for range n {
		s, err := l.launch(ctx, fmt.Sprintf("drain-of-%d", n), "worker,recovery", append(env, "TIERQ_WORKERS=100"))
		if err != nil {
			return 0, 0, err
		}
		servers = append(servers, s)
	}
	took, done, err := l.watchDrain(ctx, servers[0], queued)
	if err != nil {
		return 0, 0, err
	}
	if done == 0 { // all at the first look: the start is in it
		took, done = time.Since(launched), queued
	}
	return submitted, perSecond(done, took), l.allThere(ctx, database, queued)
}

// submitTo sends submits to n API processes at once.
func (l *lab) submitTo(ctx context.Context, n, jobs int, env []string) (rate float64, err error) {
	var servers []*server
	defer func() {
		for _, s := range servers {
			_, stopping := s.stop()
			err = errors.Join(err, stopping)
		}
	}()
	for range n {
		s, err := l.launch(ctx, fmt.Sprintf("submit-of-%d", n), "api", env)
		if err != nil {
			return 0, err
		}
		servers = append(servers, s)
	}
	body := `{"type":"SIMULATION","payload":` + nothing + `}`
	each := func(connections, jobs int) error {
		errs := make([]error, n)
		var group sync.WaitGroup
		for i, s := range servers {
			group.Go(func() { _, _, errs[i] = load(ctx, s.addr, connections, jobs, request(s.addr, body)) })
		}
		group.Wait()
		return errors.Join(errs...)
	}
	if err := each(1, warmUp); err != nil {
		return 0, err
	}
	began := time.Now()
	err = each(max(processClients/n, 1), jobs/n)
	return perSecond(jobs/n*n, time.Since(began)), err
}
