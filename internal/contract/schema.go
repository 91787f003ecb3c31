package contract

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Fits returns an error if a JSON text does not fit the schema with this name.
func (c *Contract) Fits(schema string, text []byte) error {
	n := c.at("#/components/schemas/" + schema)
	if n.value == nil {
		return fmt.Errorf("there is no schema %s", schema)
	}
	return c.fitsJSON(n, text)
}

func (c *Contract) fitsJSON(schema node, text []byte) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("not JSON: %w", err)
	}
	return c.fits(schema, value)
}

func (c *Contract) fits(schema node, value any) error {
	s, err := c.compile(schema.pointer)
	if err != nil {
		return err
	}
	return s.Validate(value)
}

func (c *Contract) compile(pointer string) (*jsonschema.Schema, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s, done := c.schemas[pointer]; done {
		return s, nil
	}
	tokens := strings.Split(pointer, "/")
	for i := range tokens[1:] {
		tokens[i+1] = url.PathEscape(tokens[i+1])
	}
	s, err := c.compiler.Compile(resource + strings.Join(tokens, "/"))
	if err != nil {
		return nil, fmt.Errorf("schema at %s: %w", pointer, err)
	}
	c.schemas[pointer] = s
	return s, nil
}

// fitsText checks a text from a header, a path or a query. If the schema wants a number or a boolean, the text is
// converted first.
func (c *Contract) fitsText(schema node, text string) error {
	var value any = text
	types := c.types(schema)
	_, notNumber := strconv.ParseFloat(text, 64)
	switch {
	case slices.Contains(types, "integer") && notNumber == nil, slices.Contains(types, "number") && notNumber == nil:
		value = json.Number(text)
	case slices.Contains(types, "boolean") && (text == "true" || text == "false"):
		value = text == "true"
	}
	return c.fits(schema, value)
}

func (c *Contract) types(schema node) (types []string) {
	schema = c.resolve(schema)
	switch t := schema.child("type").value.(type) {
	case string:
		return []string{t}
	case []any:
		for _, one := range t {
			types = append(types, fmt.Sprint(one))
		}
	}
	return types
}

// eachLine checks every line of a text against a schema. The last line must have an end.
func (c *Contract) eachLine(schema node, text []byte) error {
	if len(text) > 0 && !bytes.HasSuffix(text, []byte("\n")) {
		return fmt.Errorf("the last line has no end")
	}
	for line := range bytes.Lines(text) {
		if err := c.fitsJSON(schema, line); err != nil {
			return err
		}
	}
	return nil
}

// eachEvent checks the data of Server-Sent Events against the schemas for their names. An event without a schema is
// an error.
func (c *Contract) eachEvent(schemas node, text []byte) error {
	for block := range strings.SplitSeq(strings.TrimSuffix(string(text), "\n\n"), "\n\n") {
		var name string
		var data []string
		for line := range strings.SplitSeq(block, "\n") {
			field, value, _ := strings.Cut(line, ": ")
			switch field {
			case "event":
				name = value
			case "data":
				data = append(data, value)
			case "id", "retry", "":
			default:
				return fmt.Errorf("a line %q in a stream of events", line)
			}
		}
		if name == "" {
			continue
		}
		schema := schemas.text(name)
		if schema == "" {
			return fmt.Errorf("event %q is not in the description", name)
		}
		if err := c.Fits(schema, []byte(strings.Join(data, "\n"))); err != nil {
			return fmt.Errorf("event %q: %w", name, err)
		}
	}
	return nil
}

// ErrorCodes returns the codes that an error may have, each with its status.
func (c *Contract) ErrorCodes() map[string]int {
	codes := map[string]int{}
	all, _ := c.at("#/components/schemas/ErrorCode/enum").value.([]any)
	for _, code := range all {
		codes[fmt.Sprint(code)] = 0
	}
	responses := c.at("#/components/responses")
	for _, name := range responses.names() {
		of := c.child(responses, name, "content", "application/problem+json", "schema", "allOf", "1", "properties")
		status, _ := strconv.Atoi(fmt.Sprint(of.child("status").child("const").value))
		some, _ := of.child("errorCode").child("enum").value.([]any)
		for _, code := range append(some, of.child("errorCode").child("const").value) {
			if code != nil {
				codes[fmt.Sprint(code)] = status
			}
		}
	}
	return codes
}
