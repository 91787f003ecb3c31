// Package contract checks calls of a server against docs/openapi.yaml. It is for tests only.
package contract

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/oasdiff/yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/tierq/tierq/docs"
)

// Contract is the parsed description. It is safe for concurrent use.
type Contract struct {
	doc        map[string]any
	operations []Operation

	mu       sync.Mutex
	compiler *jsonschema.Compiler
	schemas  map[string]*jsonschema.Schema // compiled so far, by pointer
}

// Operation is one method of one address, with a path as in the description: /jobs/{id}. HEAD is an operation of
// its own.
type Operation struct {
	Method, Path string
	Elsewhere    bool // served by another room than httpapi
	item, node   node
}

// ByType returns the names of the schemas that describe the payloads and results of the built-in job types. A test
// whose server has other types under the same names passes them to Load.
func ByType() []string { return []string{"PayloadByType", "PayloadByJobType", "ResultByType"} }

// Load reads the description that the server serves. It replaces the schemas named in open by schemas that accept
// every value.
func Load(open ...string) (*Contract, error) {
	var text []byte
	if err := toJSON(docs.OpenAPI, &text); err != nil {
		return nil, fmt.Errorf("read the description: %w", err)
	}
	return read(text, open)
}

// rawJSON keeps a JSON text unparsed.
type rawJSON []byte

func (r *rawJSON) UnmarshalJSON(text []byte) error { *r = bytes.Clone(text); return nil }

func toJSON(text []byte, into *[]byte) error {
	var raw rawJSON
	_, err := yaml.Unmarshal(text, &raw, yaml.DecodeOpts{DisableTimestamps: true})
	*into = raw
	return err
}

const resource = "tierq:///openapi.json"

func read(text []byte, open []string) (*Contract, error) {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("read the description: %w", err)
	}
	doc, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("the description is no object")
	}
	c := &Contract{doc: doc, compiler: jsonschema.NewCompiler(), schemas: map[string]*jsonschema.Schema{}}
	for _, name := range open {
		schemas, ok := c.at("#/components/schemas").value.(map[string]any)
		if _, there := schemas[name]; !ok || !there {
			return nil, fmt.Errorf("there is no schema %s to open", name)
		}
		schemas[name] = map[string]any{}
	}
	c.compiler.DefaultDraft(jsonschema.Draft2020)
	c.compiler.AssertFormat()
	if err := c.compiler.AddResource(resource, doc); err != nil {
		return nil, fmt.Errorf("read the description: %w", err)
	}
	c.list()
	return c, nil
}

// list fills c.operations from the description.
func (c *Contract) list() {
	methods := []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}
	paths := c.at("#/paths")
	for _, path := range paths.names() {
		item := c.child(paths, path)
		for _, method := range methods {
			n := c.child(item, strings.ToLower(method))
			if n.value == nil {
				continue
			}
			o := Operation{Method: method, Path: path, Elsewhere: n.is("x-elsewhere"), item: item, node: n}
			c.operations = append(c.operations, o)
			if n.is("x-also-head") {
				o.Method = http.MethodHead
				c.operations = append(c.operations, o)
			}
		}
	}
}

// Operations returns all operations, by path.
func (c *Contract) Operations() []Operation { return slices.Clone(c.operations) }

// find returns the operation of a call. If several paths match, it is the one with the fewest parameters. known
// reports whether the path belongs to any operation.
func (c *Contract) find(method, path string) (found *Operation, known bool) {
	segments := strings.Split(path, "/")
	for i := range c.operations {
		o := &c.operations[i]
		if !fits(strings.Split(o.Path, "/"), segments) {
			continue
		}
		known = true
		if o.Method == method && (found == nil || strings.Count(o.Path, "{") < strings.Count(found.Path, "{")) {
			found = o
		}
	}
	return found, known
}

func fits(template, path []string) bool {
	return slices.EqualFunc(template, path, func(t, p string) bool {
		return t == p || strings.HasPrefix(t, "{") && p != ""
	})
}

// node is a place in the description.
type node struct {
	pointer string
	value   any
}

// at returns the node that a pointer names, such as #/components/schemas/Job; a node without a value if there is
// none.
func (c *Contract) at(pointer string) node {
	n := node{"#", c.doc}
	for token := range strings.SplitSeq(strings.TrimPrefix(pointer, "#/"), "/") {
		n = n.child(strings.NewReplacer("~1", "/", "~0", "~").Replace(token))
	}
	return n
}

// child returns the node below these names. It follows references.
func (c *Contract) child(n node, names ...string) node {
	for _, name := range names {
		n = c.resolve(n.child(name))
	}
	return n
}

func (c *Contract) resolve(n node) node {
	for {
		to, ok := n.child("$ref").value.(string)
		if !ok {
			return n
		}
		n = c.at(to)
	}
}

func (n node) child(name string) node {
	pointer := n.pointer + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
	switch v := n.value.(type) {
	case map[string]any:
		return node{pointer, v[name]}
	case []any:
		for i, one := range v {
			if fmt.Sprint(i) == name {
				return node{pointer, one}
			}
		}
	}
	return node{pointer, nil}
}

// names returns the members' names of an object, sorted, or the indexes of an array.
func (n node) names() (all []string) {
	switch v := n.value.(type) {
	case map[string]any:
		return slices.Sorted(maps.Keys(v))
	case []any:
		for i := range v {
			all = append(all, fmt.Sprint(i))
		}
	}
	return all
}

func (n node) is(name string) bool { return n.child(name).value == true }

func (n node) text(name string) string {
	s, _ := n.child(name).value.(string)
	return s
}

// Roles returns the roles whose keys open an operation; none = everybody may call it, without a key.
func (c *Contract) Roles(o Operation) (all []string) {
	security := o.node.child("security")
	if security.value == nil {
		security = c.at("#/security")
	}
	for _, one := range security.names() {
		roles := security.child(one).child("key")
		for _, i := range roles.names() {
			all = append(all, fmt.Sprint(roles.child(i).value))
		}
	}
	return all
}

// Statuses returns the statuses of an operation's answers, sorted.
func (c *Contract) Statuses(o Operation) (all []int) {
	for _, text := range c.child(o.node, "responses").names() {
		if status, err := strconv.Atoi(text); err == nil {
			all = append(all, status)
		}
	}
	slices.Sort(all)
	return all
}
