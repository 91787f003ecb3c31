package mail

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	netmail "net/mail"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/wneessen/go-mail/smtp"

	"github.com/tierq/tierq/internal/handler"
)

// server sends through one SMTP server, on a new connection for each message.
type server struct {
	host, addr     string
	implicit       bool        // TLS from the first byte
	tls            *tls.Config // nil = none
	user, password string      // "" = no login
	from           *netmail.Address
	patience       time.Duration
}

// Describe names the server and the sender.
func (s *server) Describe() string {
	how := "STARTTLS"
	switch {
	case s.implicit:
		how = "TLS"
	case s.tls == nil:
		how = "no TLS"
	}
	return fmt.Sprintf("sent through %s (%s) from %s", s.addr, how, s.from.Address)
}

// Send sends the message to the recipients that the server accepts. If the server refuses one recipient for now,
// no recipient gets the message yet: the next attempt can then reach all, and none twice. At the last attempt
// the message goes to the recipients that can be reached.
func (s *server) Send(ctx context.Context, m Message) (Delivery, error) {
	text, id, err := compose(m, s.from)
	if err != nil {
		return Delivery{}, err
	}
	call, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	accepted, err := s.session(call, m, text)
	switch {
	case err == nil:
		return Delivery{MessageID: id, Accepted: accepted}, nil
	case ctx.Err() != nil:
		return Delivery{}, fmt.Errorf("send mail: %w", context.Cause(ctx))
	case call.Err() != nil:
		return Delivery{}, fmt.Errorf("send mail: the server took longer than %v: %w", s.patience, err)
	}
	return Delivery{}, fmt.Errorf("send mail: %w", err)
}

func (s *server) session(ctx context.Context, m Message, text []byte) ([]string, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	client, err := s.greet(ctx, conn)
	if err != nil {
		return nil, err
	}
	accepted, err := recipients(client, s.from.Address, m)
	if err != nil {
		return nil, err
	}
	w, err := client.Data()
	if err != nil {
		return nil, refused("the message", err)
	}
	if _, err := w.Write(text); err != nil {
		return nil, said("the message", err)
	}
	if err := w.Close(); err != nil {
		return nil, refused("the message", err)
	}
	_ = client.Quit() // the server has the message, so an error here changes nothing
	return accepted, nil
}

// greet prepares the connection for a message: TLS, then the login.
func (s *server) greet(ctx context.Context, conn net.Conn) (*smtp.Client, error) {
	conn = &capped{Conn: conn, left: maxReplies}
	if s.implicit {
		secure := tls.Client(conn, s.tls)
		if err := secure.HandshakeContext(ctx); err != nil {
			return nil, fmt.Errorf("TLS: %w", err)
		}
		conn = secure
	}
	client, err := smtp.NewClient(conn, s.host)
	if err != nil {
		return nil, said("the greeting", err)
	}
	client.SkipSMTPUTF8(true) // the addresses are ASCII
	if err := client.Hello(hostname()); err != nil {
		return nil, said("EHLO", err)
	}
	if s.tls != nil && !s.implicit {
		if offered, _ := client.Extension("STARTTLS"); !offered {
			return nil, fmt.Errorf("%s offers no STARTTLS; nothing was sent", s.addr)
		}
		if err := client.StartTLS(s.tls); err != nil {
			return nil, said("STARTTLS", err)
		}
	}
	if s.user != "" {
		return client, s.login(client)
	}
	return client, nil
}

// login sends the password. It needs no check for TLS: parse allows no password without TLS.
func (s *server) login(client *smtp.Client) error {
	_, ways := client.Extension("AUTH")
	var way smtp.Auth
	switch list := strings.Fields(strings.ToUpper(ways)); {
	case slices.Contains(list, "PLAIN"):
		way = smtp.PlainAuth("", s.user, s.password, s.host, false)
	case slices.Contains(list, "LOGIN"):
		way = smtp.LoginAuth(s.user, s.password, s.host, false)
	default:
		return fmt.Errorf("%s offers neither AUTH PLAIN nor AUTH LOGIN", s.addr)
	}
	if err := client.Auth(way); err != nil {
		return said("the login", err)
	}
	return nil
}

// recipients sends the sender and the recipients to the server, and returns the recipients that it accepts.
func recipients(client *smtp.Client, from string, m Message) ([]string, error) {
	if err := client.Mail("<" + from + ">"); err != nil {
		return nil, said("the sender", err) // not permanent: the configuration is wrong, not the message
	}
	var accepted []string
	var forNow, forGood []error
	for _, to := range m.To {
		err := client.Rcpt("<" + to + ">")
		switch code := replyCode(err); {
		case err == nil:
			accepted = append(accepted, to)
		case code == 0:
			return nil, said("a recipient", err)
		case code >= 500:
			forGood = append(forGood, err)
		default:
			forNow = append(forNow, err)
		}
	}
	return decide(accepted, forNow, forGood, m.Last)
}

// decide returns the recipients who get the message, or the reason why none gets it.
func decide(accepted []string, forNow, forGood []error, last bool) ([]string, error) {
	switch {
	case len(forNow) > 0 && (!last || len(accepted) == 0):
		return nil, fmt.Errorf("%d of %d recipients refused for now: %w",
			len(forNow), len(accepted)+len(forNow)+len(forGood), said("the first", forNow[0]))
	case len(accepted) == 0:
		return nil, handler.Permanent(fmt.Errorf("all recipients refused: %w", said("the first", forGood[0])))
	}
	return accepted, nil
}

// hostname returns the name by which tierq introduces itself to the server.
func hostname() string {
	name, err := os.Hostname()
	if err != nil || handler.ReadAddress("x@"+name) != nil {
		return "localhost"
	}
	return name
}
