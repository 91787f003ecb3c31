package main

import (
	"context"
	"errors"
	"time"
)

// For engines driven from Go, peer_pace.go has together (n calls of many clients) and pickups (a steady rate).

// contender is one engine in the comparison. Its jobs carry payload(), its handlers do nothing but count. Every time is
// taken around the engine's own client, and only what the engine has acknowledged counts. Calls come one after the
// other, never two at a time.
type contender interface {
	// name heads its column: "asynq", "asynq, results kept".
	name() string
	// open starts what the engine needs (servers, helper processes, tables) and returns its version and the settings that
	// matter, for the table. errLeftOut, wrapped with the reason and what to type, where a program is missing. close is
	// called after any open.
	open(ctx context.Context, l *lab) (about string, err error)
	// close stops what open started. It may be called without open, and twice.
	close() error
	// reset empties its stores. It is called before each measure.
	reset(ctx context.Context) error
	// enqueue sends n jobs one by one over so many clients at once and returns how long that took, all acknowledged. What
	// the clients need to connect is outside the time.
	enqueue(ctx context.Context, clients, n int) (time.Duration, error)
	// bulk sends n jobs in the engine's own batches; errNone if it has no such thing.
	bulk(ctx context.Context, n int) (time.Duration, error)
	// drain queues n jobs, and then runs them: from the workers' start to the last job's acknowledged end. It counts the
	// handlers' runs and fails on any other number than n.
	drain(ctx context.Context, n int) (drained, error)
	// pickup sends n jobs, rate a second, to idle workers that have run a few before, and returns each one's time from
	// "submit was answered" to "handler started". A handler that starts before the answer is read makes that 0, never
	// less.
	pickup(ctx context.Context, rate, n int) ([]time.Duration, error)
	// queuedBytes is what n waiting jobs cost its store in memory, per job; errNone if it cannot say.
	queuedBytes(ctx context.Context, n int) (float64, error)
}

// drained is what a drain took.
type drained struct {
	took time.Duration
	// jobs is how many of the n ended within took, for an engine whose start cannot be told from its first job; 0 = all of
	// them.
	jobs int
	// cpu is what the Redis that holds the jobs used from before the first job was queued until the last one's end: the
	// whole life. 0 where there is none.
	cpu time.Duration
	// setting says which of its settings was the best of this run, "64 workers", where it tried more than one.
	setting string
}

var (
	// errLeftOut: the engine cannot run here. The table says so, with the reason.
	errLeftOut = errors.New("left out")
	// errNone: the engine has no such thing. The table has a dash.
	errNone = errors.New("none")
)

// payload is what every engine's jobs carry: payloadSize bytes that are also a JSON object.
func payload() []byte { return []byte(pad(`{"n":0}`)) }

// peers makes the contenders, in the table's order. tierq comes first: the ratios are its own.
// A file peer_<name>.go each; it adds its constructor here.
var peers = []func() contender{newTierq, newTierqForgets, newBare, newAsynq, newAsynqKeeps, newBullMQ, newRiver,
	newRiverCopy, newBeanstalkd}
