package handlers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

// Mailer sends mail. An error means that no recipient gets the message, as far as the Mailer can know. A refusal
// for good is a handler.Permanent.
type Mailer interface {
	Send(ctx context.Context, m Message) (Delivery, error)
}

// Message is one mail. Every attempt of a job sends the same message under the same Message-ID.
type Message struct {
	ID      job.ID
	To      []string
	Subject string
	Text    string
	HTML    string // "" = none
	Last    bool   // no attempt follows this one
}

// Delivery is the result of a sent message. Accepted are the recipients in To who will get it.
type Delivery struct {
	MessageID string
	Accepted  []string
}

// Email is the payload of a SEND_EMAIL job, also known as EMAIL. Body and HTML may both be empty: then the mail is
// its subject.
type Email struct {
	To      Recipients `json:"to"`
	Subject string     `json:"subject"`
	Body    string     `json:"body,omitempty"`
	HTML    string     `json:"html,omitempty"`
}

// Mailed is the result. Refused are the recipients that the mail server refused.
type Mailed struct {
	MessageID string   `json:"messageId"`
	Accepted  []string `json:"accepted"`
	Refused   []string `json:"refused,omitempty"`
}

// Recipients is one address or a list of them.
type Recipients []string

// UnmarshalJSON accepts a text or a list of texts.
func (r *Recipients) UnmarshalJSON(text []byte) error {
	if bytes.HasPrefix(text, []byte(`"`)) {
		*r = make(Recipients, 1)
		return json.Unmarshal(text, &(*r)[0])
	}
	if err := json.Unmarshal(text, (*[]string)(r)); err != nil {
		return &handler.PayloadError{Field: "payload.to", Reason: "is neither an address nor a list of addresses"}
	}
	return nil
}

// The limits of one mail. The payload's limit bounds the texts.
const (
	maxRecipients = 50
	maxSubject    = 200 // characters
)

// RegisterMail adds SEND_EMAIL and EMAIL, one job type under two names.
func RegisterMail(r *handler.Registry, m Mailer) {
	send := func(ctx context.Context, in Email) (Mailed, error) { return sendEmail(ctx, m, in) }
	handler.Register(r, "SEND_EMAIL", send)
	handler.Register(r, "EMAIL", send)
}

// Validate returns every wrong field as a *handler.PayloadError, joined into one error.
func (e *Email) Validate() error {
	var wrong []error
	bad := func(field, reason string, args ...any) {
		wrong = append(wrong, &handler.PayloadError{Field: "payload." + field, Reason: fmt.Sprintf(reason, args...)})
	}
	switch n := len(e.To); {
	case n == 0:
		bad("to", "is missing")
	case n > maxRecipients:
		bad("to", "has %d recipients, the most is %d", n, maxRecipients)
	default:
		e.To.check(bad)
	}
	switch n := utf8.RuneCountInString(e.Subject); {
	case n == 0:
		bad("subject", "is missing")
	case n > maxSubject:
		bad("subject", "has %d characters, the most is %d", n, maxSubject)
	case strings.ContainsFunc(e.Subject, unicode.IsControl):
		bad("subject", "has a line break or another control character")
	}
	if strings.ContainsRune(e.Body, 0) {
		bad("body", "has a NUL")
	}
	if strings.ContainsRune(e.HTML, 0) {
		bad("html", "has a NUL")
	}
	return errors.Join(wrong...)
}

func (r Recipients) check(bad func(field, reason string, args ...any)) {
	seen := map[string]bool{}
	for i, to := range r {
		field := "to"
		if len(r) > 1 {
			field = fmt.Sprintf("to[%d]", i)
		}
		if err := handler.ReadAddress(to); err != nil {
			bad(field, "%v", err)
		} else if seen[to] {
			bad(field, "is there twice")
		}
		seen[to] = true
	}
}

func sendEmail(ctx context.Context, m Mailer, in Email) (Mailed, error) {
	run, ok := handler.Running(ctx)
	if !ok {
		return Mailed{}, errNoRun
	}
	d, err := m.Send(ctx, Message{
		ID: run.ID, To: in.To, Subject: in.Subject, Text: in.Body, HTML: in.HTML, Last: run.RetryCount >= run.MaxRetries,
	})
	if err != nil {
		return Mailed{}, err
	}
	out := Mailed{MessageID: d.MessageID, Accepted: d.Accepted}
	for _, to := range in.To {
		if !slices.Contains(d.Accepted, to) {
			out.Refused = append(out.Refused, to)
		}
	}
	return out, nil
}
