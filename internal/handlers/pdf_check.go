package handlers

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/tierq/tierq/internal/handler"
)

// The limits of one document.
const (
	maxTitle      = 200 // characters
	maxParagraphs = 500
	maxText       = 64 << 10 // bytes of all paragraphs together
	maxColumns    = 20
	maxRows       = 1000
	maxPages      = 200 // known only at the layout: a longer document fails for good
)

// Cell is one cell of a table: a JSON text, number, true, false or null (empty).
type Cell struct {
	Text   string
	Number bool // aligned to the right
	bad    bool
}

// UnmarshalJSON accepts every value, so that Validate can name the wrong cell.
func (c *Cell) UnmarshalJSON(text []byte) error {
	switch text = bytes.TrimSpace(text); text[0] {
	case '"':
		return json.Unmarshal(text, &c.Text)
	case '{', '[':
		c.bad = true
	case 'n':
	case 't', 'f':
		c.Text = string(text)
	default:
		c.Text, c.Number = string(text), true
	}
	return nil
}

// Validate returns every wrong field as a *handler.PayloadError, joined into one error.
func (d *Document) Validate() error {
	var wrong []error
	bad := func(field, reason string, args ...any) {
		wrong = append(wrong, &handler.PayloadError{Field: "payload." + field, Reason: fmt.Sprintf(reason, args...)})
	}
	switch n := utf8.RuneCountInString(d.Title); {
	case n == 0:
		bad("title", "is missing")
	case n > maxTitle:
		bad("title", "has %d characters, the most is %d", n, maxTitle)
	}
	if n := len(d.Paragraphs); n > maxParagraphs {
		bad("paragraphs", "has %d paragraphs, the most is %d", n, maxParagraphs)
	}
	size := 0
	for _, p := range d.Paragraphs {
		size += len(p)
	}
	if size > maxText {
		bad("paragraphs", "has %d bytes in all, the most is %d", size, maxText)
	}
	if d.Table != nil {
		d.Table.check(bad)
	}
	return errors.Join(wrong...)
}

func (t *Table) check(bad func(field, reason string, args ...any)) {
	columns := len(t.Header)
	switch {
	case columns == 0:
		bad("table.header", "is missing")
		return
	case columns > maxColumns:
		bad("table.header", "has %d columns, the most is %d", columns, maxColumns)
		return
	case len(t.Rows) > maxRows:
		bad("table.rows", "has %d rows, the most is %d", len(t.Rows), maxRows)
		return
	}
	for i, row := range t.Rows {
		if len(row) != columns {
			bad(fmt.Sprintf("table.rows[%d]", i), "has %d cells, the header has %d", len(row), columns)
		}
		for j, cell := range row {
			if cell.bad {
				bad(fmt.Sprintf("table.rows[%d][%d]", i, j), "is neither a text, a number, true, false nor null")
			}
		}
	}
}
