package mail

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	netmail "net/mail"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/tierq/tierq/internal/handler"
)

// parse reads the URL of a mail server:
//
//	smtp://user:password@host:587?from=tierq@example.org    STARTTLS; the port is 587 if none is given
//	smtps://user:password@host:465?from=tierq@example.org   TLS from the first byte; port 465
//
// from is required: an address, or "Name <address>", escaped as in any URL. The server's certificate must be valid
// for the host. ca=/file names the certificates (PEM) to trust instead of roots. tls=none, with smtp:// only,
// sends without encryption; then the URL must have no password. Errors do not contain the URL.
func parse(text string, roots *x509.CertPool) (*server, error) {
	wrong := func(reason string, args ...any) (*server, error) {
		return nil, fmt.Errorf("mail server's URL: "+reason, args...)
	}
	u, err := url.Parse(text)
	if err != nil || u.Opaque != "" || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" || u.Fragment != "" {
		return wrong("it must look like smtp://user:password@host:587?from=me@example.org")
	}
	s := &server{host: u.Hostname(), patience: patience}
	port := "587"
	switch u.Scheme {
	case "smtp":
	case "smtps":
		s.implicit, port = true, "465"
	default:
		return wrong("it must begin with smtp:// or smtps://")
	}
	if u.Port() != "" {
		port = u.Port()
	}
	s.addr = net.JoinHostPort(s.host, port)
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return wrong("what follows the ? is not well-formed")
	}
	for name, values := range query {
		if name != "from" && name != "tls" && name != "ca" || len(values) != 1 {
			return wrong("it takes from, tls and ca, each once, and nothing else")
		}
	}
	if s.from, err = netmail.ParseAddress(query.Get("from")); err != nil || handler.ReadAddress(s.from.Address) != nil {
		return wrong("from must be a mail address")
	}
	if s.tls, err = tlsConfig(u.Scheme, s.host, query, roots); err != nil {
		return wrong("%w", err)
	}
	if u.User != nil {
		s.user = u.User.Username()
		s.password, _ = u.User.Password()
		switch {
		case s.user == "" || s.password == "" || strings.ContainsAny(s.user+s.password, "\x00\r\n"):
			return wrong("it has a user or a password, but not both")
		case s.tls == nil:
			return wrong("tls=none and a password do not go together")
		}
	}
	return s, nil
}

// tlsConfig returns nil for tls=none.
func tlsConfig(scheme, host string, query url.Values, roots *x509.CertPool) (*tls.Config, error) {
	switch mode := query.Get("tls"); {
	case scheme == "smtp" && mode == "none":
		if query.Has("ca") {
			return nil, errors.New("tls=none and ca do not go together")
		}
		return nil, nil
	case scheme == "smtp" && (mode == "" || mode == "starttls"), scheme == "smtps" && !query.Has("tls"):
	default:
		return nil, errors.New("tls is starttls or none, with smtp:// only")
	}
	c := &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12, RootCAs: roots}
	if !query.Has("ca") {
		return c, nil
	}
	pem, err := os.ReadFile(query.Get("ca"))
	if err != nil {
		return nil, fmt.Errorf("ca: %w", err)
	}
	c.RootCAs = x509.NewCertPool()
	if !c.RootCAs.AppendCertsFromPEM(pem) {
		return nil, errors.New("ca: no certificate in that file")
	}
	return c, nil
}

// patience is the time limit for one message, from the first byte to the last answer.
const patience = time.Minute
