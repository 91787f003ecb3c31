package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	_ "github.com/go-sql-driver/mysql" // database/sql finds it by name
	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/testkit"
)

// The figures depend on these.
const (
	redoLog     = 1 << 30
	bufferPool  = 512 << 20
	patience    = 5 * time.Minute
	lookEvery   = 10 * time.Millisecond // each look costs Redis a command
	payloadSize = 100
)

// lab is what the benches share: the servers, started with it, and the built binary.
type lab struct {
	options
	turn     int // the run, from 0
	dir      string
	redis    *testkit.Redis
	client   *redis.Client
	mariadb  *testkit.MariaDB
	db       *sql.DB
	names    int    // of databases made
	database string // the last that fresh made
	bin      string
	field    *field                  // of peers, once it is open
	report   func(io.Writer, *table) // how the bench that runs shows its figures
}

func newLab(o options) (*lab, error) {
	dir, err := os.MkdirTemp("", "tierq-bench-")
	if err != nil {
		return nil, fmt.Errorf("make a folder: %w", err)
	}
	l := &lab{options: o, dir: dir}
	// Rewrites of the AOF would fall into one run and not into the next. The last setting is for asynq, whose tasks are
	// then compact hashes.
	l.redis, err = testkit.StartRedis("--appendfsync", "everysec", "--auto-aof-rewrite-percentage", "0",
		"--hash-max-listpack-value", "1024")
	if err != nil {
		return nil, errors.Join(err, l.close())
	}
	l.client = redis.NewClient(&redis.Options{Addr: l.redis.Addr(), Protocol: 2})
	if l.mariadb, err = testkit.StartMariaDB(); err != nil {
		return nil, errors.Join(err, l.close())
	}
	if l.db, err = sql.Open("mysql", l.mariadb.DSN("")); err != nil {
		return nil, errors.Join(err, l.close())
	}
	for name, bytes := range map[string]int{"innodb_log_file_size": redoLog, "innodb_buffer_pool_size": bufferPool} {
		// The test kit starts it as small as tests like it; a server that keeps jobs has room.
		if _, err := l.db.ExecContext(context.Background(), fmt.Sprintf("SET GLOBAL %s = %d", name, bytes)); err != nil {
			return nil, errors.Join(fmt.Errorf("set %s: %w", name, err), l.close())
		}
	}
	return l, nil
}

// close stops what newLab and the benches started, and removes its files.
func (l *lab) close() (err error) {
	if l.field != nil {
		err = l.field.close()
	}
	if l.db != nil {
		_ = l.db.Close() // the server goes next
	}
	if l.mariadb != nil {
		l.mariadb.Stop()
	}
	if l.client != nil {
		_ = l.client.Close()
	}
	if l.redis != nil {
		l.redis.Stop()
	}
	return errors.Join(err, os.RemoveAll(l.dir))
}

// scaled is n at -scale 1, never below least.
func (l *lab) scaled(n, least int) int { return max(int(float64(n)*l.scale), least) }

// fresh empties Redis and makes a new database in the place of the last one; its name is returned, and the settings
// that point a server to both.
func (l *lab) fresh(ctx context.Context) (database string, env []string, err error) {
	if err := l.empty(ctx); err != nil {
		return "", nil, err
	}
	l.database, env, err = l.renew(ctx, l.database)
	return l.database, env, err
}

// renew makes an empty database and drops an old one; "" = there is none.
func (l *lab) renew(ctx context.Context, old string) (database string, env []string, err error) {
	if old != "" {
		if _, err := l.db.ExecContext(ctx, "DROP DATABASE "+old); err != nil {
			return "", nil, fmt.Errorf("drop database: %w", err)
		}
	}
	l.names++
	database = fmt.Sprintf("bench%d", l.names)
	if _, err := l.db.ExecContext(ctx, "CREATE DATABASE "+database+" CHARACTER SET utf8mb4"); err != nil {
		return "", nil, fmt.Errorf("create database: %w", err)
	}
	return database, []string{
		"REDIS_URL=" + l.redis.URL(), "MYSQL_DSN=" + l.mariadb.DSN(database), "TIERQ_CAPACITY=" + strconv.Itoa(capacity),
		"TIERQ_LOG_LEVEL=error",
		"TIERQ_INSECURE=on", // on loopback, for as long as a run takes
	}, nil
}

// empty removes all that Redis has.
func (l *lab) empty(ctx context.Context) error {
	if err := l.client.FlushAll(ctx).Err(); err != nil {
		return fmt.Errorf("empty Redis: %w", err)
	}
	// A Redis without this mark accepts nothing: SQL may have jobs that need places.
	if err := l.client.HSet(ctx, queue.Key(0, "counters"), "-", 1).Err(); err != nil {
		return fmt.Errorf("empty Redis: %w", err)
	}
	return nil
}

// info reads one number of Redis' INFO.
func (l *lab) info(ctx context.Context, section, field string) (float64, error) {
	text, err := l.client.Info(ctx, section).Result()
	if err != nil {
		return 0, fmt.Errorf("info %s: %w", section, err)
	}
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), field+":"); ok {
			return strconv.ParseFloat(v, 64)
		}
	}
	return 0, fmt.Errorf("info %s: no %s", section, field)
}

// redisCPU is what the Redis process has used so far, all its threads, user and system.
func (l *lab) redisCPU(ctx context.Context) (time.Duration, error) {
	user, err := l.info(ctx, "cpu", "used_cpu_user")
	if err != nil {
		return 0, err
	}
	system, err := l.info(ctx, "cpu", "used_cpu_sys")
	return time.Duration((user + system) * float64(time.Second)), err
}

// sqlCPU is what the MariaDB process has used so far; 0 where the system does not tell.
func (l *lab) sqlCPU() (time.Duration, error) { return processCPU(l.mariadb.Pid()) }

// processCPU is what a process has used so far, user and system; 0 where the system does not tell (it is Linux' /proc,
// in hundredths of a second).
func processCPU(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the CPU of process %d: %w", pid, err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ") // the name may hold anything, and ends here
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, errors.New("read a process' CPU: /proc says too little")
	}
	ticks := 0
	for _, field := range fields[11:13] {
		n, err := strconv.Atoi(field)
		if err != nil {
			return 0, fmt.Errorf("read the CPU of process %d: %w", pid, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil
}

// scriptStats is how many script calls Redis has served so far, and what time it spent inside them.
func (l *lab) scriptStats(ctx context.Context) (calls int64, spent time.Duration, err error) {
	text, err := l.client.Info(ctx, "commandstats").Result()
	if err != nil {
		return 0, 0, fmt.Errorf("info commandstats: %w", err)
	}
	for line := range strings.Lines(text) {
		var n, usec int64
		stats, isScript := strings.CutPrefix(line, "cmdstat_evalsha:")
		if !isScript {
			if stats, isScript = strings.CutPrefix(line, "cmdstat_eval:"); !isScript {
				continue
			}
		}
		if _, err := fmt.Sscanf(stats, "calls=%d,usec=%d", &n, &usec); err != nil {
			return 0, 0, fmt.Errorf("info commandstats: %w", err)
		}
		calls += n
		spent += time.Duration(usec) * time.Microsecond
	}
	return calls, spent, nil
}

// count is the single number that a query answers.
func (l *lab) count(ctx context.Context, query string) (int, error) {
	var n int
	if err := l.db.QueryRowContext(ctx, query).Scan(&n); err != nil {
		return 0, fmt.Errorf("%s: %w", query, err)
	}
	return n, nil
}

// until looks again and again until done says so; the last error is returned when ctx ends.
func until(ctx context.Context, what string, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, ctx.Err())
		case <-ticker.C:
		}
	}
}
