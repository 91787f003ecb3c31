package chaos

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/tierq/tierq/internal/chaos/check"
	"github.com/tierq/tierq/internal/chaos/client"
)

// makeScheduleKey makes the API key of the operators of schedules.
func (c *cluster) makeScheduleKey(ctx context.Context) error {
	var made struct{ ID, Key string }
	body := `{"name":"chaos schedules","role":"admin"}`
	status, err := c.ask(ctx, c.servers[0].base(), http.MethodPost, "/admin/keys", c.admin, body, &made)
	if err != nil || status != http.StatusCreated {
		return fmt.Errorf("make the key of the schedules: %d %w", status, err)
	}
	c.scheduleKey = client.Key{ID: made.ID, Text: made.Key}
	return nil
}

// occurrenceFacts adds the numbers of changes and occurrences of schedules to the report.
func (c *cluster) occurrenceFacts(report *check.Report, e *check.Evidence) {
	fates, missed := map[check.Fate]int{}, map[string]int{}
	for i := range e.Schedules.Changes {
		fates[e.Schedules.Changes[i].Fate]++
	}
	asked := 0
	for i := range e.Schedules.Runs {
		r := &e.Schedules.Runs[i]
		switch {
		case r.Asked:
			asked++
		case r.JobID == "":
			missed[string(r.Reason)] += max(r.Missed, 1)
		}
	}
	var why []string
	for _, reason := range slices.Sorted(maps.Keys(missed)) {
		why = append(why, fmt.Sprintf("%d %s", missed[reason], reason))
	}
	report.Fact("changes of schedules", "%d, of which %d without an answer and %d refused", len(e.Schedules.Changes),
		fates[check.Unknown], fates[check.Fail])
	n := &report.Counts
	report.Fact("occurrences", "%d fired, %d missed (%s); %d of all came when their schedule was certain",
		n.Occurred-asked, n.Missed, strings.Join(why, ", "), n.Judged)
	report.Fact("jobs of schedules that operators asked for", "%d", asked)
}
