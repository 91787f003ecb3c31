package mail

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
	"go.uber.org/goleak"

	"github.com/tierq/tierq/internal/job"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const jobID = job.ID("019de340-01fe-7a58-be69-567cd7d6b7d4")

// office is a real SMTP server with one user, me:secret. Its fields control its behaviour; mails are the messages
// it accepted.
type office struct {
	t      *testing.T
	addr   string
	caFile string
	certs  *tls.Config

	open      bool // accepts mail without a login
	ways      []string
	rcpt      map[string]*smtp.SMTPError // the answers to some recipients
	sender    *smtp.SMTPError            // the answer to MAIL FROM
	data      *smtp.SMTPError            // the answer after the message
	noTLS     bool
	host      string // in its certificate
	expired   bool   // the certificate has expired
	mu        sync.Mutex
	mails     []mailed
	passwords []string // received passwords
}

type mailed struct {
	from string
	to   []string
	text string
	tls  bool
}

// start starts the server; implicit means TLS from the first byte.
func (o *office) start(t *testing.T, implicit bool) {
	t.Helper()
	o.t = t
	if o.host == "" {
		o.host = "localhost"
	}
	if o.ways == nil {
		o.ways = []string{"PLAIN"}
	}
	until := time.Now().Add(time.Hour)
	if o.expired {
		until = time.Now().Add(-time.Minute)
	}
	o.caFile, o.certs = authority(t, o.host, until)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o.addr = l.Addr().String()
	server := smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session,
		error) {
		return &session{office: o, conn: c}, nil
	}))
	server.Domain = "localhost"
	server.AllowInsecureAuth = true // the server is careless, so the client must be careful
	server.ErrorLog = log.New(io.Discard, "", 0)
	if !o.noTLS {
		server.TLSConfig = o.certs
	}
	if implicit {
		l = tls.NewListener(l, o.certs)
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		_ = server.Close()
		_ = l.Close() // a server that is closed before it serves does not close its listener
		if err := <-done; err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
}

// url returns the URL of a sender that uses this server under the name localhost.
func (o *office) url(scheme, user string, query url.Values) string {
	_, port, err := net.SplitHostPort(o.addr)
	if err != nil {
		o.t.Fatal(err)
	}
	if !query.Has("from") {
		query.Set("from", "Tierq <tierq@example.org>")
	}
	u := url.URL{Scheme: scheme, Host: "localhost:" + port, RawQuery: query.Encode()}
	if user != "" {
		u.User = url.UserPassword(user, "secret")
	}
	return u.String()
}

func (o *office) to(scheme, user string) Sender {
	return open(o.t, o.url(scheme, user, url.Values{"ca": {o.caFile}}))
}

func (o *office) taken() []mailed {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.mails
}

func open(t *testing.T, text string) Sender {
	t.Helper()
	s, err := Open(text, t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

type session struct {
	*office
	conn  *smtp.Conn
	known bool
	mail  mailed
}

func (s *session) AuthMechanisms() []string { return s.ways }

func (s *session) Auth(way string) (sasl.Server, error) {
	check := func(user, password string) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.passwords = append(s.passwords, password)
		if s.known = user == "me" && password == "secret"; !s.known {
			return smtp.ErrAuthFailed
		}
		return nil
	}
	if way == "LOGIN" {
		return &login{check: check}, nil
	}
	return sasl.NewPlainServer(func(_, user, password string) error { return check(user, password) }), nil
}

func (s *session) Mail(from string, _ *smtp.MailOptions) error {
	if !s.known && !s.open {
		return smtp.ErrAuthRequired
	}
	if s.sender != nil {
		return s.sender
	}
	_, secure := s.conn.TLSConnectionState()
	s.mail = mailed{from: from, tls: secure}
	return nil
}

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	if no := s.rcpt[to]; no != nil {
		return no
	}
	s.mail.to = append(s.mail.to, to)
	return nil
}

func (s *session) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if s.data != nil {
		return s.data
	}
	s.mail.text = string(text)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mails = append(s.mails, s.mail)
	return nil
}

func (s *session) Reset()        {}
func (s *session) Logout() error { return nil }

// login is the server's side of AUTH LOGIN, which the library lacks.
type login struct {
	check func(user, password string) error
	user  *string
	asked bool
}

func (l *login) Next(response []byte) (challenge []byte, done bool, err error) {
	switch {
	case !l.asked:
		l.asked = true
		return []byte("Username:"), false, nil
	case l.user == nil:
		user := string(response)
		l.user = &user
		return []byte("Password:"), false, nil
	}
	return nil, true, l.check(*l.user, string(response))
}

// authority makes a throwaway CA and a certificate from it for one host.
func authority(t *testing.T, host string, until time.Time) (caFile string, server *tls.Config) {
	t.Helper()
	sign := func(template, parent *x509.Certificate, key, signer *ecdsa.PrivateKey) *x509.Certificate {
		der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
		if err != nil {
			t.Fatal(err)
		}
		c, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	key := func() *ecdsa.PrivateKey {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "throw-away"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	caKey, hostKey := key(), key()
	ca = sign(ca, ca, caKey, caKey)
	cert := sign(&x509.Certificate{SerialNumber: big.NewInt(2), DNSNames: []string{host}, NotAfter: until}, ca, hostKey,
		caKey)
	caFile = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(caFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return caFile, &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{cert.Raw}, PrivateKey: hostKey}}}
}
