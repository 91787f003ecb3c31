package contract

import (
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Call is a request and its answer. Check does not read the request's body: Sent has it.
type Call struct {
	Request *http.Request
	Sent    []byte
	Status  int
	Header  http.Header
	Body    []byte
}

// Check returns an error if the description does not allow the call; nil if it does. It checks every answer, and
// the request if it succeeded.
func (c *Contract) Check(call Call) error {
	path := call.Request.URL.EscapedPath()
	o, known := c.find(call.Request.Method, path)
	var err error
	switch {
	case o == nil && known:
		err = c.refused(call, "NoSuchMethod", http.StatusMethodNotAllowed)
	case o == nil:
		err = c.refused(call, "NoSuchAddress", http.StatusNotFound)
	default:
		err = c.answered(o, call)
		if call.Status < http.StatusBadRequest {
			err = errors.Join(err, c.asked(o, call))
		}
	}
	if err != nil {
		return fmt.Errorf("%s %s, answered %d: %w", call.Request.Method, path, call.Status, err)
	}
	return nil
}

// refused checks the answer for an address or a method that the description does not have: every such call has the
// same answer.
func (c *Contract) refused(call Call, response string, status int) error {
	if call.Status != status {
		return fmt.Errorf("it is not in the description, and not %d", status)
	}
	return c.fitsResponse(c.at("#/components/responses/"+response), call)
}

func (c *Contract) answered(o *Operation, call Call) error {
	response := c.child(o.node, "responses", strconv.Itoa(call.Status))
	if response.value == nil {
		return errors.New("the status is not in the description")
	}
	return c.fitsResponse(response, call)
}

// general lists headers that any answer may have, and that the description does not list for each of them.
var general = []string{
	"Cache-Control", "Connection", "Content-Length", "Content-Security-Policy", "Content-Type", "Date", "Ratelimit",
	"Ratelimit-Policy", "Referrer-Policy",
	"Strict-Transport-Security", "Transfer-Encoding", "Vary", "X-Accel-Buffering", "X-Content-Type-Options",
	"X-Frame-Options",
}

func (c *Contract) fitsResponse(response node, call Call) error {
	err := c.headers(response, call.Header)
	content := c.child(response, "content")
	sent := call.Header.Get("Content-Type")
	if content.value == nil {
		if len(call.Body) > 0 {
			err = errors.Join(err, fmt.Errorf("a body of %d bytes, and none is in the description", len(call.Body)))
		}
		return err
	}
	media, _, bad := mime.ParseMediaType(sent)
	typed := c.child(content, media)
	if bad != nil || typed.value == nil {
		return errors.Join(err, fmt.Errorf("Content-Type %q is not in the description", sent))
	}
	if call.Request.Method == http.MethodHead && len(call.Body) == 0 {
		return err
	}
	if wrong := c.fitsBody(typed, media, call.Body); wrong != nil {
		err = errors.Join(err, fmt.Errorf("body %.500s: %w", call.Body, wrong))
	}
	return err
}

func (c *Contract) fitsBody(typed node, media string, body []byte) error {
	schema := typed.child("schema")
	switch {
	case schema.value == nil:
		return nil
	case isJSON(media):
		return c.fitsJSON(schema, body)
	}
	err := c.fits(schema, string(body))
	if line := typed.text("x-line"); line != "" {
		err = errors.Join(err, c.eachLine(c.at("#/components/schemas/"+line), body))
	}
	if events := typed.child("x-events"); events.value != nil {
		err = errors.Join(err, c.eachEvent(events, body))
	}
	return err
}

func isJSON(media string) bool {
	return media == "application/json" || strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json")
}

// headers checks an answer's headers: the required ones must be there, and others than the described ones must not.
func (c *Contract) headers(response node, sent http.Header) error {
	var err error
	documented := c.child(response, "headers")
	known := slices.Clone(general)
	for _, name := range documented.names() {
		header := c.child(documented, name)
		known = append(known, http.CanonicalHeaderKey(name))
		values := sent.Values(name)
		switch {
		case len(values) == 0 && header.is("required"):
			err = errors.Join(err, fmt.Errorf("the header %s is missing", name))
		case len(values) > 0:
			if wrong := c.fitsText(header.child("schema"), strings.Join(values, ", ")); wrong != nil {
				err = errors.Join(err, fmt.Errorf("header %s: %w", name, wrong))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(sent)) {
		if !slices.Contains(known, name) && len(sent.Values(name)) > 0 {
			err = errors.Join(err, fmt.Errorf("the header %s is not in the description", name))
		}
	}
	return err
}
