package schedule

import (
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// Occurrences of everySeconds are whole steps from the start, also if the start or the time asked about is more than
// 292 years away: such a difference is no time.Duration.
func TestNext_Far(t *testing.T) {
	t.Parallel()
	day := func(year int) time.Time { return time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC) }
	for _, c := range []struct{ start, after, want time.Time }{
		{day(1700), day(2027), day(2027).Add(time.Hour)},
		{day(500), day(2027).Add(90 * time.Minute), day(2027).Add(2 * time.Hour)},
		{day(1700).Add(time.Millisecond), day(2027), day(2027).Add(time.Millisecond)},
		{day(9000), day(2027), day(9000)},
		{time.Time{}, day(9000), day(9000).Add(time.Hour)},
		{time.Time{}, day(1500).Add(time.Second), day(1500).Add(time.Hour)},
		{day(2027), day(9000), day(9000).Add(time.Hour)},
	} {
		at, err := New(&job.Schedule{Name: "x", Every: time.Hour, Start: c.start})
		if err != nil {
			t.Fatal(err)
		}
		if next := at.Next(c.after); !next.Equal(c.want) {
			t.Errorf("from %s, after %s: %s, want %s", c.start, c.after, next, c.want)
		}
	}
}

// A zone whose meaning depends on the server, and a cron expression that cannot be read, are refused with an example.
func TestNew_Refuses(t *testing.T) {
	t.Parallel()
	for _, zone := range []string{"Local", "localtime", "posixrules", "right/Europe/Berlin", "posix/Europe/Berlin",
		"../UTC", "europe/nowhere"} {
		_, err := New(&job.Schedule{Name: "x", Cron: "* * * * *", Timezone: zone})
		if err == nil || !strings.Contains(err.Error(), "such as Europe/Berlin") {
			t.Errorf("%s: %v", zone, err)
		}
	}
	for _, text := range []string{"L * * * *", "61 * * * *", "* * * *", "@reboot", "* * * * x", "* * * * 7"} {
		_, err := New(&job.Schedule{Name: "x", Cron: text})
		if err == nil || !strings.Contains(err.Error(), "such as 30 2 * * 1-5") || strings.Contains(err.Error(), "strconv") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
