package testkit

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// masterName is the sentinels' name for the master that they watch.
const masterName = "tierq"

// Sentinels are a real Redis master with a replica, and three sentinels that promote the replica when the master
// is silent for 1 s.
type Sentinels struct {
	nodes    [2]*Redis
	watchers [3]*Redis
}

// NewSentinel starts these servers for one test and returns when the sentinels know the replica and each other.
// The args are those of the master and the replica (AOF everysec), and override the defaults.
func NewSentinel(t testing.TB, args ...string) *Sentinels {
	t.Helper()
	s := &Sentinels{}
	t.Cleanup(s.Stop)
	if err := s.start(args); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *Sentinels) start(args []string) (err error) {
	args = append([]string{"--appendfsync", "everysec", "--repl-diskless-sync-delay", "0"}, args...)
	for i := range s.nodes {
		if s.nodes[i], err = StartRedis(args...); err != nil {
			return err
		}
	}
	if _, err = s.nodes[1].ask("REPLICAOF", "127.0.0.1", s.nodes[0].port); err != nil {
		return err
	}
	// The replica must be in step before the sentinels start. A sentinel that misses it at first looks again only 10
	// s later.
	if err = poll(30*time.Second, s.inStep); err != nil {
		return err
	}
	for i := range s.watchers {
		if s.watchers[i], err = startSentinel(s.nodes[0].port); err != nil {
			return err
		}
	}
	return poll(60*time.Second, s.settled)
}

func startSentinel(master int) (*Redis, error) {
	bin, err := redisProgram()
	if err != nil {
		return nil, err
	}
	s, err := newServer("sentinel")
	if err != nil {
		return nil, err
	}
	conf := filepath.Join(s.dir, "sentinel.conf") // the sentinel saves its state there
	text := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\nlogfile %s\nsentinel monitor %[4]s 127.0.0.1 %[5]d 2\n"+
		"sentinel down-after-milliseconds %[4]s 1000\nsentinel failover-timeout %[4]s 3000\n", s.port, s.dir, s.log(),
		masterName, master)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		return nil, fmt.Errorf("start a sentinel: %w", err)
	}
	s.command = func() *exec.Cmd { return exec.Command(bin, conf, "--sentinel") }
	s.ready = func(pid int) error { return redisIs(s.Addr(), pid) }
	if err := s.start(); err != nil {
		s.Stop()
		return nil, err
	}
	return &Redis{server: s}, nil
}

// Stop kills all of them and removes their folders. A second call does nothing.
func (s *Sentinels) Stop() {
	for _, r := range append(s.nodes[:], s.watchers[:]...) {
		if r != nil {
			r.Stop()
		}
	}
}

// URL returns a REDIS_URL that names every sentinel.
func (s *Sentinels) URL() string {
	return "redis://" + s.watchers[0].Addr() + "?master_name=" + masterName + "&addr=" + s.watchers[1].Addr() + "&addr=" +
		s.watchers[2].Addr()
}

// Nodes returns the first master, then the first replica, whatever they are now.
func (s *Sentinels) Nodes() []*Redis { return s.nodes[:] }

// Watchers returns the sentinels.
func (s *Sentinels) Watchers() []*Redis { return s.watchers[:] }

// Master returns the node that all sentinels call the master and that reports itself as the master; nil while
// there is none.
func (s *Sentinels) Master() *Redis {
	addr := ""
	for _, w := range s.watchers {
		answer, err := w.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", masterName)
		pair, ok := answer.([]any)
		if err != nil || !ok || len(pair) != 2 || addr != "" && addr != fmt.Sprint(pair[0], ":", pair[1]) {
			return nil
		}
		addr = fmt.Sprint(pair[0], ":", pair[1])
	}
	for _, n := range s.nodes {
		if n.Addr() == addr && n.says("replication", "role:master") == nil {
			return n
		}
	}
	return nil
}

// Other returns the node that is not than.
func (s *Sentinels) Other(than *Redis) *Redis {
	if s.nodes[0] == than {
		return s.nodes[1]
	}
	return s.nodes[0]
}

// Settled waits until there is a master, its replica is in step with it, and the sentinels would promote that
// replica.
func (s *Sentinels) Settled(t testing.TB) {
	t.Helper()
	if err := poll(60*time.Second, s.settled); err != nil {
		t.Fatalf("the sentinels did not settle: %v", err)
	}
}

func (s *Sentinels) settled() error {
	master := s.Master()
	if master == nil {
		return errors.New("no master")
	}
	for _, w := range s.watchers {
		if _, err := w.ask("SENTINEL", "CKQUORUM", masterName); err != nil {
			return err
		}
		err := w.says("sentinel", "status=ok,address="+master.Addr()+",slaves=1,sentinels=3")
		if err != nil {
			return err
		}
		flags, err := w.ask("SENTINEL", "REPLICAS", masterName)
		if err != nil {
			return err
		}
		if text := fmt.Sprint(flags); !strings.Contains(text, "flags slave link-") ||
			!strings.Contains(text, "master-link-status ok") {
			return fmt.Errorf("the replica, as sentinel %s has it: %s", w.Addr(), text)
		}
	}
	return s.inStep()
}

// inStep returns nil if one of the two nodes follows the other and is in step with it.
func (s *Sentinels) inStep() error {
	for _, n := range s.nodes {
		if n.says("replication", "role:slave") == nil {
			if err := n.says("replication", "master_port:"+strconv.Itoa(s.Other(n).port)); err != nil {
				return err
			}
			return n.says("replication", "master_link_status:up")
		}
	}
	return errors.New("no replica")
}

// says returns an error unless this section of the server's INFO contains word.
func (r *Redis) says(section, word string) error {
	text, err := r.ask("INFO", section)
	if err != nil {
		return err
	}
	if !strings.Contains(fmt.Sprint(text), word) {
		return fmt.Errorf("%s does not say %s", r.Addr(), word)
	}
	return nil
}
