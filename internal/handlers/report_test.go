package handlers

import (
	"context"
	"encoding/csv"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

// counted returns fixed tallies and records the owner and the window of the call.
type counted struct {
	owner    *string
	from, to time.Time
	tallies  []job.Tally
	err      error
}

func (c *counted) Tally(_ context.Context, owner *string, from, to time.Time) ([]job.Tally, error) {
	c.owner, c.from, c.to = owner, from, to
	return c.tallies, c.err
}

var someTallies = []job.Tally{
	{Tier: job.Unpaid, Type: "=HYPERLINK(\"http://evil\")", Completed: 1},
	{Tier: job.Paid, Type: "SIMULATION", Completed: 7, Failed: 2, Cancelled: 1,
		MeanRun: 1500 * time.Millisecond, MaxRun: 3 * time.Second, MeanWait: 20 * time.Millisecond},
	{Tier: job.Paid, Type: "REPORT", Completed: 3, Expired: 4},
}

func TestReportCSV(t *testing.T) {
	t.Attr("proves", "S0-P12")
	c := counted{tallies: slices.Clone(someTallies)}
	var s shelf
	payload := `{"kind":"jobs","from":"2026-05-01T02:00:00+02:00","to":"2026-05-02T00:00:00Z","format":"csv"}`
	made, err := s.make(t.Context(), "REPORT", []byte(payload), &c)
	if err != nil {
		t.Fatal(err)
	}
	want := Artifact{
		Name: "jobs-20260501T0000-20260502T0000.csv", ContentType: "text/csv; charset=utf-8",
		Bytes: int64(len(s.body)), URL: "/jobs/" + string(docID) + "/artifact",
	}
	if made.Artifact != want || s.name != want.Name || s.contentType != want.ContentType || s.id != docID {
		t.Errorf("%+v, want %+v", made.Artifact, want)
	}
	if !c.from.Equal(time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)) ||
		!c.to.Equal(time.Date(2026, 5, 2, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("asked from %v to %v", c.from, c.to)
	}
	rows, err := csv.NewReader(strings.NewReader(string(s.body))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	wantRows := [][]string{
		{"tier", "type", "completed", "failed", "cancelled", "meanRunMs", "maxRunMs", "meanWaitMs", "jobsOf",
			"expired"},
		{"PAID", "REPORT", "3", "0", "0", "0", "0", "0", "callers without a key", "4"},
		{"PAID", "SIMULATION", "7", "2", "1", "1500", "3000", "20", "callers without a key", "0"},
		{"UNPAID", `'=HYPERLINK("http://evil")`, "1", "0", "0", "0", "0", "0", "callers without a key",
			"0"},
	}
	if !slices.EqualFunc(rows, wantRows, slices.Equal) {
		t.Errorf("rows %q, want %q", rows, wantRows)
	}
	if n := strings.Count(string(s.body), "\r\n"); n != len(wantRows) {
		t.Errorf("%d lines end as RFC 4180 has it", n)
	}
}

func TestReportPDF(t *testing.T) {
	t.Attr("proves", "S0-P12")
	c := counted{tallies: slices.Clone(someTallies)}
	var s shelf
	made, err := s.make(t.Context(), "REPORT",
		[]byte(`{"kind":"jobs","from":"2026-05-01T00:00:00Z","to":"2026-05-31T00:00:00Z","format":"pdf"}`), &c)
	if err != nil || made.Artifact.Name != "jobs-20260501T0000-20260531T0000.pdf" ||
		made.Artifact.ContentType != "application/pdf" {
		t.Fatalf("%+v, %v", made, err)
	}
	_, pages := opened(t, s.body)
	if len(pages) != 1 {
		t.Fatalf("%d pages", len(pages))
	}
	for _, want := range []string{
		"Jobs of callers without a key, accepted from 2026-05-01T00:00:00Z to 2026-05-31T00:00:00Z.|11 completed, 2 " +
			"failed, 1 cancelled, 4 expired.|",
		"tier|type|completed|failed|cancelled|mean run ms|max run ms|mean wait " +
			"ms|PAID|REPORT|3|0|0|0|0|0|PAID|SIMULATION|7|2|1|1500|3000|20|UNPAID|",
	} {
		if !strings.Contains(pages[0], want) {
			t.Errorf("no %q in %q", want, pages[0])
		}
	}
}

// A report counts its submitter's jobs, or all jobs if the submitter may see them anyway, and says which.
func TestReportCountsItsOwn(t *testing.T) {
	t.Attr("proves", "A01")
	none, own := "", "k234567k234567ab"
	for _, tc := range []struct {
		run   handler.Run
		owner *string
		says  string
	}{
		{handler.Run{ID: docID, Owner: own}, &own, "key " + own},
		{handler.Run{ID: docID}, &none, "callers without a key"},
		{handler.Run{ID: docID, Owner: own, Everybody: true}, nil, "everybody"},
		{handler.Run{ID: docID, Everybody: true}, nil, "everybody"},
	} {
		for _, format := range []string{"csv", "pdf"} {
			c := counted{tallies: slices.Clone(someTallies)}
			var s shelf
			if _, err := s.makeAs(t.Context(), tc.run, "REPORT", []byte(`{"format":"`+format+`"}`), &c); err != nil {
				t.Fatal(err)
			}
			if (c.owner == nil) != (tc.owner == nil) || c.owner != nil && *c.owner != *tc.owner {
				t.Errorf("%+v: counts %v", tc.run, c.owner)
			}
			text := string(s.body)
			if format == "pdf" {
				_, pages := opened(t, s.body)
				text = pages[0]
			}
			if !strings.Contains(text, tc.says) {
				t.Errorf("%+v, %s: does not say %q: %q", tc.run, format, tc.says, text)
			}
		}
	}
}

func TestReportWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // its clock stands at 2000-01-01
		now := time.Now().UTC()
		for payload, want := range map[string][2]time.Time{
			"":                                {now.Add(-24 * time.Hour), now},
			"{}":                              {now.Add(-24 * time.Hour), now},
			`{"to":"1999-12-01T00:00:00Z"}`:   {now.AddDate(0, 0, -32), now.AddDate(0, 0, -31)},
			`{"from":"1999-12-31T00:00:00Z"}`: {now.Add(-24 * time.Hour), now},
			`{"from":"1999-01-01T00:00:00Z"}`: {now.AddDate(-1, 0, 0), now.AddDate(-1, 0, 31)},
			`{"from":"1999-12-01T00:00:00Z","to":"2000-01-01T00:00:00Z"}`: {now.AddDate(0, 0, -31), now},
		} {
			var c counted
			var s shelf
			if _, err := s.make(t.Context(), "REPORT", []byte(payload), &c); err != nil || !c.from.Equal(want[0]) ||
				!c.to.Equal(want[1]) {
				t.Errorf("%s: %v to %v, %v, want %v", payload, c.from, c.to, err, want)
			}
		}
		var s shelf
		if _, err := s.make(t.Context(), "REPORT", []byte(`{"from":"2000-01-02T00:00:00Z"}`), &counted{}); err == nil ||
			!handler.Judge(err).Permanent {
			t.Errorf("a window in the future: %v", err)
		}
	})
}

func TestReportRefuses(t *testing.T) {
	t.Attr("proves", "A21")
	for payload, field := range map[string]string{
		`{"kind":"users"}`:                 "payload.kind",
		`{"format":"xlsx"}`:                "payload.format",
		`{"from":"yesterday"}`:             "payload.from",
		`{"to":"2026-05-01"}`:              "payload.to",
		`{"from":"99999-01-01T00:00:00Z"}`: "payload.from",
		`{"from":1}`:                       "payload.from",
		`{"days":1000000000}`:              "payload",
		`{"from":"2026-05-02T00:00:00Z","to":"2026-05-01T00:00:00Z"}`: "payload.to",
		`{"from":"2026-05-01T00:00:00Z","to":"2026-05-01T00:00:00Z"}`: "payload.to",
		`{"from":"2026-05-01T00:00:00Z","to":"2026-06-01T00:00:01Z"}`: "payload.to",
		`{"from":"0001-01-01T00:00:00Z","to":"9999-01-01T00:00:00Z"}`: "payload.to",
	} {
		var s shelf
		_, err := s.make(t.Context(), "REPORT", []byte(payload), &counted{})
		var wrong *handler.PayloadError
		if !errors.As(err, &wrong) || wrong.Field != field {
			t.Errorf("%s: %v, want %s", payload, err, field)
		}
	}
}

func TestReportFails(t *testing.T) {
	var s shelf
	_, err := s.make(t.Context(), "REPORT", nil, &counted{err: job.ErrUnavailable})
	if !errors.Is(err, job.ErrUnavailable) || handler.Judge(err).Permanent || s.body != nil {
		t.Errorf("SQL away: %v", err)
	}
}

func TestUnformula(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "x": "x", "a=b": "a=b", "=1": "'=1", "+1": "'+1", "-1": "'-1", "@x": "'@x", "\tx": "'\tx", "\rx": "'\rx",
	} {
		if got := unformula(text); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}
