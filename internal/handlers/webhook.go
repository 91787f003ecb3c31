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

// Webhook is the payload of a SEND_WEBHOOK job. The job posts Body to URL as a Standard Webhooks message, see
// messageID.
type Webhook struct {
	URL            string            `json:"url"`
	Body           json.RawMessage   `json:"body,omitempty"` // any JSON value; absent = {}
	Headers        map[string]string `json:"headers,omitempty"`
	TimeoutSeconds *int              `json:"timeoutSeconds,omitempty"`
}

// Delivered is the result: the receiver's answer. Body is the answer's body if that is a small JSON value,
// otherwise its text, cut if it is long; null if it is empty.
type Delivered struct {
	Status int             `json:"status"`
	Body   json.RawMessage `json:"body"`
}

const (
	maxTimeout = 300      // seconds
	maxKept    = 16 << 10 // bytes of an answer's body in the result, in their encoded form
)

// Validate returns every wrong field as a *handler.PayloadError, joined into one error.
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

// messageID returns the job's id, which is the same at each attempt, so that a receiver recognises a repeat. A
// requeued job gets an id with its generation, because that repeat is wanted.
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

// kept returns the part of an answer's body that the result keeps. It is always small enough for a result, because
// the message was delivered, whatever the answer was.
func kept(a Response) json.RawMessage {
	body := bytes.TrimSpace(a.Body)
	if len(body) == 0 {
		return json.RawMessage("null")
	}
	if !a.Truncated && utf8.Valid(body) && handler.Nesting(body) <= handler.MaxNesting {
		if value, err := json.Marshal(json.RawMessage(body)); err == nil && len(value) <= maxKept {
			return value
		}
	}
	text := strings.ToValidUTF8(string(body), "\uFFFD")
	for {
		value, _ := json.Marshal(text) // a string: this cannot fail
		if len(value) <= maxKept {
			return value
		}
		text = cut(text, min(len(text)*maxKept/len(value), len(text)-1))
	}
}

// cut returns at most the first most bytes of a valid text, without a part of a character.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}
