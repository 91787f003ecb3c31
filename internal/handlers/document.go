package handlers

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tierq/tierq/internal/handler"
)

const (
	maxEndpoints   = 20
	maxEndpointURL = 512 // bytes
	maxDocumentID  = 200 // bytes

	defaultUntil = 24 * 60 * 60     // seconds
	maxUntil     = 7 * 24 * 60 * 60 // seconds
)

// Forward is the payload of a FORWARD_DOCUMENT job: a document for each of the endpoints. The job calls two URLs
// of an endpoint E:
//
//	GET  E/documents/<id>   do you know it?
//	POST E/documents        {"documentId","contentType","body"}
type Forward struct {
	DocumentID  string          `json:"documentId"`
	ContentType string          `json:"contentType"`
	Body        json.RawMessage `json:"body"` // any JSON value
	Endpoints   []string        `json:"endpoints"`

	// Until is the status at which an endpoint is done: SUBMITTED (the default) or MANAGED.
	Until        DocStatus `json:"until,omitempty"`
	UntilSeconds int       `json:"untilSeconds,omitempty"` // the limit of the wait for MANAGED; 0 = defaultUntil
}

// Forwarded is the result: the final status of each endpoint, in the payload's order.
type Forwarded struct {
	Endpoints []Endpoint `json:"endpoints"`
	Note      string     `json:"note,omitempty"` // the rejections, if any; shown in lists, see job.NoteOf
}

// Endpoint is the final status of one endpoint: MANAGED, SUBMITTED or REJECTED. Detail is the endpoint's own text,
// or else a description of its answer.
type Endpoint struct {
	URL    string    `json:"url"`
	Status DocStatus `json:"status"`
	Detail string    `json:"detail"`
}

// Validate returns every wrong field as a *handler.PayloadError, joined into one error.
func (f *Forward) Validate() error {
	var wrong []error
	bad := func(field, format string, args ...any) {
		wrong = append(wrong, &handler.PayloadError{Field: "payload." + field, Reason: fmt.Sprintf(format, args...)})
	}
	switch id := f.DocumentID; {
	case id == "":
		bad("documentId", "is missing")
	case len(id) > maxDocumentID || !utf8.ValidString(id) || strings.ContainsFunc(id, unicode.IsControl) || id == "." ||
		id == "..":
		bad("documentId", "is not a text of at most %d bytes without control characters that could stand in a path",
			maxDocumentID)
	}
	if _, _, err := mime.ParseMediaType(f.ContentType); err != nil || len(f.ContentType) > 255 {
		bad("contentType", "is not a media type")
	}
	if f.Body == nil {
		bad("body", "is missing")
	}
	switch {
	case f.Until != "" && f.Until != docSubmitted && f.Until != docManaged:
		bad("until", "is not SUBMITTED or MANAGED")
	case f.UntilSeconds < 0 || f.UntilSeconds > maxUntil:
		bad("untilSeconds", "is not in 1..%d", maxUntil)
	case f.UntilSeconds != 0 && f.Until != docManaged:
		bad("untilSeconds", "goes with \"until\": \"MANAGED\" only")
	}
	if n := len(f.Endpoints); n < 1 || n > maxEndpoints {
		bad("endpoints", "are %d, not 1..%d", n, maxEndpoints)
		return errors.Join(wrong...)
	}
	seen := map[string]bool{}
	for i, e := range f.Endpoints {
		field := fmt.Sprintf("endpoints[%d]", i)
		base := baseOf(e)
		switch u, err := handler.ReadURL(e); {
		case err != nil:
			bad(field, "%s", err)
		case len(e) > maxEndpointURL:
			bad(field, "has %d bytes, the most is %d", len(e), maxEndpointURL)
		case u.RawQuery != "" || u.ForceQuery:
			bad(field, "has a query: the paths of the calls are appended to it")
		case seen[base]:
			bad(field, "is there twice")
		}
		seen[base] = true
	}
	return errors.Join(wrong...)
}

func baseOf(endpoint string) string { return strings.TrimRight(endpoint, "/") }

// lookupURL returns the URL that asks an endpoint whether it knows a document.
func lookupURL(endpoint, id string) string {
	return baseOf(endpoint) + "/documents/" + url.PathEscape(id)
}

// submitURL returns the URL to which an endpoint's documents are posted.
func submitURL(endpoint string) string { return baseOf(endpoint) + "/documents" }
