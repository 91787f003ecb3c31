package handlers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/ledongthuc/pdf"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

const docID = job.ID("019de340-01fe-7a58-be69-567cd7d6b7d4") // minted 2026-05-01T11:15:16Z

// shelf keeps the last file that was stored.
type shelf struct {
	id                job.ID
	attempt           int
	name, contentType string
	body              []byte
	err               error
}

func (s *shelf) Put(
	_ context.Context, id job.ID, attempt int, name, contentType string, body []byte,
) (int64, error) {
	if s.err != nil {
		return 0, s.err
	}
	s.id, s.attempt, s.name, s.contentType, s.body = id, attempt, name, contentType, body
	return int64(len(body)), nil
}

// make runs a job of a type that makes files.
func (s *shelf) make(ctx context.Context, typ string, payload []byte, t Tallies) (Made, error) {
	return s.makeAs(ctx, handler.Run{ID: docID, Attempt: 3}, typ, payload, t)
}

func (s *shelf) makeAs(ctx context.Context, run handler.Run, typ string, payload []byte, t Tallies) (Made, error) {
	r := handler.NewRegistry()
	RegisterDocuments(r, s, t)
	if err := r.Check(typ, payload); err != nil {
		return Made{}, err
	}
	result, err := r.Run(handler.WithRun(ctx, run), typ, payload)
	var made Made
	if err == nil {
		err = json.Unmarshal(result, &made)
	}
	return made, err
}

// opened reads a PDF with a library that did not write it: the texts of each page in the order they were written,
// each followed by a |. The texts' codes are UTF-16, as the font's table for copying text says. The library reads
// only the lower half of such a table.
func opened(t *testing.T, body []byte) (*pdf.Reader, []string) {
	t.Helper()
	r, err := pdf.NewReader(bytes.NewReader(body), int64(len(body)))
	if err != nil {
		t.Fatal(err)
	}
	var pages []string
	for i := 1; i <= r.NumPage(); i++ {
		page := r.Page(i)
		for _, name := range page.Fonts() {
			if table, err := io.ReadAll(page.Font(name).V.Key("ToUnicode").Reader()); err != nil ||
				!bytes.Contains(table, []byte("<0000> <FFFF> <0000>")) {
				t.Errorf("font %s: %v, codes are not characters: %s", name, err, table)
			}
		}
		var text strings.Builder
		pdf.Interpret(page.V.Key("Contents"), func(stack *pdf.Stack, op string) {
			if op == "Tj" {
				text.WriteString(utf16Text(stack.Pop().RawString()) + "|")
			}
			for stack.Len() > 0 {
				stack.Pop()
			}
		})
		pages = append(pages, text.String())
	}
	return r, pages
}

func utf16Text(raw string) string {
	var units []uint16
	for i := 0; i+1 < len(raw); i += 2 {
		units = append(units, uint16(raw[i])<<8|uint16(raw[i+1]))
	}
	return string(utf16.Decode(units))
}

func document(t *testing.T, d map[string]any) []byte {
	t.Helper()
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestGeneratePDF(t *testing.T) {
	t.Attr("proves", "S1-P4")
	payload := document(t, map[string]any{
		"title":      "Überweisung № 7 (Łódź)",
		"paragraphs": []string{"Grüße an Ελλάδα и Москва: 5 € ≤ „zehn“.", "漢字 😀 \\ (a) ) \r\nu\u0308ber\tall"},
		"table": map[string]any{
			"header": []string{"Name", "Betrag", "ok"},
			"rows":   [][]any{{"Müller", 12.5, true}, {"Straße", -3, nil}},
		},
	})
	var s shelf
	made, err := s.make(t.Context(), "GENERATE_PDF", payload, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := Artifact{Name: "Überweisung-7-Łódź.pdf", ContentType: "application/pdf", Bytes: int64(len(s.body)),
		URL: "/jobs/" + string(docID) + "/artifact"}
	if made.Artifact != want || s.id != docID || s.attempt != 3 || s.name != want.Name ||
		s.contentType != want.ContentType {
		t.Errorf("result %+v, stored %s %q %q, want %+v", made, s.id, s.name, s.contentType, want)
	}
	r, pages := opened(t, s.body)
	if len(pages) != 1 {
		t.Fatalf("%d pages", len(pages))
	}
	for _, line := range []string{
		"Überweisung № 7 (Łódź)|", "Grüße an Ελλάδα и Москва: 5 € ≤ „zehn“.|", "\uFFFD\uFFFD \uFFFD \\ (a) )|", "über all|",
		"Name|Betrag|ok|", "Müller|12.5|true|", "Straße|-3|",
	} {
		if !strings.Contains(pages[0], line) {
			t.Errorf("no %q in %q", line, pages[0])
		}
	}
	info := r.Trailer().Key("Info")
	if got := info.Key("Title").Text(); got != "Überweisung № 7 (Łódź)" {
		t.Errorf("title %q", got)
	}
	if got := info.Key("CreationDate").Text(); got != "D:20260501111516" {
		t.Errorf("date %q", got)
	}
	again := shelf{}
	if _, err := again.make(t.Context(), "GENERATE_PDF", payload, nil); err != nil || !bytes.Equal(again.body, s.body) {
		t.Errorf("another run made other bytes: %v", err)
	}
}

// These layouts work: a row or a header that continues on the next page, a table of many columns, a document that
// has only a title.
func TestPDFPages(t *testing.T) {
	t.Attr("proves", "S1-P4")
	t.Run("long table", func(t *testing.T) {
		rows := make([][]any, maxRows)
		for i := range rows {
			rows[i] = []any{i, fmt.Sprintf("row-%04d", i)}
		}
		rows[500][1] = strings.Repeat("a long cell ", 900)
		var s shelf
		if _, err := s.make(t.Context(), "GENERATE_PDF", document(t, map[string]any{
			"title": "t", "table": map[string]any{"header": []string{"number", "name"}, "rows": rows},
		}), nil); err != nil {
			t.Fatal(err)
		}
		_, pages := opened(t, s.body)
		all := strings.Join(pages, "")
		for i, p := range pages {
			if !strings.Contains(p, "number|name|") || !strings.HasPrefix(p, fmt.Sprintf("%d|", i+1)) {
				t.Errorf("page %d lacks its header or number: %.60q", i+1, p)
			}
		}
		for i := range rows {
			if i != 500 && !strings.Contains(all, fmt.Sprintf("%d|row-%04d|", i, i)) {
				t.Errorf("row %d is missing", i)
			}
		}
		if n := strings.Count(strings.NewReplacer("|", " ", "\n", " ").Replace(all), "a long cell"); n < 800 ||
			len(pages) < 15 {
			t.Errorf("%d of 900 parts of the long cell on %d pages", n, len(pages))
		}
	})
	t.Run("many columns, tall header", func(t *testing.T) {
		header, row := make([]string, maxColumns), make([]any, maxColumns)
		for i := range header {
			header[i], row[i] = strings.Repeat("word ", 60), fmt.Sprintf("c%d", i)
		}
		var s shelf
		if _, err := s.make(t.Context(), "GENERATE_PDF", document(t, map[string]any{
			"title": "t", "table": map[string]any{"header": header, "rows": [][]any{row}},
		}), nil); err != nil {
			t.Fatal(err)
		}
		if _, pages := opened(t, s.body); !strings.Contains(pages[len(pages)-1], "c0|c1|c2|c3|") ||
			!strings.Contains(pages[len(pages)-1], "c18|c19|") {
			t.Errorf("the row is not there: %q", pages)
		} else if n := strings.Count(strings.Join(pages, ""), "word"); n != 60*maxColumns || len(pages) != 2 {
			t.Errorf("%d words of the header on %d pages: it must stand there once", n, len(pages))
		}
	})
	t.Run("a title only", func(t *testing.T) {
		var s shelf
		made, err := s.make(t.Context(), "GENERATE_PDF", document(t, map[string]any{"title": "///"}), nil)
		if err != nil || made.Artifact.Name != "document.pdf" {
			t.Fatalf("%+v, %v", made, err)
		}
		if _, pages := opened(t, s.body); len(pages) != 1 || !strings.Contains(pages[0], "///") {
			t.Errorf("%q", pages)
		}
	})
}

func TestPDFEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(handler.ErrCancelled)
	var s shelf
	if _, err := s.make(ctx, "GENERATE_PDF", []byte(`{"title":"t"}`), nil); !errors.Is(err, handler.ErrCancelled) {
		t.Errorf("error = %v, want the cause", err)
	}
}

func TestPDFStoreFails(t *testing.T) {
	s := shelf{err: job.ErrUnavailable}
	if _, err := s.make(t.Context(), "GENERATE_PDF", []byte(`{"title":"t"}`), nil); !errors.Is(err, job.ErrUnavailable) ||
		handler.Judge(err).Permanent {
		t.Errorf("error = %v", err)
	}
}
