package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/tierq/tierq/client"
)

// The formats of --output.
const (
	asTable  = "table"
	asWide   = "wide"
	asJSON   = "json"
	asNDJSON = "ndjson"
	asName   = "name"
)

var formats = []string{asTable, asWide, asJSON, asNDJSON, asName}

// output is the destination and the format of a command's data.
type output struct {
	w      io.Writer
	format string
	color  bool
	clock  func() time.Time
}

// readable reports whether the format is for people.
func (o *output) readable() bool { return o.format == asTable || o.format == asWide }

// document prints one value as JSON: indented, or on one line for ndjson. A json.RawMessage keeps members that
// this version does not know.
func (o *output) document(v any) error {
	text, err := encode(v)
	if err != nil {
		return err
	}
	if o.format == asJSON {
		var b bytes.Buffer
		if err := json.Indent(&b, text, "", "  "); err != nil {
			return fmt.Errorf("the answer is not JSON: %w", err)
		}
		text = b.Bytes()
	}
	return o.print(append(escape(text), '\n'))
}

func (o *output) line(text string) error { return o.print([]byte(clean(text) + "\n")) }

func (o *output) print(text []byte) error {
	if _, err := o.w.Write(text); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// encode returns JSON on one line, with <, > and & unescaped.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// time formats a time: short in a table, exact in a wide one.
func (o *output) time(t time.Time) string {
	switch {
	case t.IsZero():
		return "-"
	case o.format == asTable:
		return since(t, o.clock())
	}
	return t.UTC().Format(time.RFC3339)
}

// moment is time, but "" for the zero time.
func (o *output) moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return o.time(t)
}

// statusColors have two digits each, so that they all take the same width in a table.
var statusColors = map[client.Status]string{
	client.Scheduled: "36", client.Pending: "33", client.Processing: "34", client.Completed: "32", client.Failed: "31",
	client.Cancelled: "35", client.Expired: "35",
}

const noColor = "39"

// paint colours a cell. All cells of a column must be painted, because the colour codes count as text when columns
// are aligned.
func (o *output) paint(text, color string) string {
	if !o.color {
		return text
	}
	if color == "" {
		color = noColor
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}

// field is a line in the description of one thing.
type field struct {
	name, value string
	color       string
}

// fields prints a description, one field per line, without empty values.
func (o *output) fields(list ...field) error {
	w := tabwriter.NewWriter(o.w, 0, 8, 2, ' ', 0)
	for _, f := range list {
		if f.value == "" {
			continue
		}
		value := clean(f.value)
		if f.color != "" {
			value = o.paint(value, f.color)
		}
		fmt.Fprintf(w, "%s\t%s\n", f.name, value)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

func status(s client.Status) field { return field{"STATUS", string(s), statusColors[s]} }

// maxShown limits a payload or result in a description; JSON shows all of it.
const maxShown = 2000

func rawField(name string, raw json.RawMessage) field {
	var b bytes.Buffer
	if len(raw) == 0 || json.Compact(&b, raw) != nil {
		return field{}
	}
	return field{name: name, value: cut(string(escape(b.Bytes())), maxShown)}
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
