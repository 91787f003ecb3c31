// Package mail sends messages: through an SMTP server, or, where none is configured, into a folder.
package mail

import (
	"context"
	"crypto/x509"
	"path/filepath"

	"github.com/tierq/tierq/internal/job"
)

// Message is one mail to up to fifty recipients, all of whom see each other's address.
type Message struct {
	ID      job.ID   // the Message-ID is made of it: every attempt sends the same message
	To      []string // addresses that handler.ReadAddress takes
	Subject string
	Text    string
	HTML    string // "" = none; else the better alternative to Text
	Last    bool   // nobody will try again: who can be reached now, should be
}

// Delivery is what became of a message: who will get it. Those of To who are missing were refused for good (or, at the
// last try, for now).
type Delivery struct {
	MessageID string
	Accepted  []string
}

// Sender sends messages. An error that is permanent (see handler.Judge) says that the message itself is refused; after
// any other the same message may be sent again. Nobody got the message when an error is returned, except when the
// server's last answer was lost.
type Sender interface {
	Send(ctx context.Context, m Message) (Delivery, error)
	// Describe says where mail goes, without secrets.
	Describe() string
}

// Open reads TIERQ_SMTP_URL, see parse. Without a URL messages become .eml files in the folder mail below dir. It does
// not call the server. roots are the authorities that may sign the server's certificate where the URL has no ca; nil =
// the system's.
func Open(url, dir string, roots *x509.CertPool) (Sender, error) {
	if url == "" {
		return &folder{dir: filepath.Join(dir, "mail")}, nil
	}
	return parse(url, roots)
}
