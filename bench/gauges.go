package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// gauges are what a process and Redis held, look after look.
type gauges struct {
	values map[string][]float64
}

// held are the gauges whose first and last thirds are compared, by their name in /metrics or in Redis' INFO.
var held = []struct{ name, shown, unit string }{
	{"go_memstats_heap_inuse_bytes", "heap in use", "MiB"},
	{"process_resident_memory_bytes", "resident", "MiB"},
	{"go_goroutines", "goroutines", ""},
	{"process_open_fds", "file descriptors", ""},
	{"used_memory", "Redis' memory", "MiB"},
	{"keys", "Redis' keys", ""},
	{"connected_clients", "Redis' clients", ""},
}

const gaugeEvery = time.Second

// watch looks once a second, for so long or until the load ends.
func (l *lab) watch(ctx context.Context, ops string, long time.Duration, sending chan error) (*gauges, error) {
	g := &gauges{values: map[string][]float64{}}
	ticker := time.NewTicker(gaugeEvery)
	defer ticker.Stop()
	for end := time.Now().Add(long); time.Now().Before(end); {
		select {
		case err := <-sending:
			return nil, errors.Join(errors.New("the load ended by itself"), err)
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-ticker.C:
		}
		if err := l.look(ctx, g, ops); err != nil {
			return nil, err
		}
	}
	return g, nil
}

func (l *lab) look(ctx context.Context, g *gauges, ops string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+ops+"/metrics", nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return fmt.Errorf("read /metrics: %w", err)
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		for _, h := range held {
			if h.name == name {
				v, err := strconv.ParseFloat(value, 64)
				if err != nil {
					return fmt.Errorf("read /metrics: %w", err)
				}
				g.values[name] = append(g.values[name], v)
			}
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read /metrics: %w", err)
	}
	for section, field := range map[string]string{"memory": "used_memory", "clients": "connected_clients"} {
		v, err := l.info(ctx, section, field)
		if err != nil {
			return err
		}
		g.values[field] = append(g.values[field], v)
	}
	keys, err := l.client.DBSize(ctx).Result()
	if err != nil {
		return fmt.Errorf("count Redis' keys: %w", err)
	}
	g.values["keys"] = append(g.values["keys"], float64(keys))
	return nil
}

// figures are each gauge's mean over the first and the last third, and the last beside the first.
func (g *gauges) figures() (all []figure) {
	for _, h := range held {
		v := g.values[h.name]
		if len(v) < 3 {
			continue
		}
		first, last := mean(v[:len(v)/3]), mean(v[len(v)-len(v)/3:])
		by := 1.0
		if h.unit == "MiB" {
			by = 1 << 20
		}
		all = append(all, figure{h.shown + ", first third", h.unit, first / by},
			figure{h.shown + ", last third", h.unit, last / by},
			figure{h.shown + ", last beside first", "times", last / first})
	}
	return all
}

func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}
