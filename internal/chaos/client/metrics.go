package client

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strconv"

	"github.com/tierq/tierq/internal/chaos/check"
)

var counted = regexp.MustCompile(`^tierq_jobs_(submitted|finished)_total\{outcome="(\w+)",tier="[^"]*"\} ([0-9.e+]+)$`)

// ReadMetrics adds up the servers' counters into e.Metrics. key is the API key for them; "" = the servers are
// open. The sums are meaningful only if bases has every process that ever ran.
func ReadMetrics(ctx context.Context, bases []string, key string, e *check.Evidence) error {
	e.Metrics = &check.Sums{}
	for _, base := range bases {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/metrics", http.NoBody)
		if err != nil {
			return fmt.Errorf("read metrics: %w", err)
		}
		if key != "" {
			req.Header.Set("Authorization", "Bearer "+key)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return fmt.Errorf("read metrics: %w", err)
		}
		lines := bufio.NewScanner(resp.Body)
		for lines.Scan() {
			if m := counted.FindStringSubmatch(lines.Text()); m != nil {
				n, _ := strconv.ParseFloat(m[3], 64) // the expression matches numbers only
				add(e.Metrics, m[1]+" "+m[2], int(n))
			}
		}
		if err := lines.Err(); err != nil {
			return fmt.Errorf("read metrics: %w", err)
		}
		_ = resp.Body.Close() // its whole body is read
	}
	return nil
}

func add(s *check.Sums, what string, n int) {
	switch what {
	case "submitted ACCEPTED":
		s.Accepted += n
	case "finished COMPLETED":
		s.Completed += n
	case "finished FAILED":
		s.Failed += n
	case "finished CANCELLED":
		s.Cancelled += n
	}
}
