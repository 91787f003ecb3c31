package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/tierq/tierq/client"
)

func (p program) watchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "watch JOB_ID...", Short: "Follow jobs to their end", Args: wants(1, maxIDs, "a JOB_ID"),
		Long: "Follow jobs to their end, by the server's events, or by polls where those do not come through.\n\nOn a " +
			"terminal one line shows how they stand; " +
			"how they ended is printed at the end. -o ndjson prints every\nchange as it comes. Exit code 3 if a job FAILED, " +
			"was CANCELLED or EXPIRED.",
		Example: "  tierq watch 019de340-01fe-7a58-be69-567cd7d6b7d4\n  tierq submit paid | xargs tierq watch --timeout " +
			"1m -o ndjson",
	}
	cmd.RunE = p.talk(func(ctx context.Context, s *session, args []string) error { return s.follow(ctx, args) })
	return cmd
}

// lanes is the number of jobs followed at the same time.
const lanes = 16

// followed is a job that is being followed: its present state, and the error that ended the following.
type followed struct {
	id  string
	job client.Poll
	err error
}

// follow follows jobs to their ends and prints them.
func (s *session) follow(ctx context.Context, ids []string) error {
	f := &follower{session: s, jobs: make([]followed, len(ids))}
	for i, id := range ids {
		f.jobs[i].id = id
	}
	f.run(ctx)
	switch {
	case f.failed != nil:
		return f.failed
	case errors.Is(ctx.Err(), context.Canceled):
		return ctx.Err() // the user interrupted the command, so it prints no report
	}
	if len(ids) == 1 {
		if f.jobs[0].job.JobID == "" || s.format == asNDJSON {
			return f.jobs[0].err
		}
		if err := s.showPoll(f.jobs[0].job); err != nil {
			return err
		}
		return f.jobs[0].err
	}
	return f.report()
}

// follower follows several jobs.
type follower struct {
	*session
	mu     sync.Mutex
	jobs   []followed
	failed error // the first error of printing
}

func (f *follower) run(ctx context.Context) {
	shown := noProgress()
	switch {
	case f.format == asNDJSON && f.isTTY(f.stdout): // the printed lines show the progress
	case len(f.jobs) == 1:
		shown = f.spin(f.single)
	default:
		shown = f.count(int64(len(f.jobs)), f.several)
	}
	defer shown.end()
	next := make(chan int)
	var all sync.WaitGroup
	for range min(lanes, len(f.jobs)) {
		all.Go(func() {
			for i := range next {
				f.one(ctx, i)
				shown.add(1)
			}
		})
	}
	for i := range f.jobs {
		next <- i
	}
	close(next)
	all.Wait()
}

// one follows one job. On a terminal it also polls the job's place in the queue, of which there are no events.
func (f *follower) one(ctx context.Context, i int) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if len(f.jobs) == 1 && f.isTTY(f.stderr) {
		go f.places(ctx)
	}
	job, err := f.client.Watch(ctx, f.jobs[i].id, func(p client.Poll) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.jobs[i].job = p
		if f.format == asNDJSON && f.failed == nil {
			f.failed = f.document(p)
		}
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	f.jobs[i].err = err
	if job.JobID != "" {
		f.jobs[i].job = job
	}
}

// placePause is the time between two polls of a job's place in the queue.
const placePause = 2 * time.Second

func (f *follower) places(ctx context.Context) {
	tick := time.NewTicker(placePause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		f.mu.Lock()
		waits := f.jobs[0].job.Status == client.Pending
		f.mu.Unlock()
		if !waits {
			continue
		}
		now, err := f.client.Poll(ctx, f.jobs[0].id)
		if err != nil {
			continue // the watch itself reports the error
		}
		f.mu.Lock()
		if seen := &f.jobs[0].job; seen.Status == client.Pending && now.Status == client.Pending {
			seen.Position, seen.ETASeconds = now.Position, now.ETASeconds
		}
		f.mu.Unlock()
	}
}

// single returns the progress line of one job.
func (f *follower) single() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	job := &f.jobs[0].job
	if job.JobID == "" {
		return "asking for job " + f.jobs[0].id
	}
	text := string(job.Status)
	if where := position(job); where != "" {
		text += ", " + where
	}
	if due := f.moment(job.RunAt); due != "" {
		text += ", due " + due
	}
	if job.RetryCount > 0 {
		text += ", retry " + retries(job.RetryCount, job.MaxRetries)
	}
	return text
}

// several returns the text before the bar of several jobs.
func (f *follower) several() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	running := 0
	for i := range f.jobs {
		if f.jobs[i].job.Status == client.Processing {
			running++
		}
	}
	return fmt.Sprintf("%d running ", running)
}

// report prints how several jobs ended.
func (f *follower) report() error {
	var wrong int
	var worst error
	for _, j := range f.jobs {
		if j.err == nil {
			continue
		}
		if wrong++; worst == nil || exitOf(worst) == exitJob {
			worst = j.err
		}
		if j.job.JobID == "" || !j.job.Status.Ended() {
			f.say("%s: %s", j.id, brief(j.err))
		}
	}
	if f.format != asNDJSON {
		l := newList(f.output, func(p client.Poll) string { return p.JobID }, f.pollColumns()...)
		for _, j := range f.jobs {
			if j.job.JobID == "" {
				continue
			}
			if err := l.add(j.job); err != nil {
				return err
			}
		}
		if err := l.end(nil); err != nil {
			return err
		}
	}
	if wrong > 0 {
		return summed{fmt.Sprintf("%d of %d jobs were not completed", wrong, len(f.jobs)), worst}
	}
	return nil
}

func (s *session) pollColumns() []column[client.Poll] {
	return []column[client.Poll]{
		{head: "JOB", cell: func(p client.Poll) string { return p.JobID }},
		{head: "STATUS", cell: func(p client.Poll) string { return string(p.Status) },
			color: func(p client.Poll) string { return statusColors[p.Status] }},
		{head: "TIER", cell: func(p client.Poll) string { return string(p.Tier) }},
		{head: "TYPE", cell: func(p client.Poll) string { return p.Type }},
		{head: "RETRIES", cell: func(p client.Poll) string { return retries(p.RetryCount, p.MaxRetries) }},
		{head: "ENDED", cell: func(p client.Poll) string { return s.time(p.CompletedAt) }},
		{head: "CAUSE", cell: func(p client.Poll) string { return dash(p.FailureCause) }},
		{head: "TRACE", wide: true, cell: func(p client.Poll) string { return dash(p.TraceID) }},
	}
}
