package testkit

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// server is the common part of Redis and MariaDB: one process, one port, one folder.
type server struct {
	name    string
	port    int
	dir     string
	command func() *exec.Cmd
	ready   func(pid int) error // returns nil when the process with this pid answers

	mu    sync.Mutex
	child *child // nil before start and after Stop
}

// newServer makes the folder and takes a port. The caller adds command and ready.
func newServer(name string) (*server, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "testkit-"+name+"-")
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return &server{name: name, port: port, dir: dir}, nil
}

func (s *server) log() string { return filepath.Join(s.dir, s.name+".log") }

func (s *server) start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := startChild(s.command())
	if err != nil {
		return err
	}
	s.child = c
	ended := false
	err = poll(30*time.Second, func() error {
		if ended = !c.alive(); ended {
			return nil
		}
		return s.ready(c.pid())
	})
	if ended {
		err = errors.New("it ended at once")
	}
	if err != nil {
		return fmt.Errorf("start %s on %s: %w\n%s", s.name, s.Addr(), err, tail(s.log()))
	}
	return nil
}

// Addr returns host:port. It stays the same after Restart.
func (s *server) Addr() string { return local(s.port) }

// Pid returns the process id of the running or last running server; 0 after Stop.
func (s *server) Pid() int {
	if c := s.current(); c != nil {
		return c.pid()
	}
	return 0
}

// Dir returns the server's folder, which holds its data. Stop removes it.
func (s *server) Dir() string { return s.dir }

// Kill sends SIGKILL and returns when the process is gone. The folder stays for Restart. A second call does
// nothing.
func (s *server) Kill() error {
	if c := s.current(); c != nil {
		return c.kill()
	}
	return nil
}

// Restart kills the server if it runs and starts it again with the same port, folder and args. It returns when the
// server answers.
func (s *server) Restart() error {
	if s.current() == nil {
		return s.stopped("restart")
	}
	if err := s.Kill(); err != nil {
		return err
	}
	return s.start()
}

// Freeze sends SIGSTOP and returns when the server has stopped. Its connections stay open, the kernel still
// accepts new ones, and nothing is answered.
func (s *server) Freeze() error {
	c := s.current()
	if c == nil {
		return s.stopped("freeze")
	}
	return c.freeze()
}

// Thaw sends SIGCONT.
func (s *server) Thaw() error {
	c := s.current()
	if c == nil {
		return s.stopped("thaw")
	}
	return c.thaw()
}

// Stop kills the server, frozen or not, and removes its folder. A second call does nothing.
func (s *server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.child != nil {
		_ = s.child.kill() // fails only if the process does not exist
		s.child = nil
	}
	_ = os.RemoveAll(s.dir) // files left in the temporary folder do no harm
}

func (s *server) current() *child {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.child
}

func (s *server) stopped(verb string) error {
	return fmt.Errorf("%s %s: it was stopped", verb, s.name)
}

// attempts is the number of tries to start a server: another test process may have taken the port meanwhile.
const attempts = 3
