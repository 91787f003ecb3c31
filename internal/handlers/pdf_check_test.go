package handlers

import (
	"errors"
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/handler"
)

// A23: a document over a limit is refused, at submit if the limit can be checked there.
func TestPDFRefuses(t *testing.T) {
	t.Attr("proves", "S1-P4 A23")
	table := func(header, rows any) map[string]any {
		return map[string]any{"title": "t", "table": map[string]any{"header": header, "rows": rows}}
	}
	row := []any{1, 2}
	many := make([][]any, maxRows+1)
	for i := range many {
		many[i] = row
	}
	for _, c := range []struct {
		name, field string
		payload     map[string]any
	}{
		{"no title", "payload.title", map[string]any{}},
		{"long title", "payload.title", map[string]any{"title": strings.Repeat("é", 201)}},
		{"many paragraphs", "payload.paragraphs", map[string]any{"title": "t", "paragraphs": make([]string, 501)}},
		{"much text", "payload.paragraphs",
			map[string]any{"title": "t", "paragraphs": []string{strings.Repeat("x", 64<<10), "x"}}},
		{"no header", "payload.table.header", table([]string{}, [][]any{row})},
		{"many columns", "payload.table.header", table(make([]string, 21), [][]any{})},
		{"many rows", "payload.table.rows", table([]string{"a", "b"}, many)},
		{"a short row", "payload.table.rows[3]", table([]string{"a", "b"}, [][]any{row, row, row, {1}, row})},
		{"an object in a cell", "payload.table.rows[1][0]",
			table([]string{"a", "b"}, [][]any{row, {map[string]any{"x": 1}, 2}})},
		{"a list in a cell", "payload.table.rows[0][1]", table([]string{"a", "b"}, [][]any{{1, []int{1}}})},
		{"an unknown field", "payload", map[string]any{"title": "t", "image": "http://127.0.0.1/"}},
		{"a text for a list", "payload.paragraphs", map[string]any{"title": "t", "paragraphs": "p"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s shelf
			_, err := s.make(t.Context(), "GENERATE_PDF", document(t, c.payload), nil)
			var wrong *handler.PayloadError
			if !errors.As(err, &wrong) || wrong.Field != c.field {
				t.Errorf("%v, want %s", err, c.field)
			}
		})
	}
	t.Run("many pages", func(t *testing.T) {
		var s shelf
		_, err := s.make(t.Context(), "GENERATE_PDF",
			document(t, map[string]any{"title": "t", "paragraphs": []string{strings.Repeat("\n", 64<<10)}}), nil)
		if err == nil || !handler.Judge(err).Permanent || !strings.Contains(err.Error(), "200 pages") || s.body != nil {
			t.Errorf("error = %v", err)
		}
	})
}
