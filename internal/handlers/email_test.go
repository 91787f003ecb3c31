package handlers

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

// post keeps the last message. taken are the recipients it accepts, nil = all.
type post struct {
	last  Message
	taken []string
	err   error
}

func (p *post) Send(_ context.Context, m Message) (Delivery, error) {
	p.last = m
	if p.err != nil {
		return Delivery{}, p.err
	}
	if p.taken != nil {
		return Delivery{MessageID: "id@host", Accepted: p.taken}, nil
	}
	return Delivery{MessageID: "id@host", Accepted: m.To}, nil
}

func mailRegistry(p *post) *handler.Registry {
	r := handler.NewRegistry()
	RegisterMail(r, p)
	return r
}

// SEND_EMAIL and EMAIL run the same handler.
func TestSendEmail(t *testing.T) {
	t.Attr("proves", "S0-P7 S0-P12 S1-P4 S1-P5 S1-P10")
	for _, typ := range []string{"SEND_EMAIL", "EMAIL"} {
		var p post
		r := mailRegistry(&p)
		payload := []byte(`{"to":["a@example.org","b@example.org"],"subject":"Überweisung","body":"one\ntwo",` +
			`"html":"<p>one</p>"}`)
		if err := r.Check(typ, payload); err != nil {
			t.Fatal(err)
		}
		ctx := handler.WithRun(t.Context(), handler.Run{ID: docID, RetryCount: 1, MaxRetries: 2})
		got, err := r.Run(ctx, typ, payload)
		if want := `{"messageId":"id@host","accepted":["a@example.org","b@example.org"]}`; err != nil || string(got) != want {
			t.Errorf("%s: %s, %v, want %s", typ, got, err, want)
		}
		want := Message{ID: docID, To: []string{"a@example.org", "b@example.org"}, Subject: "Überweisung", Text: "one\ntwo",
			HTML: "<p>one</p>"}
		if !reflect.DeepEqual(p.last, want) {
			t.Errorf("%s: sent %+v", typ, p.last)
		}
	}
	if _, err := mailRegistry(&post{}).Run(t.Context(), "SEND_FAX", nil); !errors.Is(err, job.ErrUnknownType) {
		t.Errorf("a type without a handler: %v", err)
	}
	if got := mailRegistry(&post{}).Types(); !slices.Equal(got, []string{"EMAIL", "SEND_EMAIL"}) {
		t.Errorf("types %v", got)
	}
}

func TestSendEmailOutcomes(t *testing.T) {
	payload := []byte(`{"to":["a@h","b@h","c@h"],"subject":"s","body":"b"}`)
	last := handler.WithRun(t.Context(), handler.Run{ID: docID, RetryCount: 2, MaxRetries: 2})
	t.Run("some refused", func(t *testing.T) {
		p := post{taken: []string{"b@h"}}
		got, err := mailRegistry(&p).Run(last, "EMAIL", payload)
		if want := `{"messageId":"id@host","accepted":["b@h"],"refused":["a@h","c@h"]}`; err != nil || string(got) != want {
			t.Errorf("%s, %v, want %s", got, err, want)
		}
		if !p.last.Last {
			t.Error("the last attempt does not know that it is")
		}
	})
	t.Run("the mailer decides whether to try again", func(t *testing.T) {
		for _, want := range []error{errors.New("for now"), handler.Permanent(errors.New("for good"))} {
			if _, err := mailRegistry(&post{err: want}).Run(last, "EMAIL", payload); !errors.Is(err, want) ||
				handler.Judge(err) != handler.Judge(want) {
				t.Errorf("%v, want %v", err, want)
			}
		}
	})
	t.Run("one address as a text", func(t *testing.T) {
		var p post
		_, err := mailRegistry(&p).Run(last, "EMAIL", []byte(`{"to":"a@h","subject":"s","html":"<p>b</p>"}`))
		if err != nil || !slices.Equal(p.last.To, []string{"a@h"}) {
			t.Errorf("%+v, %v", p.last, err)
		}
	})
}

// A55, A56: no text of a payload can become a header, a command or a second recipient.
func TestSendEmailRefuses(t *testing.T) {
	t.Attr("proves", "A55 A56")
	with := func(to, subject string) string { return fmt.Sprintf(`{"to":%s,"subject":%s,"body":"b"}`, to, subject) }
	many := `["` + strings.Join(strings.Split(strings.Repeat("a@h ", 51), " ")[:51], `","`) + `"]`
	for _, c := range []struct{ name, payload, field string }{
		{"nothing", ``, "payload.to"},
		{"nobody", with(`[]`, `"s"`), "payload.to"},
		{"null", with(`null`, `"s"`), "payload.to"},
		{"a number", with(`1`, `"s"`), "payload.to"},
		{"a list with a number", with(`["a@h",1]`, `"s"`), "payload.to"},
		{"an object", with(`{"a":"b"}`, `"s"`), "payload.to"},
		{"too many", with(many, `"s"`), "payload.to"},
		{"twice", with(`["a@h","b@h","a@h"]`, `"s"`), "payload.to[2]"},
		{"no address", with(`"a"`, `"s"`), "payload.to"},
		{"a header in the address", with(`"a@b\r\nBcc: c@d"`, `"s"`), "payload.to"},
		{"a command in the address", with(`["a@h","\"x> RCPT TO:<y\"@z"]`, `"s"`), "payload.to[1]"},
		{"a NUL in the address", with(`"a@b\u0000"`, `"s"`), "payload.to"},
		{"two in one", with(`"a@b,c@d"`, `"s"`), "payload.to"},
		{"a name", with(`"Bob <a@b>"`, `"s"`), "payload.to"},
		{"no subject", with(`"a@h"`, `""`), "payload.subject"},
		{"a long subject", with(`"a@h"`, `"`+strings.Repeat("é", 201)+`"`), "payload.subject"},
		{"a header in the subject", with(`"a@h"`, `"s\r\nBcc: c@d"`), "payload.subject"},
		{"a line break in the subject", with(`"a@h"`, `"s\n"`), "payload.subject"},
		{"another line break", with(`"a@h"`, `"s\u0085"`), "payload.subject"},
		{"a NUL in the subject", with(`"a@h"`, `"s\u0000"`), "payload.subject"},
		{"an escape in the subject", with(`"a@h"`, `"\u001b[31m"`), "payload.subject"},
		{"a NUL in the body", `{"to":"a@h","subject":"s","body":"\u0000"}`, "payload.body"},
		{"a NUL in the html", `{"to":"a@h","subject":"s","html":"\u0000"}`, "payload.html"},
		{"a sender of one's own", `{"to":"a@h","subject":"s","body":"b","from":"ceo@bank"}`, "payload"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := mailRegistry(&post{}).Check("SEND_EMAIL", []byte(c.payload))
			var wrong *handler.PayloadError
			if !errors.As(err, &wrong) || wrong.Field != c.field {
				t.Errorf("%v, want %s", err, c.field)
			}
		})
	}
	t.Run("a mail may be its subject alone", func(t *testing.T) {
		for _, payload := range []string{`{"to":"a@h","subject":"s"}`, `{"to":"a@h","subject":"s","body":""}`,
			`{"to":"a@h","subject":"s","body":null,"html":""}`} {
			if err := mailRegistry(&post{}).Check("EMAIL", []byte(payload)); err != nil {
				t.Errorf("%s: %v", payload, err)
			}
		}
	})
	t.Run("the limits themselves are taken", func(t *testing.T) {
		var to []string
		for i := range 50 {
			to = append(to, fmt.Sprintf(`"a%d@h"`, i))
		}
		if err := mailRegistry(&post{}).Check("EMAIL",
			[]byte(with("["+strings.Join(to, ",")+"]", `"`+strings.Repeat("é", 200)+`"`))); err != nil {
			t.Error(err)
		}
	})
}
