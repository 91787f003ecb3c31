package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
)

// column is one column of a table.
type column[T any] struct {
	head  string
	cell  func(T) string
	wide  bool           // shown only in a wide table
	color func(T) string // nil = none
}

// list prints elements as they arrive, so that a long list needs little memory.
type list[T any] struct {
	*output
	columns []column[T]
	name    func(T) string // for -o name; an empty name is not printed
	n       int
	table   *tabwriter.Writer
}

// together is the number of table lines that are aligned with each other.
const together = 500

func newList[T any](o *output, name func(T) string, columns ...column[T]) *list[T] {
	l := &list[T]{output: o, name: name, table: tabwriter.NewWriter(o.w, 0, 8, 2, ' ', 0)}
	for _, c := range columns {
		if !c.wide || o.format == asWide {
			l.columns = append(l.columns, c)
		}
	}
	return l
}

// add prints one element, or keeps it until the table's lines can be aligned.
func (l *list[T]) add(v T) error {
	l.n++
	switch l.format {
	case asNDJSON:
		return l.document(v)
	case asName:
		if name := l.name(v); name != "" {
			return l.line(name)
		}
		return nil
	case asJSON:
		return l.item(v)
	}
	if l.n == 1 {
		l.row(func(c column[T]) string { return l.colored(c, c.head, "") })
	}
	l.row(func(c column[T]) string {
		color := ""
		if c.color != nil {
			color = c.color(v)
		}
		return l.colored(c, clean(c.cell(v)), color)
	})
	if l.n%together == 0 {
		return l.flush()
	}
	return nil
}

func (l *list[T]) colored(c column[T], text, color string) string {
	if c.color == nil {
		return text
	}
	return l.paint(text, color)
}

func (l *list[T]) row(cell func(column[T]) string) {
	cells := make([]string, len(l.columns))
	for i, c := range l.columns {
		cells[i] = cell(c)
	}
	fmt.Fprintln(l.table, strings.Join(cells, "\t")) // flush returns the error
}

func (l *list[T]) flush() error {
	if err := l.table.Flush(); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// item prints an element of {"items": [...]}.
func (l *list[T]) item(v T) error {
	text, err := encode(v)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	before := ",\n    "
	if l.n == 1 {
		before = "{\n  \"items\": [\n    "
	}
	b.WriteString(before)
	if err := json.Indent(&b, text, "    ", "  "); err != nil {
		return fmt.Errorf("the answer is not JSON: %w", err)
	}
	return l.print(escape(b.Bytes()))
}

// end finishes the list. next is the cursor of the next page; nil for a list without pages. Without end the JSON
// is invalid, so that an incomplete list does not look complete.
func (l *list[T]) end(next *string) error {
	if l.format != asJSON {
		return l.flush()
	}
	text := "\n  ]"
	if l.n == 0 {
		text = "{\n  \"items\": []"
	}
	if next != nil {
		value, err := encode(orNull(*next))
		if err != nil {
			return err
		}
		text += ",\n  \"next\": " + string(escape(value))
	}
	return l.print([]byte(text + "\n}\n"))
}

func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}
