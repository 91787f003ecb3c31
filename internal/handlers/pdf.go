package handlers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

// Artifacts stores the file of one attempt of a job and returns its size in bytes. It replaces an earlier file of
// that attempt. On an error nothing has changed.
type Artifacts interface {
	Put(ctx context.Context, id job.ID, attempt int, name, contentType string, body []byte) (int64, error)
}

// Document is the payload of a GENERATE_PDF job. The table comes after the paragraphs.
type Document struct {
	Title      string   `json:"title"`
	Paragraphs []string `json:"paragraphs,omitempty"`
	Table      *Table   `json:"table,omitempty"`
}

// Table is a header and rows with one cell per column.
type Table struct {
	Header []string `json:"header"`
	Rows   [][]Cell `json:"rows"`
}

// Made is the result of a job that made a file.
type Made struct {
	Artifact Artifact `json:"artifact"`
}

// Artifact describes a stored file. URL is a path on this server.
type Artifact struct {
	Name        string `json:"name"`
	ContentType string `json:"contentType"`
	Bytes       int64  `json:"bytes"`
	URL         string `json:"url"`
}

// RegisterDocuments adds the job types that make files: GENERATE_PDF and REPORT.
func RegisterDocuments(r *handler.Registry, a Artifacts, t Tallies) {
	handler.Register(r, "GENERATE_PDF", func(ctx context.Context, in Document) (Made, error) {
		return generate(ctx, a, in)
	})
	handler.Register(r, "REPORT", func(ctx context.Context, in Report) (Made, error) { return report(ctx, a, t, in) })
}

// MakesFiles reports whether jobs of a type may have made a file.
func MakesFiles(jobType string) bool { return jobType == "GENERATE_PDF" || jobType == "REPORT" }

const pdfType = "application/pdf"

func generate(ctx context.Context, a Artifacts, d Document) (Made, error) {
	run, ok := handler.Running(ctx)
	if !ok {
		return Made{}, errNoRun
	}
	body, err := render(ctx, d, born(run.ID))
	if err != nil {
		return Made{}, err
	}
	return keep(ctx, a, run, fileName(d.Title)+".pdf", pdfType, body)
}

var errNoRun = errors.New("no job runs in this context")

func keep(ctx context.Context, a Artifacts, run handler.Run, name, contentType string, body []byte) (Made, error) {
	size, err := a.Put(ctx, run.ID, run.Attempt, name, contentType, body)
	if err != nil {
		return Made{}, fmt.Errorf("keep %s: %w", name, err)
	}
	url := "/jobs/" + string(run.ID) + "/artifact"
	return Made{Artifact{Name: name, ContentType: contentType, Bytes: size, URL: url}}, nil
}

// fileName makes a file name from a title: its letters and digits, with a hyphen for everything between them, at
// most 80 bytes.
func fileName(title string) string {
	words := strings.FieldsFunc(title,
		func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) || r == utf8.RuneError })
	name := strings.Join(words, "-")
	if len(name) > 80 {
		cut := 80
		for !utf8.RuneStart(name[cut]) {
			cut--
		}
		name = strings.TrimRight(name[:cut], "-")
	}
	if name == "" {
		return "document"
	}
	return name
}
