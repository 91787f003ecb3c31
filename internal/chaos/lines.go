package chaos

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/tierq/tierq/internal/chaos/client"
	"github.com/tierq/tierq/internal/job"
)

// lineLimits returns the limits that keys of lines have during the whole run.
func lineLimits() map[string]job.LineLimits {
	return map[string]job.LineLimits{client.LineSolo: {Strict: true}, client.LinePair: {Running: 2}}
}

// limitLines gives the keys of lines their limits, as an operator does. It asks the first server until that has done
// so.
func (c *cluster) limitLines(ctx context.Context) error {
	for key, l := range lineLimits() {
		path, status := "/admin/lines?key="+url.QueryEscape(key), 0
		body := fmt.Sprintf(`{"running":%d,"strict":%t}`, l.Running, l.Strict)
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
