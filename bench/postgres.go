package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tierq/tierq/internal/testkit"
)

const postgresMissing = "River needs PostgreSQL's server; type: .ci/provide bench"

// postgresSettings are what differs from PostgreSQL's defaults, by the measure that MariaDB gets: memory for the jobs,
// and no checkpoint that falls into one run and not into the next. fsync and synchronous_commit are on by default: a
// commit is on the disk before it is answered.
var postgresSettings = []string{"shared_buffers=512MB", "max_wal_size=8GB", "checkpoint_timeout=1h",
	"max_connections=200"}

// postgres is a throwaway PostgreSQL of our own: its user is postgres, without a password, over TCP.
type postgres struct {
	dir     string
	port    int
	process *testkit.Process
}

// startPostgres makes an empty cluster in a temporary folder and returns when it answers; errLeftOut where the programs
// are missing.
func startPostgres(ctx context.Context, folders []string) (p *postgres, err error) {
	bin, err := postgresBin(folders)
	if err != nil {
		return nil, err
	}
	p = &postgres{}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.stop())
		}
	}()
	if p.dir, err = os.MkdirTemp("", "tierq-bench-postgres-"); err != nil {
		return p, fmt.Errorf("make a folder: %w", err)
	}
	if p.port, err = testkit.TakePort(); err != nil {
		return p, err
	}
	as, err := unprivileged(p.dir)
	if err != nil {
		return p, err
	}
	data := filepath.Join(p.dir, "data")
	args := slices.Concat(as, []string{filepath.Join(bin, "initdb"), "--pgdata=" + data, "--username=postgres",
		"--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"})
	if out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
		return p, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	args = slices.Concat(as, []string{filepath.Join(bin, "postgres"), "-D", data, "-p", strconv.Itoa(p.port), "-h",
		"127.0.0.1", "-c", "unix_socket_directories="})
	for _, setting := range postgresSettings {
		args = append(args, "-c", setting)
	}
	if p.process, err = testkit.LaunchProcess(args[0], nil, args[1:]...); err != nil {
		return p, err
	}
	return p, until(ctx, "wait for PostgreSQL", func() (bool, error) { return p.answers(ctx, data) })
}

// postgresFolders is where the server's programs may be: distributions keep them out of PATH.
func postgresFolders() []string {
	folders := []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql*/bin",
		"/usr/local/opt/postgresql*/bin", "/usr/local/pgsql/bin"}
	if path, err := exec.LookPath("initdb"); err == nil {
		folders = slices.Insert(folders, 0, filepath.Dir(path))
	}
	return folders
}

// postgresBin is the first folder, by patterns, that has the programs.
func postgresBin(patterns []string) (string, error) {
	for _, pattern := range patterns {
		folders, _ := filepath.Glob(pattern) // the only error is a bad pattern
		slices.Reverse(folders)              // the newest of several
		for _, folder := range folders {
			if executable(filepath.Join(folder, "initdb")) && executable(filepath.Join(folder, "postgres")) {
				return folder, nil
			}
		}
	}
	return "", fmt.Errorf("%w: %s", errLeftOut, postgresMissing)
}

func executable(path string) bool {
	_, err := exec.LookPath(path)
	return err == nil
}

// unprivileged is how a command is run that refuses to be root, and gives it the folder. Nothing where we are not root.
// The signal makes the server die with us; the kernel forgets testkit's own when the user changes.
func unprivileged(dir string) ([]string, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		return nil, fmt.Errorf("%w: PostgreSQL does not run as root, and there is no setpriv (util-linux)", errLeftOut)
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.Atoi(u.Uid)
		if err != nil {
			return nil, fmt.Errorf("user %s: %w", name, err)
		}
		if err := os.Chown(dir, uid, -1); err != nil {
			return nil, fmt.Errorf("give the folder to %s: %w", name, err)
		}
		// PostgreSQL wants to be able to enter the folder that it is started in.
		return []string{"env", "--chdir=" + dir, setpriv, "--reuid=" + u.Uid, "--regid=" + u.Gid, "--clear-groups",
			"--pdeathsig=QUIT"}, nil
	}
	return nil, fmt.Errorf("%w: PostgreSQL does not run as root, and there is neither a user postgres nor nobody",
		errLeftOut)
}

// answers compares the data folder: on a port that somebody else took, another server would answer.
func (p *postgres) answers(ctx context.Context, data string) (bool, error) {
	if p.process.Exited() {
		return false, errors.New("PostgreSQL ended: " + p.process.Output())
	}
	conn, err := pgx.Connect(ctx, p.url("postgres"))
	if err != nil {
		return false, nil // not yet: tried again
	}
	defer conn.Close(ctx)
	var got string
	if err := conn.QueryRow(ctx, "SHOW data_directory").Scan(&got); err != nil {
		return false, nil // not yet: tried again
	}
	if got != data {
		return false, fmt.Errorf("a PostgreSQL with the data in %s answers, not ours", got)
	}
	return true, nil
}

func (p *postgres) url(database string) string {
	return "postgres://postgres@127.0.0.1:" + strconv.Itoa(p.port) + "/" + database + "?sslmode=disable"
}

// stop ends the server at once, with its own children and shared memory, and removes its folder. Safe twice.
func (p *postgres) stop() error {
	if p.process != nil {
		_ = p.process.Signal(syscall.SIGQUIT) // fails only if it has ended
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if _, err := p.process.WaitExit(ctx); err != nil {
			_ = p.process.Kill()
		}
		p.process = nil
	}
	if p.dir == "" {
		return nil
	}
	return os.RemoveAll(p.dir)
}
