package mail

import (
	"mime"
	netmail "net/mail"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/tierq/tierq/internal/fuzz"
	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

// Every message, whatever its texts contain, becomes one mail to the same recipients, with the headers of every
// mail and no other.
func FuzzCompose(f *testing.F) {
	f.Attr("proves", "A55 A56")
	const id = job.ID("019de340-01fe-7a58-be69-567cd7d6b7d4")
	headers := []string{"Auto-Submitted", "Content-Transfer-Encoding", "Content-Type", "Date", "From", "Message-Id",
		"Mime-Version", "Subject", "To"}
	fuzz.Text(f, func(t *testing.T, text string) {
		to, rest, _ := strings.Cut(text, "\x1f")
		subject, body, _ := strings.Cut(rest, "\x1f")
		m := Message{ID: id, To: strings.Split(to, "|"), Subject: subject, Text: body}
		composed, messageID, err := compose(m, nobody)
		if err != nil {
			return
		}
		if messageID != string(id)+"@localhost" {
			t.Errorf("its id is %q", messageID)
		}
		read, err := netmail.ReadMessage(strings.NewReader(string(composed)))
		if err != nil {
			t.Fatal(err)
		}
		for name, values := range read.Header {
			if !slices.Contains(headers, name) || len(values) != 1 {
				t.Errorf("%s: %q", name, values)
			}
		}
		people, err := read.Header.AddressList("To")
		if err != nil || len(people) != len(m.To) {
			t.Fatalf("it goes to %v, %v", people, err)
		}
		for i, p := range people {
			if p.Address != m.To[i] || p.Name != "" {
				t.Errorf("it goes to %v, not to %q", p, m.To[i])
			}
		}
		if said, err := new(mime.WordDecoder).DecodeHeader(read.Header.Get("Subject")); err != nil ||
			strings.ContainsAny(said, "\r\n") {
			t.Errorf("the subject is %q, %v", said, err)
		}
	}, "a@b\x1fhello\x1ftext", "a@b|c@d\x1füñ 漢字\x1f\r\n.\r\nQUIT\r\n", "a@b\x1fx\r\nBcc: c@d\x1f",
		"a@b\r\nBcc: c@d\x1fx\x1fy",
		`"x> RCPT TO:<y"@z`+"\x1fx\x1fy",
		"a@b\x1f=?utf-8?q?=0d=0aBcc:_c@d?=\x1fy", "a@b\x1f"+strings.Repeat("x", 300)+"\x1f"+strings.Repeat("y", 2000),
		"a@b\x1f \x1f\x00")
}

// An accepted URL of a mail server names one valid sender and one host, and never sends a password without
// encryption.
func FuzzURL(f *testing.F) {
	fuzz.Text(f, func(t *testing.T, text string) {
		if strings.Contains(text, "ca=") { // the name of a file, which parse would read
			return
		}
		s, err := parse(text, nil)
		if err != nil {
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the password is in the error: %v", err)
			}
			return
		}
		if handler.ReadAddress(s.from.Address) != nil || s.host == "" || !strings.Contains(s.addr, ":") {
			t.Errorf("read as %+v", s)
		}
		if s.password != "" && s.tls == nil || s.tls != nil && (s.tls.InsecureSkipVerify || s.tls.ServerName != s.host) {
			t.Error("it would send a password to whoever answers")
		}
	}, "smtp://user:hunter2@host:587?from=tierq@example.com", "smtp://u:hunter2/@h?from=a@b", "smtp://hunter2@h?from=a@b",
		"smtp://u:%zzhunter2@h", "smtps://host?from=a@b", "smtp://host?from=a@b&tls=none",
		"smtp://u:hunter2@host?from=a@b&tls=none",
		"smtp://h?from=A%20%3Ca@b%3E",
		"http://host?from=a@b", "smtp://?from=a@b", "smtp://u:p%0d%0aQUIT@host?from=a@b", "smtp://host?from=a@b&from=c@d",
		"smtp://[::1]:25?from=a@b&tls=none")
}

// A mail server's answer is shown in one short line.
func FuzzSaid(f *testing.F) {
	f.Attr("proves", "A53 A54")
	fuzz.Text(f, func(t *testing.T, words string) {
		text := said("send mail", &failure{words, nil}).Error()
		if len([]rune(text)) > 220 || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("said as %q", text)
		}
	}, "550 no such user", "\x1b[31mred", "a\r\nb", strings.Repeat("x", 1000), "\u202e\xff")
}
