package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	bullmqWorkers = 64
	bullmqNode    = 20 // the oldest that its Redis driver runs on
	bullmqMissing = "BullMQ needs Node %d or newer and the libraries of bench/bullmq; type: .ci/provide bench, or (cd " +
		"bench/bullmq && npm ci --ignore-scripts)"
)

// bullmq drives BullMQ on the lab's Redis, through a node program that takes one command per line and answers with its
// own clock's figures.
type bullmq struct {
	dir    string // of main.js and its libraries
	l      *lab
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
	stderr bytes.Buffer
}

func newBullMQ() contender { return &bullmq{dir: "bullmq"} }

// bullmqAnswer is the union of what main.js answers.
type bullmqAnswer struct {
	Error                 string
	MS                    float64
	Queued                int
	Runs, Completed       int
	Waits                 []float64
	Version, Driver, Node string
}

func (b *bullmq) name() string { return "BullMQ" }

func (b *bullmq) open(ctx context.Context, l *lab) (string, error) {
	b.l = l
	if err := b.installed(ctx); err != nil {
		return "", err
	}
	host, port, _ := strings.Cut(l.redis.Addr(), ":")
	b.cmd = exec.CommandContext(context.WithoutCancel(ctx), "node", "main.js", host, port, strconv.Itoa(bullmqWorkers),
		result)
	b.cmd.Dir = b.dir
	b.cmd.Stderr = &b.stderr
	var err error
	if b.stdin, err = b.cmd.StdinPipe(); err != nil {
		return "", fmt.Errorf("start node: %w", err)
	}
	stdout, err := b.cmd.StdoutPipe()
	if err != nil {
		return "", fmt.Errorf("start node: %w", err)
	}
	b.stdout = bufio.NewReader(stdout)
	if err := b.cmd.Start(); err != nil {
		b.cmd = nil
		return "", fmt.Errorf("start node: %w", err)
	}
	v, err := b.ask(ctx, map[string]any{"do": "version"})
	return fmt.Sprintf("bullmq %s with ioredis %s, node %s, on the same Redis; one process, one connection for all "+
		"clients; addBulk 4 x 250; drained by a Worker with concurrency %d, "+
		"results kept (removeOnComplete off), its driver's and its own settings else as they come", v.Version, v.Driver,
		v.Node, bullmqWorkers), err
}

func (b *bullmq) installed(ctx context.Context) error {
	missing := fmt.Errorf("%w: "+bullmqMissing, errLeftOut, bullmqNode)
	version, err := exec.CommandContext(ctx, "node", "--version").Output()
	if err != nil {
		return missing
	}
	major, _, _ := strings.Cut(strings.TrimPrefix(string(version), "v"), ".")
	if n, err := strconv.Atoi(major); err != nil || n < bullmqNode {
		return missing
	}
	for _, library := range []string{"bullmq", "ioredis"} {
		if _, err := os.Stat(filepath.Join(b.dir, "node_modules", library, "package.json")); err != nil {
			return missing
		}
	}
	return nil
}

// close ends node: it goes when its input does.
func (b *bullmq) close() error {
	if b.cmd == nil {
		return nil
	}
	err := b.stdin.Close()
	stuck := time.AfterFunc(10*time.Second, func() { _ = b.cmd.Process.Kill() })
	defer stuck.Stop()
	err = errors.Join(err, b.cmd.Wait())
	b.cmd = nil
	if err != nil {
		return fmt.Errorf("end node: %w\n%s", err, b.stderr.String())
	}
	return nil
}

// ask sends a command and waits for its answer, at most patience. After an error of ctx or of the pipe node is gone.
func (b *bullmq) ask(ctx context.Context, command map[string]any) (a bullmqAnswer, err error) {
	line, err := json.Marshal(command)
	if err != nil {
		return a, fmt.Errorf("node: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	process := b.cmd.Process
	defer context.AfterFunc(ctx, func() { _ = process.Kill() })()
	_, err = b.stdin.Write(append(line, '\n'))
	if err == nil {
		line, err = b.stdout.ReadBytes('\n')
	}
	if err != nil {
		return a, fmt.Errorf("node, %s: %w", command["do"], errors.Join(ctx.Err(), err))
	}
	if err := json.Unmarshal(line, &a); err != nil {
		return a, fmt.Errorf("node answered %q: %w", line, err)
	}
	if a.Error != "" {
		return a, fmt.Errorf("node, %s: %s", command["do"], a.Error)
	}
	return a, nil
}

// queue sends n jobs by a command that tells how many wait after it.
func (b *bullmq) queue(ctx context.Context, do string, clients, n int) (time.Duration, error) {
	a, err := b.ask(ctx, map[string]any{"do": do, "clients": clients, "n": n})
	if err == nil && a.Queued != n {
		err = fmt.Errorf("%s: %d jobs wait after %d were sent", do, a.Queued, n)
	}
	return inMillis(a.MS), err
}

func inMillis(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

func (b *bullmq) reset(ctx context.Context) error {
	if err := b.l.client.FlushAll(ctx).Err(); err != nil {
		return fmt.Errorf("empty Redis: %w", err)
	}
	return nil
}

func (b *bullmq) enqueue(ctx context.Context, clients, n int) (time.Duration, error) {
	return b.queue(ctx, "enqueue", clients, n)
}

func (b *bullmq) bulk(ctx context.Context, n int) (time.Duration, error) {
	return b.queue(ctx, "bulk", 0, n)
}

func (b *bullmq) drain(ctx context.Context, n int) (d drained, err error) {
	before, err := b.l.redisCPU(ctx)
	if err != nil {
		return d, err
	}
	if _, err := b.queue(ctx, "fill", 0, n); err != nil {
		return d, err
	}
	a, err := b.ask(ctx, map[string]any{"do": "drain", "n": n})
	if err != nil {
		return d, err
	}
	after, err := b.l.redisCPU(ctx)
	if err == nil && (a.Runs != n || a.Completed != n) {
		err = fmt.Errorf("%d runs of %d jobs, %d completed", a.Runs, n, a.Completed)
	}
	return drained{took: inMillis(a.MS), cpu: after - before}, err
}

func (b *bullmq) pickup(ctx context.Context, rate, n int) ([]time.Duration, error) {
	a, err := b.ask(ctx, map[string]any{"do": "pickup", "rate": rate, "n": n, "warm": warmSubmits})
	if err == nil && len(a.Waits) != n {
		err = fmt.Errorf("%d of %d jobs started", len(a.Waits), n)
	}
	waits := make([]time.Duration, len(a.Waits))
	for i, ms := range a.Waits {
		waits[i] = inMillis(ms)
	}
	return waits, err
}

func (b *bullmq) queuedBytes(ctx context.Context, n int) (float64, error) {
	return b.l.weigh(ctx, n, func(ctx context.Context, n int) error {
		_, err := b.queue(ctx, "fill", 0, n)
		return err
	})
}
