package mail

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	netmail "net/mail"
	"strings"
	"time"
	"unicode/utf8"

	gomail "github.com/wneessen/go-mail"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

// compose makes an RFC 5322 message in UTF-8, and returns its Message-ID without the brackets. It checks again
// that no text can become a header or a command; its errors are permanent.
func compose(m Message, from *netmail.Address) (text []byte, messageID string, err error) {
	if err := check(m); err != nil {
		return nil, "", handler.Permanent(fmt.Errorf("compose mail: %w", err))
	}
	id, err := job.ParseID(string(m.ID))
	if err != nil {
		return nil, "", handler.Permanent(fmt.Errorf("compose mail: %w", err))
	}
	messageID = string(id) + from.Address[strings.LastIndexByte(from.Address, '@'):]

	msg := gomail.NewMsg(gomail.WithNoDefaultUserAgent())
	msg.FromMailAddress(from)
	msg.SetMessageIDWithValue(messageID)
	msg.SetDateWithValue(time.Now())
	msg.SetGenHeader("Auto-Submitted", "auto-generated") // RFC 3834: asks for no out-of-office answers
	msg.Subject(literal(m.Subject))
	if err := msg.To(m.To...); err != nil {
		return nil, "", handler.Permanent(fmt.Errorf("compose mail: %w", err))
	}
	switch {
	case m.HTML == "":
		msg.SetBodyString(gomail.TypeTextPlain, m.Text)
	case m.Text == "":
		msg.SetBodyString(gomail.TypeTextHTML, m.HTML)
	default:
		msg.SetBodyString(gomail.TypeTextPlain, m.Text)
		msg.AddAlternativeString(gomail.TypeTextHTML, m.HTML)
	}
	var out bytes.Buffer
	if _, err := msg.WriteTo(&out); err != nil {
		return nil, "", handler.Permanent(fmt.Errorf("compose mail: %w", err))
	}
	return out.Bytes(), messageID, nil
}

func check(m Message) error {
	if len(m.To) == 0 {
		return errors.New("nobody to send it to")
	}
	for _, to := range m.To {
		if err := handler.ReadAddress(to); err != nil {
			return fmt.Errorf("an address %w", err)
		}
	}
	if strings.ContainsAny(m.Subject, "\r\n\x00") {
		return errors.New("the subject has a line break or a NUL")
	}
	if strings.ContainsRune(m.Text, 0) || strings.ContainsRune(m.HTML, 0) {
		return errors.New("the text has a NUL")
	}
	return nil
}

// literal encodes a subject that contains =?, so that mail readers show it as written. A reader would decode
// =?utf-8?q?=0d=0aBcc:?= to a line break and a header.
func literal(subject string) string {
	if !strings.Contains(subject, "=?") {
		return subject
	}
	subject = strings.ToValidUTF8(subject, "\uFFFD")
	var words []string
	for subject != "" {
		n := min(len(subject), wordBytes)
		for n < len(subject) && !utf8.RuneStart(subject[n]) {
			n--
		}
		words, subject = append(words, "=?UTF-8?B?"+base64.StdEncoding.EncodeToString([]byte(subject[:n]))+"?="), subject[n:]
	}
	return strings.Join(words, " ")
}

// wordBytes is the number of bytes that fit into one encoded word of 75 characters (RFC 2047).
const wordBytes = 45
