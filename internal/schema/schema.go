// Package schema checks payloads by the JSON Schemas (draft 2020-12) that a queue has for its types.
package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/tierq/tierq/internal/job"
)

// Checker checks payloads. It compiles each schema once. The zero value is ready, and safe for concurrent use.
type Checker struct {
	mu       sync.Mutex
	compiled map[string]*jsonschema.Schema // by their texts
}

// maxCompiled is how many compiled schemas a Checker keeps. A Checker that has so many drops all of them: most belong
// to declarations of queues that were replaced since.
const maxCompiled = 4096

// Check returns nil if a payload fits a schema. If it does not, the error wraps a job.PayloadError for each field that
// is wrong. An absent payload counts as null. Any other error says that the schema cannot be read.
func (c *Checker) Check(schema string, payload []byte) error {
	s, err := c.schema(schema)
	if err != nil {
		return err
	}
	if len(payload) == 0 {
		payload = []byte("null")
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(payload))
	if err != nil {
		return &job.PayloadError{Field: "payload", Reason: "cannot be read"}
	}
	var wrong *jsonschema.ValidationError
	switch err := s.Validate(value); {
	case err == nil:
		return nil
	case errors.As(err, &wrong):
		return errors.Join(fields(wrong, value)...)
	default:
		return fmt.Errorf("check a payload: %w", err)
	}
}

func (c *Checker) schema(text string) (*jsonschema.Schema, error) {
	c.mu.Lock()
	s, known := c.compiled[text]
	c.mu.Unlock()
	if known {
		return s, nil
	}
	s, err := compile(text)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.compiled == nil || len(c.compiled) >= maxCompiled {
		c.compiled = map[string]*jsonschema.Schema{}
	}
	c.compiled[text] = s
	return s, nil
}

// Compile returns a schema as tierq stores it, without needless space, or an error that says what is wrong with it. A
// schema may refer to its own parts only: tierq loads none from a file or from the network.
func (*Checker) Compile(text []byte) (compact string, err error) {
	if _, err := compile(string(text)); err != nil {
		return "", err
	}
	stored, err := json.Marshal(json.RawMessage(text)) // as it is within a queue's text
	return string(stored), err
}

// address is the URL under which a schema is compiled. The schema's references to its own parts begin with it.
const address = "tierq:schema"

func compile(text string) (*jsonschema.Schema, error) {
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("is no JSON: %w", err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(noLoader{})
	if err := c.AddResource(address, document); err != nil {
		return nil, fmt.Errorf("is no JSON Schema: %w", err)
	}
	s, err := c.Compile(address)
	if err != nil {
		return nil, fmt.Errorf("is no JSON Schema: %s", strings.ReplaceAll(err.Error(), address, ""))
	}
	return s, nil
}

// noLoader refuses to load a schema that another schema refers to.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s: a schema may refer to its own parts only", url)
}

var english = message.NewPrinter(language.English)

// fields returns an error for each field that is wrong. A value that fits none of several schemas has an error for each
// of them.
func fields(e *jsonschema.ValidationError, value any) (all []error) {
	for _, cause := range e.Causes {
		all = append(all, fields(cause, value)...)
	}
	if len(e.Causes) > 0 {
		return all
	}
	at := path(e.InstanceLocation, value)
	if missing, ok := e.ErrorKind.(*kind.Required); ok {
		for _, name := range missing.Missing {
			all = append(all, &job.PayloadError{Field: at + "." + name, Reason: "is missing"})
		}
		return all
	}
	return []error{&job.PayloadError{Field: at, Reason: e.ErrorKind.LocalizedString(english)}}
}

// path names a part of a payload: payload.pages[0].width.
func path(location []string, value any) string {
	at := "payload"
	for _, name := range location {
		switch in := value.(type) {
		case []any:
			at += "[" + name + "]"
			if i, err := strconv.Atoi(name); err == nil && i < len(in) {
				value = in[i]
			}
		case map[string]any:
			at += "." + name
			value = in[name]
		}
	}
	return at
}
