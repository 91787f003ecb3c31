package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// node is one value of a JSON text, drawn as a tree that folds. Numbers keep their digits: no large one is rounded.
type node struct {
	Key      string
	Named    bool   // it is a member: Key is its name
	Kind     string // object, array, string, number, word; text = what is no JSON
	Text     string
	Children []*node
	Open     bool
}

// What a tree shows at most; a larger text is shown as it is.
const (
	mostNodes = 2000
	mostDepth = 40
)

var errTooMuch = errors.New("more than a tree shows")

// tree reads a JSON text; what is not one, or has too many values, is one node of kind text.
func tree(text []byte) *node {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	r := reader{d: d}
	n, err := r.value(0)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errTooMuch
		}
	}
	if err != nil {
		return &node{Kind: "text", Text: pretty(text)}
	}
	return n
}

type reader struct {
	d     *json.Decoder
	nodes int
}

func (r *reader) value(depth int) (*node, error) {
	t, err := r.d.Token()
	if err != nil {
		return nil, err
	}
	if r.nodes++; r.nodes > mostNodes || depth > mostDepth {
		return nil, errTooMuch
	}
	switch t := t.(type) {
	case json.Delim:
		n := &node{Kind: "array", Open: depth < 2}
		if t == '{' {
			n.Kind = "object"
		}
		return n, r.children(n, depth)
	case string:
		return &node{Kind: "string", Text: t}, nil
	case json.Number:
		return &node{Kind: "number", Text: t.String()}, nil
	case bool:
		if t {
			return &node{Kind: "word", Text: "true"}, nil
		}
		return &node{Kind: "word", Text: "false"}, nil
	}
	return &node{Kind: "word", Text: "null"}, nil
}

func (r *reader) children(n *node, depth int) error {
	for r.d.More() {
		key := ""
		if n.Kind == "object" {
			t, err := r.d.Token()
			if err != nil {
				return err
			}
			key, _ = t.(string)
		}
		child, err := r.value(depth + 1)
		if err != nil {
			return err
		}
		child.Key, child.Named = key, n.Kind == "object"
		n.Children = append(n.Children, child)
	}
	_, err := r.d.Token()
	return err
}

// pretty indents a JSON text, and leaves any other as it is.
func pretty(text []byte) string {
	var b bytes.Buffer
	if json.Indent(&b, text, "", "  ") != nil {
		return string(text)
	}
	return b.String()
}

// compact is a value as one line of JSON, for scripts to read from an attribute.
func compact(v any) (string, error) {
	text, err := json.Marshal(v)
	return string(text), err
}
