package contract

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// asked checks a request that succeeded: the description must have everything that the server accepted.
func (c *Contract) asked(o *Operation, call Call) error {
	query, err := queryOf(call.Request.URL.RawQuery)
	var known []string
	for _, parameter := range c.parameters(o) {
		name := parameter.text("name")
		var values []string
		switch in := parameter.text("in"); in {
		case "path":
			values = []string{segmentOf(o.Path, call.Request.URL.EscapedPath(), name)}
		case "query":
			known = append(known, name)
			values = query[name]
		case "header":
			if all := call.Request.Header.Values(name); len(all) > 0 {
				values = []string{strings.Join(all, ", ")}
			}
		}
		if len(values) == 0 && parameter.is("required") {
			err = errors.Join(err, fmt.Errorf("the parameter %s is missing", name))
		}
		for _, v := range values {
			if wrong := c.fitsText(parameter.child("schema"), v); wrong != nil {
				err = errors.Join(err, fmt.Errorf("parameter %s: %w", name, wrong))
			}
		}
	}
	for name := range query {
		if !slices.Contains(known, name) && !o.node.is("x-any-query") {
			err = errors.Join(err, fmt.Errorf("the parameter %s is not in the description", name))
		}
	}
	return errors.Join(err, c.sent(o, call))
}

func (c *Contract) parameters(o *Operation) (all []node) {
	for _, of := range []node{c.child(o.item, "parameters"), c.child(o.node, "parameters")} {
		for _, i := range of.names() {
			all = append(all, c.child(of, i))
		}
	}
	return all
}

// queryOf parses a query by OpenAPI's rules: it is percent-encoded, and a plus sign means a plus sign.
func queryOf(raw string) (map[string][]string, error) {
	query := map[string][]string{}
	var err error
	for pair := range strings.SplitSeq(raw, "&") {
		if pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		name, badName := url.PathUnescape(name)
		value, badValue := url.PathUnescape(value)
		err = errors.Join(err, badName, badValue)
		query[name] = append(query[name], value)
	}
	return query, err
}

// segmentOf returns the segment of a path that stands for {name} in the path's template.
func segmentOf(template, path, name string) string {
	segments := strings.Split(path, "/")
	for i, t := range strings.Split(template, "/") {
		if t == "{"+name+"}" && i < len(segments) {
			text, err := url.PathUnescape(segments[i])
			if err != nil {
				return segments[i]
			}
			return text
		}
	}
	return ""
}

// sent checks the body of a request.
func (c *Contract) sent(o *Operation, call Call) error {
	body := c.child(o.node, "requestBody")
	if len(bytes.TrimSpace(call.Sent)) == 0 {
		if body.is("required") {
			return errors.New("the request's body is missing")
		}
		return nil
	}
	if body.value == nil {
		return errors.New("the request has a body, and none is in the description")
	}
	media, _, _ := mime.ParseMediaType(call.Request.Header.Get("Content-Type"))
	typed := c.child(body, "content", media)
	if typed.value == nil && isJSON(media) {
		typed = c.child(body, "content", "application/json") // other names of JSON count as this one
	}
	if typed.value == nil {
		return fmt.Errorf("the request's Content-Type %q is not in the description", media)
	}
	if schema := o.node.text("x-each-by-itself"); schema != "" {
		return c.eachByItself(schema, call)
	}
	if err := c.fitsBody(typed, media, call.Sent); err != nil {
		return fmt.Errorf("the request's body %.500s: %w", call.Sent, err)
	}
	return nil
}

// eachByItself checks the accepted entries of a batch against their schema. A refused entry may be anything.
func (c *Contract) eachByItself(schema string, call Call) error {
	if call.Status != http.StatusAccepted {
		return nil
	}
	var answer struct {
		Entries []struct{ ErrorCode string } `json:"apiResponseData"`
	}
	if err := json.Unmarshal(call.Body, &answer); err != nil {
		return err
	}
	entries, err := entriesOf(call.Sent)
	if err == nil && len(entries) != len(answer.Entries) {
		err = fmt.Errorf("%d answers to %d entries", len(answer.Entries), len(entries))
	}
	if err != nil {
		return err
	}
	for i, entry := range entries {
		if answer.Entries[i].ErrorCode != "" {
			continue
		}
		if wrong := c.Fits(schema, entry); wrong != nil {
			err = errors.Join(err, fmt.Errorf("entry %d, %.500s: %w", i, entry, wrong))
		}
	}
	return err
}

// entriesOf splits a batch into its entries: the items of an array, or the lines.
func entriesOf(sent []byte) (entries []json.RawMessage, err error) {
	if bytes.HasPrefix(bytes.TrimSpace(sent), []byte("[")) {
		err = json.Unmarshal(sent, &entries)
		return entries, err
	}
	for line := range bytes.Lines(sent) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			entries = append(entries, json.RawMessage(line))
		}
	}
	return entries, nil
}
