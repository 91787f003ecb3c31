package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
)

// describe prints what the figures depend on, and the control figure that other runs are compared by.
func (l *lab) describe(ctx context.Context, out io.Writer) error {
	fmt.Fprintf(out, "tierq bench, scale %g, %d runs; medians first\n", l.scale, l.runs)
	fmt.Fprintf(out, "  machine   %s/%s, %d cores, %s; everything on loopback, load generator included\n", runtime.GOOS,
		runtime.GOARCH, runtime.NumCPU(), processor())
	fmt.Fprintf(out, "  load      %s when it began: beside other programs every figure is worse\n", loadAverage())
	fmt.Fprintf(out, "  go        %s, GOMAXPROCS %d, GOGC %s here (server processes: 400 unless set)\n", runtime.Version(),
		runtime.GOMAXPROCS(0), gogc())
	settings := []string{}
	for _, name := range []string{"appendonly", "appendfsync", "auto-aof-rewrite-percentage", "maxmemory-policy",
		"hash-max-listpack-value"} {
		got, err := l.client.ConfigGet(ctx, name).Result()
		if err != nil {
			return fmt.Errorf("read Redis' settings: %w", err)
		}
		settings = append(settings, name+" "+got[name])
	}
	version, err := l.client.InfoMap(ctx, "server").Result()
	if err != nil {
		return fmt.Errorf("read Redis' version: %w", err)
	}
	fmt.Fprintf(out, "  redis     %s, %s\n", version["Server"]["redis_version"], strings.Join(settings, ", "))
	var sqlVersion, flush, redo, pool string
	err = l.db.QueryRowContext(ctx,
		"SELECT VERSION(), @@innodb_flush_log_at_trx_commit, @@innodb_log_file_size >> 20, @@innodb_buffer_pool_size >> 20").
		Scan(&sqlVersion, &flush, &redo, &pool)
	if err != nil {
		return fmt.Errorf("read MariaDB's settings: %w", err)
	}
	fmt.Fprintf(out, "  mariadb   %s, innodb_flush_log_at_trx_commit %s, redo log %s MiB, buffer pool %s MiB\n",
		sqlVersion, flush, redo, pool)
	fmt.Fprintf(out, "  jobs      about %d bytes of payload, handlers do nothing\n", payloadSize)
	fmt.Fprintf(out, "  control   %s\n", l.control(ctx))
	return nil
}

// control is what redis-benchmark reaches on the same server in the same run.
func (l *lab) control(ctx context.Context) string {
	bin, err := exec.LookPath("redis-benchmark")
	if err != nil {
		return "redis-benchmark is not installed"
	}
	_, port, _ := strings.Cut(l.redis.Addr(), ":")
	n := min(l.scaled(1000000, 10000), 1000000)
	before, err := l.redisCPU(ctx)
	if err != nil {
		return err.Error()
	}
	text, err := exec.CommandContext(ctx, bin, "-p", port, "-P", "16", "-t", "set", "-n", strconv.Itoa(n), "-q").Output()
	if err != nil {
		return "redis-benchmark failed: " + err.Error()
	}
	after, err := l.redisCPU(ctx)
	if err != nil {
		return err.Error()
	}
	lines := strings.FieldsFunc(string(text), func(r rune) bool { return r == '\r' || r == '\n' })
	for i := len(lines) - 1; i >= 0; i-- {
		if strings.Contains(lines[i], "per second") {
			return fmt.Sprintf("redis-benchmark -P 16 -t set -n %d: %s; %.2f us of Redis' CPU per SET", n,
				strings.TrimSpace(lines[i]), micros(after-before, n))
		}
	}
	return "redis-benchmark said nothing"
}

func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "processor unknown"
	}
	for line := range strings.Lines(string(text)) {
		if name, model, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(model)
		}
	}
	return "processor unknown"
}

func gogc() string {
	if v := os.Getenv("GOGC"); v != "" {
		return v
	}
	return "100"
}

func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if f := strings.Fields(string(text)); err == nil && len(f) > 0 {
		return f[0]
	}
	return "unknown"
}
