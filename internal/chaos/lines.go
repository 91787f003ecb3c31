package chaos

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/tierq/tierq/internal/chaos/check"
	"github.com/tierq/tierq/internal/chaos/client"
	"github.com/tierq/tierq/internal/job"
)

// lineLimits returns the limits that keys of lines have during the whole run.
func lineLimits() map[string]job.LineLimits {
	return map[string]job.LineLimits{client.LineSolo: {Strict: true}, client.LinePair: {Running: 2},
		client.LineSlow: {Rate: 8, Burst: 4}}
}

// limitsOf is the body that gives a key its limits.
func limitsOf(l job.LineLimits) string {
	return fmt.Sprintf(`{"running":%d,"strict":%t,"rate":%g,"burst":%d}`, l.Running, l.Strict, l.Rate, l.Burst)
}

// limitLines gives the keys of lines their limits, as an operator does. It asks the first server until that has done
// so.
func (c *cluster) limitLines(ctx context.Context) error {
	for key, l := range lineLimits() {
		path, status := linePath(key), 0
		body := limitsOf(l)
		var err error
		for end := time.Now().Add(10 * time.Second); status != http.StatusOK; {
			status, err = c.ask(ctx, c.servers[0].base(), http.MethodPut, path, c.admin, body, nil)
			if status != http.StatusOK && (time.Now().After(end) || !hold(ctx, 50*time.Millisecond)) {
				return fmt.Errorf("limit the key %s: %d %w", key, status, err)
			}
		}
	}
	return nil
}

func linePath(key string) string { return "/admin/lines?key=" + url.QueryEscape(key) }

// heldFor is how long keysHeld holds the keys.
const heldFor = 8 * time.Second

// keysHeld is a fault: an operator lowers the limit of LinePair to one attempt and pauses LineFree, while jobs of both
// run and wait. Some seconds later the pause ends by itself, and the limit is raised again.
func keysHeld(ctx context.Context, w *wound) (string, error) {
	w.target = ""
	put := func(ctx context.Context, key, body string) bool {
		base := w.bases()[w.rng.IntN(len(w.servers))]
		status, err := w.ask(ctx, base, http.MethodPut, linePath(key), w.admin, body, nil)
		return err == nil && status == http.StatusOK
	}
	until := time.Now().Add(heldFor)
	pause := fmt.Sprintf(`{"paused":{"until":%q,"reason":"chaos"}}`, until.UTC().Format(time.RFC3339Nano))
	held := []check.Hold{{Line: client.LineFree, To: until}, {Line: client.LinePair, Most: 1}}
	isPaused := put(ctx, client.LineFree, pause)
	held[0].From = time.Now()
	isLowered := put(ctx, client.LinePair, limitsOf(job.LineLimits{Running: 1}))
	held[1].From = time.Now()
	hold(ctx, time.Until(until))
	held[1].To = time.Now()
	calm := context.WithoutCancel(ctx)
	for end := time.Now().Add(20 * time.Second); !put(calm, client.LinePair, limitsOf(lineLimits()[client.LinePair])); {
		if time.Now().After(end) || !hold(calm, 100*time.Millisecond) {
			return "the limit could not be raised again", errMissed
		}
	}
	if !isPaused || !isLowered {
		return fmt.Sprintf("paused %t, lowered %t", isPaused, isLowered), errMissed
	}
	w.notes.Lock()
	defer w.notes.Unlock()
	w.holds = append(w.holds, held...)
	return "one key was paused, another one had half its limit", nil
}
