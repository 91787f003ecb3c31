package chaos

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/tierq/tierq/internal/chaos/check"
	"github.com/tierq/tierq/internal/job"
)

// pausedFor is how long tierPaused pauses.
const pausedFor = 9 * time.Second

// tierPaused is a fault: an operator pauses PUBLIC for some seconds through one server, and asks the servers until one
// says that the pause is in force. From then on, until the pause ends, no job of the tier may be claimed.
func tierPaused(ctx context.Context, w *wound) (string, error) {
	w.target = ""
	base := func() string { return w.bases()[w.rng.IntN(len(w.servers))] }
	var set struct {
		Until time.Time `json:"until"`
	}
	body := fmt.Sprintf(`{"forSeconds":%d,"reason":"chaos"}`, int(pausedFor.Seconds()))
	const scope = "tier:" + string(job.Public)
	status, err := w.ask(ctx, base(), http.MethodPut, "/admin/paused/"+scope, w.admin, body, &set)
	if err != nil || status != http.StatusOK || set.Until.IsZero() {
		return fmt.Sprintf("the pause was answered %d", status), errMissed
	}
	p := check.Pause{Tier: job.Public, Ends: set.Until}
	for p.Known.IsZero() && time.Now().Before(set.Until) && hold(ctx, 200*time.Millisecond) {
		var now struct {
			InForce bool `json:"inForce"`
			Items   []struct {
				Scope string `json:"scope"`
			} `json:"items"`
		}
		status, err := w.ask(ctx, base(), http.MethodGet, "/admin/paused", w.admin, "", &now)
		if err == nil && status == http.StatusOK && now.InForce && len(now.Items) > 0 && now.Items[0].Scope == scope {
			p.Known = time.Now()
		}
	}
	hold(ctx, time.Until(set.Until))
	if p.Known.IsZero() {
		return "no server said that the pause was in force", errMissed
	}
	w.notes.Lock()
	defer w.notes.Unlock()
	w.pauses = append(w.pauses, p)
	return fmt.Sprintf("in force %s after it was asked for", p.Known.Sub(w.from).Round(time.Millisecond)), nil
}
