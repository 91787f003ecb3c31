package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

const (
	beanstalkdFsync   = 50 // ms: the nearest to Redis' appendfsync everysec that is common; its own default too
	beanstalkdWorkers = 64 // connections
	beanstalkdMissing = "beanstalkd is not installed; type: .ci/provide bench"
	// beanstalkdTTR is how long a reserved job is its worker's, in seconds.
	beanstalkdTTR = 60
)

// beanstalkdPeer drives a beanstalkd of its own, with a log on the disk, through the few commands of its protocol that
// this needs.
type beanstalkdPeer struct {
	paths   []string // where the program may be
	l       *lab
	bin     string
	dir     string // of the log
	addr    string
	process *testkit.Process
}

// Its folder is not in everybody's PATH.
func newBeanstalkd() contender {
	return &beanstalkdPeer{paths: []string{"beanstalkd", "/usr/bin/beanstalkd", "/usr/sbin/beanstalkd",
		"/usr/local/bin/beanstalkd", "/opt/homebrew/bin/beanstalkd"}}
}

func (b *beanstalkdPeer) name() string { return "beanstalkd" }

func (b *beanstalkdPeer) open(ctx context.Context, l *lab) (about string, err error) {
	b.l = l
	for _, path := range b.paths {
		if b.bin, err = exec.LookPath(path); err == nil {
			break
		}
	}
	if b.bin == "" {
		return "", fmt.Errorf("%w: %s", errLeftOut, beanstalkdMissing)
	}
	port, err := testkit.TakePort()
	if err != nil {
		return "", err
	}
	b.addr = "127.0.0.1:" + strconv.Itoa(port)
	version, err := exec.CommandContext(ctx, b.bin, "-v").Output()
	if err != nil {
		return "", fmt.Errorf("beanstalkd -v: %w", err)
	}
	return fmt.Sprintf("%s, log on the disk, fsync at most each %d ms (-f%d); drained over %d connections, delete and "+
		"the next reserve in one write",
		strings.TrimSpace(string(version)), beanstalkdFsync, beanstalkdFsync, beanstalkdWorkers), b.reset(ctx)
}

func (b *beanstalkdPeer) close() error {
	if b.process != nil {
		if err := b.process.Kill(); err != nil {
			return fmt.Errorf("end beanstalkd: %w", err)
		}
		b.process = nil
	}
	if b.dir == "" {
		return nil
	}
	return os.RemoveAll(b.dir)
}

// reset starts it anew: it has no command that empties it.
func (b *beanstalkdPeer) reset(ctx context.Context) (err error) {
	if err := b.close(); err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp(b.l.dir, "beanstalkd-"); err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	host, port, _ := net.SplitHostPort(b.addr)
	if b.process, err = testkit.LaunchProcess(b.bin, nil, "-l", host, "-p", port, "-b", b.dir,
		fmt.Sprintf("-f%d", beanstalkdFsync)); err != nil {
		return err
	}
	return until(ctx, "wait for beanstalkd", func() (bool, error) {
		if b.process.Exited() {
			return false, errors.New("beanstalkd ended: " + b.process.Output())
		}
		c, err := b.dial(ctx)
		if err != nil {
			return false, nil // not yet: tried again
		}
		defer c.close()
		return true, b.owns(c)
	})
}

// owns asks for the process id: on a port that somebody else took, another server would answer.
func (b *beanstalkdPeer) owns(c *bean) error {
	stats, err := c.stats()
	if err == nil && stats["pid"] != strconv.Itoa(b.process.Pid()) {
		err = fmt.Errorf("process %s answers, not ours", stats["pid"])
	}
	return err
}

// connect opens so many connections; the caller closes them by cancelling ctx.
func (b *beanstalkdPeer) connect(ctx context.Context, n int) ([]*bean, error) {
	beans := make([]*bean, n)
	for i := range beans {
		var err error
		if beans[i], err = b.dial(ctx); err != nil {
			return nil, err
		}
	}
	return beans, nil
}

func (b *beanstalkdPeer) enqueue(ctx context.Context, clients, n int) (time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	beans, err := b.connect(ctx, clients)
	if err != nil {
		return 0, err
	}
	took, err := together(ctx, clients, n, func(client int) error { return beans[client].put(string(payload())) })
	if err != nil {
		return 0, err
	}
	return took, beans[0].holds(n)
}

// bulk: a put is one job.
func (b *beanstalkdPeer) bulk(context.Context, int) (time.Duration, error) { return 0, errNone }

// workers lets the connections work until the function that it returns is called; that tells what went wrong before.
func workers(beans []*bean, handle func([]byte), deleted func()) (stop func() error) {
	errs := make([]error, len(beans))
	var stopping atomic.Bool
	var group sync.WaitGroup
	for i, c := range beans {
		group.Go(func() {
			if err := c.work(handle, deleted); !stopping.Load() {
				errs[i] = err
			}
		})
	}
	return func() error {
		stopping.Store(true)
		for _, c := range beans {
			c.close()
		}
		group.Wait()
		return errors.Join(errs...)
	}
}

func (b *beanstalkdPeer) drain(ctx context.Context, n int) (d drained, err error) {
	if _, err := b.enqueue(ctx, 16, n); err != nil {
		return d, err
	}
	beans, err := b.connect(ctx, beanstalkdWorkers)
	if err != nil {
		return d, err
	}
	var runs, ends atomic.Int64
	all := make(chan struct{})
	began := time.Now()
	stop := workers(beans, func([]byte) { runs.Add(1) }, func() {
		if ends.Add(1) == int64(n) {
			close(all)
		}
	})
	select {
	case <-all:
		d.took = time.Since(began)
	case <-time.After(patience):
		err = fmt.Errorf("%d of %d jobs ended", ends.Load(), n)
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err = errors.Join(err, stop()); err != nil {
		return d, err
	}
	if got := int(runs.Load()); got != n {
		return d, fmt.Errorf("%d runs of %d jobs", got, n)
	}
	last, err := b.dial(ctx)
	if err != nil {
		return d, err
	}
	defer last.close()
	return d, last.holds(0)
}

func (b *beanstalkdPeer) pickup(ctx context.Context, rate, n int) (waits []time.Duration, err error) {
	beans, err := b.connect(ctx, beanstalkdWorkers+1)
	if err != nil {
		return nil, err
	}
	sender := beans[beanstalkdWorkers]
	defer sender.close()
	starts := make(chan start, 2*(n+warmSubmits))
	stop := workers(beans[:beanstalkdWorkers], func(body []byte) {
		at := time.Now()
		s := stamp{N: -1} // a body that is none of ours is found out
		_ = json.Unmarshal(body, &s)
		starts <- start{s.N, at}
	}, func() {})
	defer func() { err = errors.Join(err, stop()) }()
	return pickups(ctx, rate, n, starts, func(i int) (time.Time, error) {
		err := sender.put(pad(fmt.Sprintf(`{"n":%d}`, i)))
		return time.Now(), err
	})
}

// queuedBytes: it does not say what its memory holds.
func (b *beanstalkdPeer) queuedBytes(context.Context, int) (float64, error) { return 0, errNone }
