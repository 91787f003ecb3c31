package handlers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tierq/tierq/internal/handler"
)

// Webhook is the payload of a SEND_WEBHOOK job. It is posted to URL as a Standard Webhooks message whose id is the
// job's id.
type Webhook struct {
	URL            string            `json:"url"`
	Body           json.RawMessage   `json:"body,omitempty"` // any JSON value; absent = {}
	Headers        map[string]string `json:"headers,omitempty"`
	TimeoutSeconds *int              `json:"timeoutSeconds,omitempty"`
}

// Delivered is the result: the receiver's answer. Body is its body if that is a small JSON value, else its text,
// perhaps cut; null if empty.
type Delivered struct {
	Status int             `json:"status"`
	Body   json.RawMessage `json:"body"`
}

const (
	maxTimeout = 300      // seconds
	maxKept    = 16 << 10 // bytes of an answer's body in the result, as they are encoded there
	maxNesting = 32       // of an answer's JSON; deeper is kept as text
)

// Validate names every field that is wrong, as *handler.PayloadError joined into one error.
func (w *Webhook) Validate() error {
	var wrong []error
	if _, err := handler.ReadURL(w.URL); err != nil {
		wrong = append(wrong, &handler.PayloadError{Field: "payload.url", Reason: err.Error()})
	}
	if w.TimeoutSeconds != nil && (*w.TimeoutSeconds < 1 || *w.TimeoutSeconds > maxTimeout) {
		reason := fmt.Sprintf("is not in 1..%d", maxTimeout)
		wrong = append(wrong, &handler.PayloadError{Field: "payload.timeoutSeconds", Reason: reason})
	}
	return errors.Join(append(wrong, checkHeaders(w.Headers)...)...)
}

// messageID is the job's id, the same at each attempt, so that a receiver knows a repeat; after a requeue it is another
// one: that repeat is meant.
func messageID(run handler.Run) string {
	if run.Generation > 1 {
		return fmt.Sprintf("%s-r%d", run.ID, run.Generation)
	}
	return string(run.ID)
}

func (o outgoing) webhook(ctx context.Context, in Webhook) (Delivered, error) {
	run, _ := handler.Running(ctx)
	r := Request{URL: in.URL, Header: headersOf(in.Headers), Body: in.Body, MessageID: messageID(run)}
	if r.Body == nil {
		r.Body = []byte("{}")
	}
	if in.TimeoutSeconds != nil {
		r.Timeout = time.Duration(*in.TimeoutSeconds) * time.Second
	}
	answer, err := o.post(ctx, r)
	if err != nil {
		return Delivered{}, err
	}
	return Delivered{Status: answer.Status, Body: kept(answer)}, nil
}

// kept is what a result keeps of an answer's body. It never makes a result too large: the message is delivered,
// whatever was answered.
func kept(a Response) json.RawMessage {
	body := bytes.TrimSpace(a.Body)
	if len(body) == 0 {
		return json.RawMessage("null")
	}
	if !a.Truncated && utf8.Valid(body) && nesting(body) <= maxNesting {
		if value, err := json.Marshal(json.RawMessage(body)); err == nil && len(value) <= maxKept {
			return value
		}
	}
	text := strings.ToValidUTF8(string(body), "\uFFFD")
	for {
		value, _ := json.Marshal(text) // a string: it cannot fail
		if len(value) <= maxKept {
			return value
		}
		text = cut(text, min(len(text)*maxKept/len(value), len(text)-1))
	}
}

// nesting is how deep a JSON text's arrays and objects go. Of other texts it is some number.
func nesting(text []byte) (deepest int) {
	depth, inString := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}

// cut is the first bytes of a valid text, at most so many, not inside a character.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}
