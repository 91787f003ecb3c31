package mail

import (
	"context"
	"crypto/x509"
	"errors"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	"github.com/tierq/tierq/internal/handler"
)

var greeting = Message{
	ID: jobID, To: []string{"ann@example.org", "o'neil@example.org"},
	Subject: "Überweisung № 7: " + strings.Repeat("sehr ", 20) + "lang",
	Text:    "Grüße,\nzwei Zeilen.\r\n.\n..\nFrom here on: =3D\rund Schluss. " + strings.Repeat("lang ", 300),
	HTML:    "<p>Grüße 漢字 😀</p>\n",
}

func TestSendReadBack(t *testing.T) {
	t.Attr("proves", "S1-P4")
	for _, tc := range []struct {
		name, scheme string
		ways         []string
	}{
		{"STARTTLS and AUTH PLAIN", "smtp", nil},
		{"STARTTLS and AUTH LOGIN", "smtp", []string{"LOGIN"}},
		{"TLS from the first byte", "smtps", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := &office{ways: tc.ways}
			o.start(t, tc.scheme == "smtps")
			s := o.to(tc.scheme, "me")
			for range 2 { // another attempt of the same job
				got, err := s.Send(t.Context(), greeting)
				if err != nil {
					t.Fatal(err)
				}
				if got.MessageID != string(jobID)+"@example.org" || !slices.Equal(got.Accepted, greeting.To) {
					t.Errorf("%+v", got)
				}
			}
			mails := o.taken()
			if len(mails) != 2 || mails[0].from != "tierq@example.org" || !slices.Equal(mails[0].to, greeting.To) ||
				!mails[0].tls {
				t.Fatalf("%+v", mails)
			}
			for _, m := range mails {
				l := readMail(t, m.text)
				if l.subject != greeting.Subject || l.head.Get("From") != `"Tierq" <tierq@example.org>` ||
					!slices.Equal(l.recipients, greeting.To) ||
					l.head.Get("Message-Id") != "<"+string(jobID)+"@example.org>" || l.head.Get("Auto-Submitted") != "auto-generated" {
					t.Errorf("%+v", l)
				}
				lines := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace
				if lines(l.plain) != lines(greeting.Text) || lines(l.html) != lines(greeting.HTML) {
					t.Errorf("plain %q, html %q", l.plain, l.html)
				}
			}
		})
	}
}

// Bad TLS, or none, prevents a message.
func TestTLSIsMandatory(t *testing.T) {
	t.Attr("proves", "A48")
	refuse := func(t *testing.T, o *office, s Sender, want string) {
		t.Helper()
		_, err := s.Send(t.Context(), greeting)
		if err == nil || !strings.Contains(err.Error(), want) || handler.Judge(err).Permanent {
			t.Errorf("Send = %v, want %q", err, want)
		}
		if len(o.taken()) > 0 || len(o.passwords) > 0 {
			t.Errorf("it got %+v and the passwords %q", o.taken(), o.passwords)
		}
	}
	for _, scheme := range []string{"smtp", "smtps"} {
		t.Run(scheme+": a stranger's certificate", func(t *testing.T) {
			o := &office{}
			o.start(t, scheme == "smtps")
			o.caFile, _ = authority(t, "localhost", time.Now().Add(time.Hour))
			refuse(t, o, o.to(scheme, "me"), "certificate")
		})
		t.Run(scheme+": not trusted by the system", func(t *testing.T) {
			o := &office{}
			o.start(t, scheme == "smtps")
			refuse(t, o, open(t, o.url(scheme, "me", url.Values{})), "certificate")
		})
		t.Run(scheme+": another host's certificate", func(t *testing.T) {
			o := &office{host: "mail.example.org"}
			o.start(t, scheme == "smtps")
			refuse(t, o, o.to(scheme, "me"), "certificate")
		})
		t.Run(scheme+": a certificate that is over", func(t *testing.T) {
			o := &office{expired: true}
			o.start(t, scheme == "smtps")
			refuse(t, o, o.to(scheme, "me"), "certificate")
		})
		t.Run(scheme+": an authority of our own", func(t *testing.T) {
			o := &office{}
			o.start(t, scheme == "smtps")
			pem, err := os.ReadFile(o.caFile)
			if err != nil {
				t.Fatal(err)
			}
			roots := x509.NewCertPool()
			roots.AppendCertsFromPEM(pem)
			s, err := Open(o.url(scheme, "me", url.Values{}), "", roots)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Send(t.Context(), greeting); err != nil || len(o.taken()) != 1 || !o.taken()[0].tls {
				t.Errorf("%v, %+v", err, o.taken())
			}
		})
	}
	t.Run("no STARTTLS offered", func(t *testing.T) {
		o := &office{noTLS: true}
		o.start(t, false)
		refuse(t, o, o.to("smtp", "me"), "no STARTTLS")
	})
	t.Run("spelled out: none", func(t *testing.T) {
		o := &office{noTLS: true, open: true}
		o.start(t, false)
		_, err := open(t, o.url("smtp", "", url.Values{"tls": {"none"}})).Send(t.Context(), greeting)
		if err != nil || len(o.taken()) != 1 || o.taken()[0].tls {
			t.Errorf("%v, %+v", err, o.taken())
		}
	})
}

// A 5xx about the message or its recipients is permanent; after any other error the message may be sent again.
func TestRefusals(t *testing.T) {
	t.Attr("proves", "S1-P4")
	no := func(code int) *smtp.SMTPError {
		return &smtp.SMTPError{Code: code, EnhancedCode: smtp.EnhancedCode{code / 100, 0, 0}, Message: "no\x1b[31m way"}
	}
	to := []string{"a@h", "b@h", "c@h"}
	for _, tc := range []struct {
		name      string
		office    *office
		last      bool
		accepted  []string
		permanent bool
		want      string // part of the error
	}{
		{"the message, for good", &office{data: no(554)}, false, nil, true, "554"},
		{"the message, for now", &office{data: no(451)}, false, nil, false, "451"},
		{"the sender", &office{sender: no(550)}, false, nil, false, "the sender"},
		{"all recipients, for good", &office{rcpt: map[string]*smtp.SMTPError{"a@h": no(550), "b@h": no(553),
			"c@h": no(550)}}, false, nil, true, "all recipients"},
		{"all recipients, for now", &office{rcpt: map[string]*smtp.SMTPError{"a@h": no(450), "b@h": no(450), "c@h": no(450)}},
			true, nil, false, "3 of 3"},
		{"one for good", &office{rcpt: map[string]*smtp.SMTPError{"b@h": no(550)}}, false, []string{"a@h", "c@h"}, false, ""},
		{"one for now", &office{rcpt: map[string]*smtp.SMTPError{"b@h": no(450), "c@h": no(550)}}, false, nil, false,
			"1 of 3 recipients refused for now"},
		{"one for now, at the last try", &office{rcpt: map[string]*smtp.SMTPError{"b@h": no(450), "c@h": no(550)}}, true,
			[]string{"a@h"}, false, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.office.start(t, false)
			got, err := tc.office.to("smtp", "me").Send(t.Context(),
				Message{ID: jobID, To: to, Subject: "s", Text: "b", Last: tc.last})
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) ||
				handler.Judge(err).Permanent != tc.permanent {
				t.Errorf("%v, permanent %v, want %q", err, handler.Judge(err).Permanent, tc.want)
			}
			if err != nil && strings.Contains(err.Error(), "\x1b") {
				t.Errorf("the server's control characters are passed on: %q", err)
			}
			if !slices.Equal(got.Accepted, tc.accepted) {
				t.Errorf("accepted %v, want %v", got.Accepted, tc.accepted)
			}
			if mails := tc.office.taken(); tc.accepted == nil && len(mails) > 0 ||
				tc.accepted != nil && (len(mails) != 1 || !slices.Equal(mails[0].to, tc.accepted)) {
				t.Errorf("the server got %+v", mails)
			}
		})
	}
	t.Run("the login", func(t *testing.T) {
		o := &office{}
		o.start(t, false)
		_, err := o.to("smtp", "another").Send(t.Context(), greeting)
		if err == nil || handler.Judge(err).Permanent || strings.Contains(err.Error(), "secret") ||
			!strings.Contains(err.Error(), "535") {
			t.Errorf("Send = %v", err)
		}
	})
	t.Run("no way to log in", func(t *testing.T) {
		o := &office{ways: []string{"XSTRANGE"}}
		o.start(t, false)
		if _, err := o.to("smtp", "me").Send(t.Context(), greeting); err == nil || handler.Judge(err).Permanent ||
			!strings.Contains(err.Error(), "neither AUTH") {
			t.Errorf("Send = %v", err)
		}
	})
	t.Run("nobody listens", func(t *testing.T) {
		var s Sender
		t.Run("started and stopped", func(t *testing.T) {
			o := &office{}
			o.start(t, false)
			s = o.to("smtp", "me")
		})
		if _, err := s.Send(t.Context(), greeting); err == nil || handler.Judge(err).Permanent {
			t.Errorf("Send = %v", err)
		}
	})
}

// A55, A56: Send refuses the texts that the handler's own check refuses.
func TestSendChecksAgain(t *testing.T) {
	t.Attr("proves", "A55 A56")
	o := &office{}
	o.start(t, false)
	s := o.to("smtp", "me")
	for name, m := range map[string]Message{
		"a header in the subject":  {ID: jobID, To: []string{"a@h"}, Subject: "x\r\nBcc: c@d", Text: "t"},
		"a command in an address":  {ID: jobID, To: []string{`"x> RCPT TO:<y"@z`}, Subject: "x", Text: "t"},
		"a header in an address":   {ID: jobID, To: []string{"a@b\r\nBcc: c@d"}, Subject: "x", Text: "t"},
		"nobody":                   {ID: jobID, Subject: "x", Text: "t"},
		"a NUL":                    {ID: jobID, To: []string{"a@h"}, Subject: "x", Text: "\x00"},
		"a header in the job's id": {ID: "x\r\nBcc: c@d", To: []string{"a@h"}, Subject: "x", Text: "t"},
	} {
		if _, err := s.Send(t.Context(), m); err == nil || !handler.Judge(err).Permanent {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(o.taken()) > 0 {
		t.Errorf("the server got %+v", o.taken())
	}
}

// A subject that looks like an encoded line break with a header is read as it was written.
func TestSubjectThatLooksEncoded(t *testing.T) {
	t.Attr("proves", "A55")
	o := &office{}
	o.start(t, false)
	for _, subject := range []string{
		"=?utf-8?q?=0d=0aBcc:_c@d?=", "Re: =?utf-8?b?DQpCY2M6IGNAZA==?= " + strings.Repeat("漢字 and more, ", 12), "a =? b",
	} {
		if _, err := o.to("smtp", "me").Send(t.Context(),
			Message{ID: jobID, To: []string{"a@h"}, Subject: subject, Text: "t"}); err != nil {
			t.Fatal(err)
		}
		mails := o.taken()
		if l := readMail(t, mails[len(mails)-1].text); l.subject != subject {
			t.Errorf("the subject %q is read as %q", subject, l.subject)
		}
	}
}

func TestSendEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	addr := talker(t, func(c *chat) {
		c.say("220 hello")
		c.hear()
		cancel(handler.ErrDraining)
		c.hear() // the client hangs up
	})
	if _, err := open(t, "smtp://"+addr+"?from=a@b&tls=none").Send(ctx, greeting); !errors.Is(err, handler.ErrDraining) {
		t.Errorf("Send = %v, want the cause", err)
	}
}
