package mail

import (
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	netmail "net/mail"
	"strings"
	"testing"
	"time"
)

// letter is a message as a mail reader parses it.
type letter struct {
	head       netmail.Header
	subject    string
	plain      string
	html       string
	recipients []string
}

// readMail parses a message with the standard library, and checks what every message promises.
func readMail(t *testing.T, text string) letter {
	t.Helper()
	if strings.Contains(strings.ReplaceAll(text, "\r\n", ""), "\n") ||
		strings.Contains(strings.ReplaceAll(text, "\r\n", ""), "\r") {
		t.Errorf("a line does not end in CRLF: %q", text)
	}
	for line := range strings.SplitSeq(text, "\r\n") {
		if len(line) > 998 {
			t.Errorf("a line of %d bytes", len(line))
		}
	}
	m, err := netmail.ReadMessage(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	l := letter{head: m.Header}
	if l.subject, err = new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject")); err != nil {
		t.Error(err)
	}
	to, err := m.Header.AddressList("To")
	if err != nil {
		t.Error(err)
	}
	for _, a := range to {
		l.recipients = append(l.recipients, a.Address)
	}
	if date, err := m.Header.Date(); err != nil || time.Since(date).Abs() > time.Hour {
		t.Errorf("date %v, %v", date, err)
	}
	if m.Header.Get("Mime-Version") != "1.0" || m.Header.Get("Bcc") != "" {
		t.Errorf("header %v", m.Header)
	}
	kind, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	if kind != "multipart/alternative" {
		l.part(t, kind, params, m.Header.Get("Content-Transfer-Encoding"), m.Body)
		return l
	}
	parts := multipart.NewReader(m.Body, params["boundary"])
	for {
		p, err := parts.NextRawPart()
		if errors.Is(err, io.EOF) {
			return l
		}
		if err != nil {
			t.Fatal(err)
		}
		kind, params, err := mime.ParseMediaType(p.Header.Get("Content-Type"))
		if err != nil {
			t.Fatal(err)
		}
		if kind == "text/plain" && l.html != "" {
			t.Error("the plain text is the better alternative")
		}
		l.part(t, kind, params, p.Header.Get("Content-Transfer-Encoding"), p)
	}
}

func (l *letter) part(t *testing.T, kind string, params map[string]string, encoding string, r io.Reader) {
	t.Helper()
	if encoding != "quoted-printable" || !strings.EqualFold(params["charset"], "utf-8") {
		t.Errorf("%s in %q, %v", kind, encoding, params)
	}
	text, err := io.ReadAll(quotedprintable.NewReader(r))
	if err != nil {
		t.Fatal(err)
	}
	switch kind {
	case "text/plain":
		l.plain = string(text)
	case "text/html":
		l.html = string(text)
	default:
		t.Errorf("a part of type %s", kind)
	}
}
