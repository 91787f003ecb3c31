package schema

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

const size = `{"type":"object","required":["width"],"additionalProperties":false,"properties":{
	"width":{"type":"integer","minimum":1},"pages":{"type":"array","items":{"$ref":"#/$defs/page"}}},
	"$defs":{"page":{"type":"object","properties":{"n":{"type":"integer"}}}}}`

func TestCheck(t *testing.T) {
	var c Checker
	for _, tc := range []struct{ schema, payload, want string }{
		{size, `{"width":512}`, ""},
		{size, `{"width":512,"pages":[{"n":1}]}`, ""},
		{size, `{}`, "payload.width: is missing"},
		{size, ``, "payload: got null, want object"},
		{size, `{"width":0}`, "payload.width: minimum: got 0, want 1"},
		{size, `{"width":1,"pages":[{"n":1},{"n":"x"}]}`, "payload.pages[1].n: got string, want integer"},
		{size, `{"width":1,"height":2}`, "payload: additional properties 'height' not allowed"},
		{`{"prefixItems":[{"const":1}]}`, `[2]`, "payload[0]: value must be 1"}, // draft 2020-12
		{`true`, `7`, ""},
		{`false`, `7`, "payload: false schema"},
		{`{"anyOf":[{"type":"string"},{"type":"array"}]}`, `7`,
			"payload: got number, want string\npayload: got number, want array"},
		{`{"$ref":"#"}`, `7`, "payload: both /$ref and  resolve to"}, // it refers to itself without an end
	} {
		err := c.Check(tc.schema, []byte(tc.payload))
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tc.want)) {
			t.Errorf("%s by %s: %v, want %q", tc.payload, tc.schema, err, tc.want)
		}
		if tc.want != "" && errors.Is(err, job.ErrBadPayload) != strings.HasPrefix(tc.want, "payload") {
			t.Errorf("%s by %s: %v", tc.payload, tc.schema, err)
		}
	}
}

// A schema that is no schema, or that wants another one to be loaded, is refused.
func TestCompile(t *testing.T) {
	for text, want := range map[string]string{
		`{`: "is no JSON", `{"type":"thing"}`: "is no JSON Schema", `7`: "is no JSON Schema",
		`{"$ref":"#/nowhere"}`:                 "is no JSON Schema",
		`{"$ref":"file:///etc/passwd"}`:        "its own parts only",
		`{"$ref":"http://127.0.0.1:9/s.json"}`: "its own parts only",
		`{"$schema":"http://127.0.0.1:9/d"}`:   "its own parts only",
		`{"pattern":"(?=a)b"}`:                 "is no JSON Schema", // Go's patterns need no time that grows
	} {
		if _, err := (&Checker{}).Compile([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if text, err := (&Checker{}).Compile([]byte(`{ "const": "a<b" }`)); err != nil || text != `{"const":"a\u003cb"}` {
		t.Errorf("%s, %v", text, err)
	}
}

// Many callers check at once, and old schemas make room.
func TestChecker_Many(t *testing.T) {
	c := Checker{}
	var callers sync.WaitGroup
	began := time.Now()
	for range 8 {
		callers.Go(func() {
			for range 200 {
				if err := c.Check(size, []byte(`{"width":1}`)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	callers.Wait()
	for n := range maxCompiled + 10 {
		if err := c.Check(`{"const":`+strings.Repeat(" ", n)+`7}`, []byte(`7`)); err != nil {
			t.Fatal(err)
		}
	}
	if len(c.compiled) > maxCompiled {
		t.Errorf("%d schemas are kept", len(c.compiled))
	}
	t.Log(time.Since(began))
}
