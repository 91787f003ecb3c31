package handlers

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

// Tallies counts by their outcome the jobs of one owner that were accepted from one time up to, but not including,
// another. A nil owner means all owners, "" means jobs submitted without a key.
type Tallies interface {
	Tally(ctx context.Context, owner *string, from, to time.Time) ([]job.Tally, error)
}

// Report is the payload of a REPORT job. Kind is "jobs", the default; Format is "pdf" (the default) or "csv".
// Without To the window ends now, by the worker's clock, or at its greatest length, whichever is earlier. Without
// From the window is the 24 hours before To. The report counts the submitter's jobs, or all jobs if an operator
// submitted it.
type Report struct {
	Kind   string `json:"kind,omitempty"`
	From   string `json:"from,omitempty"` // RFC 3339
	To     string `json:"to,omitempty"`   // RFC 3339
	Format string `json:"format,omitempty"`
}

const maxWindow = 31 * 24 * time.Hour

// Validate returns every wrong field as a *handler.PayloadError, joined into one error.
func (r *Report) Validate() error {
	var wrong []error
	bad := func(field, reason string) {
		wrong = append(wrong, &handler.PayloadError{Field: "payload." + field, Reason: reason})
	}
	if r.Kind != "" && r.Kind != "jobs" {
		bad("kind", `is not "jobs"`)
	}
	if r.Format != "" && r.Format != "pdf" && r.Format != "csv" {
		bad("format", `is neither "pdf" nor "csv"`)
	}
	from, fromErr := time.Parse(time.RFC3339, r.From)
	if r.From != "" && fromErr != nil {
		bad("from", "is no time like 2026-05-01T00:00:00Z")
	}
	to, toErr := time.Parse(time.RFC3339, r.To)
	if r.To != "" && toErr != nil {
		bad("to", "is no time like 2026-05-01T00:00:00Z")
	}
	if fromErr == nil && toErr == nil {
		switch {
		case !from.Before(to):
			bad("to", "is not after from")
		case to.Sub(from) > maxWindow:
			bad("to", "is more than 31 days after from")
		}
	}
	return errors.Join(wrong...)
}

// window returns the time window of a valid report.
func (r *Report) window(now time.Time) (from, to time.Time) {
	from, fromErr := time.Parse(time.RFC3339, r.From)
	to, toErr := time.Parse(time.RFC3339, r.To)
	if toErr != nil {
		to = now
		if fromErr == nil && to.Sub(from) > maxWindow {
			to = from.Add(maxWindow)
		}
	}
	if fromErr != nil {
		from = to.Add(-24 * time.Hour)
	}
	return from.UTC(), to.UTC()
}

func report(ctx context.Context, a Artifacts, t Tallies, in Report) (Made, error) {
	run, ok := handler.Running(ctx)
	if !ok {
		return Made{}, errNoRun
	}
	from, to := in.window(time.Now().Add(time.Second - 1).Truncate(time.Second)) // rounded up
	if !from.Before(to) {
		return Made{}, handler.Permanent(errors.New("the report's window has not begun"))
	}
	tallies, err := t.Tally(ctx, ownerOf(run), from, to)
	if err != nil {
		return Made{}, fmt.Errorf("count the jobs: %w", err)
	}
	slices.SortFunc(tallies, func(a, b job.Tally) int {
		return cmp.Or(cmp.Compare(a.Tier, b.Tier), cmp.Compare(a.Type, b.Type))
	})
	name := "jobs-" + from.Format("20060102T1504") + "-" + to.Format("20060102T1504")
	if in.Format == "csv" {
		body, err := reportCSV(tallies, jobsOf(run))
		if err != nil {
			return Made{}, fmt.Errorf("write the CSV: %w", err)
		}
		return keep(ctx, a, run, name+".csv", "text/csv; charset=utf-8", body)
	}
	body, err := render(ctx, reportDocument(tallies, jobsOf(run), from, to), born(run.ID))
	if err != nil {
		return Made{}, err
	}
	return keep(ctx, a, run, name+".pdf", pdfType, body)
}

// ownerOf returns the owner whose jobs a report counts; nil means all owners. A report that a tierq without keys
// accepted has no owner and is not an operator's: it counts the jobs that have no owner either.
func ownerOf(run handler.Run) *string {
	if run.Everybody {
		return nil
	}
	return &run.Owner
}

// jobsOf returns the words in a report that say whose jobs it counts.
func jobsOf(run handler.Run) string {
	switch {
	case run.Everybody:
		return "everybody"
	case run.Owner == "":
		return "callers without a key"
	}
	return "key " + run.Owner
}

// reportCSV formats the tallies as CSV (RFC 4180) with a header.
func reportCSV(tallies []job.Tally, whose string) ([]byte, error) {
	var out bytes.Buffer
	w := csv.NewWriter(&out)
	w.UseCRLF = true
	rows := [][]string{{"tier", "type", "completed", "failed", "cancelled", "meanRunMs", "maxRunMs", "meanWaitMs",
		"jobsOf", "expired"}}
	for _, t := range tallies {
		row := []string{unformula(string(t.Tier)), unformula(t.Type)}
		for _, n := range numbers(t) {
			row = append(row, strconv.FormatInt(n, 10))
		}
		rows = append(rows, append(row, unformula(whose), strconv.FormatInt(t.Expired, 10)))
	}
	if err := w.WriteAll(rows); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// unformula puts an apostrophe before a text that a spreadsheet would read as a formula.
func unformula(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r\n", rune(text[0])) {
		return "'" + text
	}
	return text
}

func reportDocument(tallies []job.Tally, whose string, from, to time.Time) Document {
	table := &Table{Header: []string{"tier", "type", "completed", "failed", "cancelled", "mean run ms", "max run ms",
		"mean wait ms"}}
	var ended [3]int64
	var expired int64
	for _, t := range tallies {
		expired += t.Expired
		row := []Cell{{Text: string(t.Tier)}, {Text: t.Type}}
		for i, n := range numbers(t) {
			row = append(row, Cell{Text: strconv.FormatInt(n, 10), Number: true})
			if i < len(ended) {
				ended[i] += n
			}
		}
		table.Rows = append(table.Rows, row)
	}
	return Document{
		Title: "Jobs",
		Paragraphs: []string{
			fmt.Sprintf("Jobs of %s, accepted from %s to %s.", whose, from.Format(time.RFC3339), to.Format(time.RFC3339)),
			fmt.Sprintf("%d completed, %d failed, %d cancelled, %d expired.", ended[0], ended[1], ended[2], expired),
		},
		Table: table,
	}
}

func numbers(t job.Tally) []int64 {
	return []int64{t.Completed, t.Failed, t.Cancelled, t.MeanRun.Milliseconds(), t.MaxRun.Milliseconds(),
		t.MeanWait.Milliseconds()}
}
