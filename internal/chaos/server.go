package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// server is one place in the cluster: an address and two proxies, which stay the same, and the process that serves
// there at the moment.
type server struct {
	lock  sync.Mutex // held by the lane that breaks the server
	c     *cluster
	n     int
	port  int
	gate  int // the port of the Faktory gateway; 0 = it has none
	redis *testkit.Proxy
	sql   *testkit.TCPProxy

	mu      sync.Mutex
	process *testkit.Process
	end     *exit
	over    bool // stop was called: no further process is started

	watching sync.WaitGroup
}

func (c *cluster) newServer(n int) (*server, error) {
	s := &server{c: c, n: n}
	var err error
	if s.port, err = testkit.TakePort(); err != nil {
		return nil, err
	}
	if c.Embedded {
		return s, nil
	}
	if s.gate, err = testkit.TakePort(); err != nil {
		return nil, err
	}
	if s.redis, err = testkit.StartProxy(c.redis.Addr()); err != nil {
		return nil, err
	}
	if s.sql, err = testkit.StartTCPProxy(c.mariadb.Addr()); err != nil {
		s.redis.Close()
		return nil, err
	}
	return s, nil
}

func (s *server) base() string { return "http://127.0.0.1:" + strconv.Itoa(s.port) }

// bootPatience is longer than a starting server waits for stores that are away.
const bootPatience = 70 * time.Second

// badSettings is the exit code of a server with wrong settings. A supervisor should not start such a server again.
const badSettings = 2

// start starts a process and returns when the process serves. The variables in env are added to the settings. A
// process that gives up is started again, as a supervisor would do; the report's facts say how often, and what its
// last line was.
func (s *server) start(ctx context.Context, env ...string) error {
	settings := append(s.settings(), env...)
	boot, cancel := context.WithTimeout(ctx, bootPatience)
	defer cancel()
	for {
		p, err := s.launch(settings)
		if err != nil {
			return err
		}
		err = p.WaitOutput(boot, "this process")
		switch {
		case err == nil:
			return s.c.bringPlans(ctx, s)
		case ctx.Err() != nil:
			return ctx.Err()
		case !p.Exited():
			return fmt.Errorf("server %d does not start: %w", s.n, err)
		case hit.MatchString(p.Output()) || poison.MatchString(p.Output()):
			return nil // a job or a failpoint killed it before it reported that it serves: its lane finds it dead
		}
		s.keepLog(p)
		if code, _ := p.WaitExit(boot); code == badSettings {
			return fmt.Errorf("server %d: %s", s.n, p.Output())
		}
		s.c.stillborn(p.Output())
		if !hold(boot, 500*time.Millisecond) {
			return fmt.Errorf("server %d does not start: %w", s.n, err)
		}
	}
}

// settings returns the environment of this server's processes.
func (s *server) settings() []string {
	all := []string{
		"TIERQ_ADDR=127.0.0.1:" + strconv.Itoa(s.port), "TIERQ_DATA_DIR=" + filepath.Join(s.c.dir, "data"),
		"TIERQ_EGRESS_ALLOW=127.0.0.0/8", "TIERQ_HEARTBEAT_INTERVAL=100ms", "TIERQ_DRAIN_TIMEOUT=1s",
		"TIERQ_WORKERS=" + strconv.Itoa(s.c.workers()),
		"TIERQ_RETENTION=" + s.c.Retention.String(), "TIERQ_FAILED_RETENTION=" + s.c.Retention.String(),
		"TIERQ_IDEMPOTENCY_TTL=" + keyLife.String(), "TIERQ_LOG_FORMAT=text", "TIERQ_ADMIN_KEY_FILE=" + s.c.adminFile(),
		"TIERQ_PARTITIONS=" + strconv.Itoa(s.c.Partitions), "TIERQ_CAPACITY=" + strconv.Itoa(s.c.Capacity),
	}
	if s.c.Embedded {
		return all
	}
	if s.c.Journal {
		all = append(all, "TIERQ_JOURNAL=on")
	}
	all = append(all, "TIERQ_FAKTORY_ADDR="+s.gateway(), "TIERQ_GATEWAY_SECRET="+gatewaySecret)
	return append(all, "REDIS_URL="+s.redis.URL(),
		"MYSQL_DSN="+user+"@tcp("+s.sql.Addr()+")/"+database+s.c.sqlParams())
}

func (s *server) launch(settings []string) (*testkit.Process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return nil, errors.New("the cluster is stopped")
	}
	p, err := testkit.LaunchProcess(s.c.bin, settings, "serve")
	if err == nil {
		s.process = p
		end := &exit{gone: make(chan struct{})}
		s.end = end
		s.watching.Go(func() {
			_, _ = p.WaitExit(context.Background()) // it ends with the cluster at the latest
			end.at = time.Now()
			close(end.gone)
		})
	}
	return p, err
}

// exit holds the time when a process had ended.
type exit struct {
	gone chan struct{} // closed when at is set
	at   time.Time
}

// endedAt waits until the process that was started last has ended, and returns when that was.
func (s *server) endedAt() time.Time {
	s.mu.Lock()
	end := s.end
	s.mu.Unlock()
	<-end.gone
	return end.at
}

// now returns the process that was started last.
func (s *server) now() *testkit.Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process
}

func (s *server) pid() string { return strconv.Itoa(s.now().Pid()) }

// kill sends SIGKILL, waits for the end of the process, and returns its pid.
func (s *server) kill() (pid string, err error) {
	p := s.now()
	if err := p.Kill(); err != nil {
		return "", err
	}
	s.keepLog(p)
	return strconv.Itoa(p.Pid()), nil
}

// gone says whether no process has this pid any more. That is the evidence of a kill.
func gone(pid string) bool {
	n, err := strconv.Atoi(pid)
	return err == nil && errors.Is(syscall.Kill(n, 0), syscall.ESRCH)
}

// died says whether the process has ended, and returns the lines of its log that give a reason.
func (s *server) died() (why string, dead bool) {
	p := s.now()
	if !p.Exited() {
		return "", false
	}
	lines := append(hit.FindAllString(p.Output(), -1), poison.FindAllString(p.Output(), -1)...)
	return strings.Join(lines, "; "), true
}

var (
	hit    = regexp.MustCompile(`(?m)^failpoint .+$`)
	poison = regexp.MustCompile(`(?m)^crashing job=.+$`)
)

// awaitDeath waits until the process has ended by itself. It returns false if ctx or the time ended first.
func (s *server) awaitDeath(ctx context.Context, within time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	_, err := s.now().WaitExit(ctx)
	return err == nil
}

// keepLog appends the output of a process to the server's log file, which stays after a run that fails.
func (s *server) keepLog(p *testkit.Process) {
	f, err := os.OpenFile(filepath.Join(s.c.dir, fmt.Sprintf("server%d.log", s.n)), os.O_APPEND|os.O_CREATE|os.O_WRONLY,
		0o600)
	if err != nil {
		return // only people read the log
	}
	defer f.Close()
	fmt.Fprintf(f, "---- pid %d\n%s", p.Pid(), p.Output())
}

// stop kills the process, if there is one, and closes the proxies.
func (s *server) stop() {
	s.mu.Lock()
	p := s.process
	s.over = true
	s.mu.Unlock()
	if p != nil {
		_ = p.Kill() // fails only if there is no such process
		s.keepLog(p)
	}
	s.watching.Wait()
	if s.redis != nil {
		s.redis.Close()
		s.sql.Close()
	}
}
