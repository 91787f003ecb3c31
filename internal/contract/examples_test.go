package contract

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/handlers"
	"github.com/tierq/tierq/internal/job"
)

// walk calls do for n and every node below n. It does not follow references.
func walk(n node, do func(node)) {
	do(n)
	for _, name := range n.names() {
		walk(n.child(name), do)
	}
}

// text returns a value of the description as it is sent: as JSON, or a text unchanged.
func text(t *testing.T, media string, value any) []byte {
	t.Helper()
	if s, ok := value.(string); ok && !isJSON(media) {
		return []byte(s)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// examplesOf returns the examples of a media type, by name.
func (c *Contract) examplesOf(typed node) map[string]any {
	all := map[string]any{}
	examples := c.child(typed, "examples")
	for _, name := range examples.names() {
		all[name] = c.child(examples, name).child("value").value
	}
	return all
}

// Every example fits its schema, including those of parameters and of the schemas themselves, and every schema
// compiles.
func TestExamples_FitTheirSchemas(t *testing.T) {
	c := load(t)
	bodies, others := 0, 0
	walk(node{"#", c.doc}, func(n node) {
		schema := n.child("schema")
		if list, ok := n.child("examples").value.([]any); ok && schema.value == nil {
			for _, value := range list {
				others++
				if err := c.fits(n, value); err != nil {
					t.Errorf("%s: %v", n.pointer, err)
				}
			}
		}
		if schema.value == nil || strings.Contains(n.pointer, "/examples/") {
			return
		}
		if _, err := c.compile(schema.pointer); err != nil {
			t.Error(err)
		}
		if value := n.child("example").value; value != nil {
			others++
			if err := c.fits(schema, value); err != nil {
				t.Errorf("%s: %v", n.pointer, err)
			}
		}
		media := strings.ReplaceAll(n.pointer[strings.LastIndex(n.pointer, "/")+1:], "~1", "/")
		for name, value := range c.examplesOf(n) {
			bodies++
			if err := c.fitsBody(n, media, text(t, media, value)); err != nil {
				t.Errorf("%s, %s: %v", n.pointer, name, err)
			}
		}
	})
	if bodies < 35 || others < 8 {
		t.Errorf("only %d bodies and %d other examples were looked at", bodies, others)
	}
}

// nothing fakes every room that a built-in job type needs.
type nothing struct{}

func (nothing) CheckURL(string) error { return nil }
func (nothing) Do(context.Context, handlers.Request) (handlers.Response, error) {
	return handlers.Response{}, io.EOF
}
func (nothing) Send(context.Context, handlers.Message) (handlers.Delivery, error) {
	return handlers.Delivery{}, io.EOF
}
func (nothing) Put(context.Context, job.ID, int, string, string, []byte) (int64, error) {
	return 0, io.EOF
}
func (nothing) Tally(context.Context, *string, time.Time, time.Time) ([]job.Tally, error) {
	return nil, io.EOF
}

func builtIn() *handler.Registry {
	r := handler.NewRegistry()
	handlers.Register(r)
	handlers.RegisterOutgoing(r, nothing{})
	handlers.RegisterMail(r, nothing{})
	handlers.RegisterDocuments(r, nothing{}, nothing{})
	return r
}

// submits returns the examples of submits by operation and example, each as the JSON of one entry.
func (c *Contract) submits(t *testing.T) map[string]json.RawMessage {
	t.Helper()
	all := map[string]json.RawMessage{}
	for _, id := range []string{"submit", "submitBatch", "createJob", "createApiJob"} {
		for _, o := range c.operations {
			if o.node.text("operationId") != id {
				continue
			}
			content := c.child(o.node, "requestBody", "content")
			for _, media := range content.names() {
				for name, value := range c.examplesOf(c.child(content, media)) {
					whole := text(t, media, value)
					if id != "submitBatch" {
						all[id+", "+name] = whole
						continue
					}
					entries, err := entriesOf(whole)
					if err != nil {
						t.Fatal(err)
					}
					for i, entry := range entries {
						all[fmt.Sprintf("%s, %s, %s %d", id, media, name, i)] = entry
					}
				}
			}
		}
	}
	return all
}

// asked has the type and the payload of an example.
type asked struct {
	Type, JobType string
	Payload       json.RawMessage
}

func readAsked(t *testing.T, example []byte) (typ string, payload []byte) {
	t.Helper()
	var a asked
	if err := json.Unmarshal(example, &a); err != nil {
		t.Fatal(err)
	}
	if typ = a.Type + a.JobType; typ == "" {
		typ = "SIMULATION"
	}
	return typ, a.Payload
}

// The real handlers accept the payload of every example, and every job type has an example.
func TestExamples_AreTakenByTheRealHandlers(t *testing.T) {
	types := builtIn()
	seen := map[string]bool{}
	for name, example := range load(t).submits(t) {
		typ, payload := readAsked(t, example)
		seen[typ] = true
		if err := types.Check(typ, payload); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, typ := range types.Types() {
		if !seen[typ] {
			t.Errorf("no example of %s", typ)
		}
	}
}

// typesOf returns the job types that a schema such as PayloadByType describes.
func (c *Contract) typesOf(schema, word string) (types []string) {
	all := c.at("#/components/schemas/" + schema + "/allOf")
	for _, i := range all.names() {
		tells := all.child(i).child("if").child("properties").child(word)
		if one := tells.text("const"); one != "" {
			types = append(types, one)
		}
		some, _ := tells.child("enum").value.([]any)
		for _, one := range some {
			if one != nil {
				types = append(types, fmt.Sprint(one))
			}
		}
	}
	slices.Sort(types)
	return types
}

func TestTypes_AreTheRegistrys(t *testing.T) {
	c, want := load(t), builtIn().Types()
	for schema, word := range map[string]string{"PayloadByType": "type", "PayloadByJobType": "jobType",
		"ResultByType": "type"} {
		if got := c.typesOf(schema, word); !slices.Equal(got, want) {
			t.Errorf("%s is about %v, the registry has %v", schema, got, want)
		}
	}
}
