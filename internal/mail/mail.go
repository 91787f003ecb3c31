// Package mail sends messages: through an SMTP server or, without one, into a folder.
package mail

import (
	"context"
	"crypto/x509"
	"path/filepath"

	"github.com/tierq/tierq/internal/job"
)

// Message is one mail to at most fifty recipients, who all see each other's addresses.
type Message struct {
	ID      job.ID   // the Message-ID is made from it: every attempt sends the same message
	To      []string // valid addresses according to handler.ReadAddress
	Subject string
	Text    string
	HTML    string // "" = none; otherwise the preferred alternative to Text
	Last    bool   // no attempt follows: reach all recipients that can be reached now
}

// Delivery is the result of a sent message. Accepted are the recipients who will get it. Those of To who are
// missing were refused for good (or, at the last attempt, for now).
type Delivery struct {
	MessageID string
	Accepted  []string
}

// Sender sends messages. After a permanent error (see handler.Judge) the message itself is refused; after any
// other error the same message may be sent again. An error means that no recipient gets the message, except when
// the server's last answer was lost.
type Sender interface {
	Send(ctx context.Context, m Message) (Delivery, error)
	// Describe says where mail goes, without secrets.
	Describe() string
}

// Open reads TIERQ_SMTP_URL, see parse. Without a URL messages become .eml files in the folder mail below dir.
// Open does not call the server. roots are the authorities that may sign the server's certificate if the URL has
// no ca; nil = the system's.
func Open(url, dir string, roots *x509.CertPool) (Sender, error) {
	if url == "" {
		return &folder{dir: filepath.Join(dir, "mail")}, nil
	}
	return parse(url, roots)
}
