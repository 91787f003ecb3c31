package e2e

import (
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/http/httptest"
	netmail "net/mail"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"github.com/tierq/tierq/internal/testkit"
)

// office is a real SMTP server that accepts mail only over STARTTLS and from me:secret. It refuses the first busy
// tries of each mail.
type office struct {
	busy int
	mu   sync.Mutex
	took []letter
	none int // tries refused
}

type letter struct {
	to        []string
	encrypted bool
	text      string
}

// newOffice returns a mail server and the URL by which a tierq server reaches it. Its certificate is that of
// net/http's own test servers.
func newOffice(t *testing.T, busy int) (o *office, url string) {
	t.Helper()
	web := httptest.NewTLSServer(nil)
	defer web.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw}),
		0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o = &office{busy: busy}
	s := smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) {
		return &session{office: o, conn: c},
			nil
	}))
	s.TLSConfig = &tls.Config{Certificates: web.TLS.Certificates}
	s.ErrorLog = log.New(io.Discard, "", 0)
	var serving sync.WaitGroup
	serving.Go(func() { _ = s.Serve(l) })
	t.Cleanup(func() {
		_, _ = s.Close(), l.Close() // whichever of the two closes the listener
		serving.Wait()
	})
	return o, "smtp://me:secret@" + l.Addr().String() + "?from=bank@example.org&ca=" + ca
}

func (o *office) letters() []letter {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.took)
}

type session struct {
	*office
	conn  *smtp.Conn
	known bool
	now   letter
}

func (s *session) AuthMechanisms() []string { return []string{sasl.Plain} }

func (s *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if s.known = user == "me" && password == "secret"; !s.known {
			return smtp.ErrAuthFailed
		}
		return nil
	}), nil
}

func (s *session) Mail(string, *smtp.MailOptions) error {
	if !s.known {
		return smtp.ErrAuthRequired
	}
	_, encrypted := s.conn.TLSConnectionState()
	s.now = letter{encrypted: encrypted}
	return nil
}

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.now.to = append(s.now.to, to)
	return nil
}

func (s *session) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.none < s.busy {
		s.none++
		return &smtp.SMTPError{Code: 451, Message: "later, please"}
	}
	s.now.text = string(text)
	s.took = append(s.took, s.now)
	return nil
}

func (s *session) Reset()        {}
func (s *session) Logout() error { return nil }

// readMail parses a message as a mail reader does.
func readMail(t *testing.T, text string) (subject string, header netmail.Header, body string) {
	t.Helper()
	m, err := netmail.ReadMessage(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if subject, err = new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject")); err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(m.Body)
	if err != nil {
		t.Fatal(err)
	}
	return subject, m.Header, string(b)
}

// Mail is sent through a real mail server, under one Message-ID for all tries. EMAIL is another name of the same
// job type.
func TestMailIsSent(t *testing.T) {
	t.Attr("proves", "S1-P4 S0-P12")
	t.Parallel()
	c := newCluster(t)
	o, url := newOffice(t, 1)
	s := c.start("TIERQ_SMTP_URL=" + url)
	s.tune("PAID", map[string]any{"backoff": backoff(200)})
	mails := map[string]struct {
		to      []string
		subject string
	}{
		s.submit("paid", `{"type":"SEND_EMAIL","payload":{"to":["ada@example.com","bob@example.com"],"subject":"Grüße",`+
			`"body":"Hello"}}`): {
			[]string{"ada@example.com", "bob@example.com"}, "Grüße",
		},
		s.submit("paid", `{"type":"EMAIL","payload":{"to":"eve@example.com","subject":"Two",`+
			`"body":"Again"}}`): {[]string{"eve@example.com"}, "Two"},
	}
	c.settled(15*time.Second, slices.Collect(maps.Keys(mails))...)
	retries, letters := 0, o.letters()
	for id, want := range mails {
		p := s.poll(id)
		var result struct {
			MessageID string
			Accepted  []string
		}
		if err := json.Unmarshal(p.Result, &result); err != nil {
			t.Fatal(err)
		}
		retries += p.RetryCount
		if p.Status != "COMPLETED" || !slices.Equal(result.Accepted, want.to) || !strings.Contains(result.MessageID, id) {
			t.Errorf("%+v %s", p, p.Result)
		}
		i := slices.IndexFunc(letters,
			func(l letter) bool { return strings.Contains(l.text, "Message-ID: <"+result.MessageID+">") })
		if i < 0 {
			t.Fatalf("no letter %s in %+v", result.MessageID, letters)
		}
		subject, header, _ := readMail(t, letters[i].text)
		if l := letters[i]; !l.encrypted || !slices.Equal(l.to, want.to) || subject != want.subject ||
			header.Get("From") != "<bank@example.org>" {
			t.Errorf("%+v", l)
		}
	}
	if len(letters) != 2 || retries != 1 {
		t.Errorf("%d letters after %d retries; one try was refused for a while", len(letters), retries)
	}
}

// The shipped example of a service that uses tierq makes one mail per transfer, also if the transfer is repeated,
// and if the bank dies and gets the same transfer again. Without a mail server the mail is a file.
func TestBankExample(t *testing.T) {
	t.Attr("proves", "S1-P7 S1-P6 S1-P4")
	t.Parallel()
	c := newCluster(t)
	dir := t.TempDir()
	s := c.start("TIERQ_DATA_DIR=" + dir)
	bin := filepath.Join(t.TempDir(), "bank")
	if out, err := exec.Command("go", "build", "-o", bin, "../../client/examples/bank").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", testkit.FreePort(t))
	var transfer struct{ JobID string }
	order := func(status int) {
		t.Helper()
		var a answer
		testkit.Eventually(t, 10*time.Second, "the bank answers", func() (bool, string) {
			var err error
			a, err = try(http.MethodPost, "http://"+addr+"/transfers",
				`{"transferId":"T-1","from":"ada","to":"bob","cents":1250}`)
			return err == nil, fmt.Sprint(err)
		})
		before := transfer.JobID
		if err := json.Unmarshal(a.body, &transfer); err != nil || a.status != status || transfer.JobID == "" ||
			before != "" && transfer.JobID != before {
			t.Fatalf("%d %s; the job was %q", a.status, a.body, before)
		}
	}
	bank := testkit.StartProcess(t, bin, nil, "-addr", addr, "-tierq", s.base, "-tier", "UNPAID")
	order(http.StatusCreated)
	order(http.StatusOK)
	if err := bank.Kill(); err != nil {
		t.Fatal(err)
	}
	testkit.StartProcess(t, bin, nil, "-addr", addr, "-tierq", s.base, "-tier", "UNPAID")
	order(http.StatusCreated)

	outcomes := c.settled(15*time.Second, transfer.JobID)
	if len(outcomes) != 1 || outcomes[transfer.JobID] != "COMPLETED" || s.poll(transfer.JobID).Tier != "UNPAID" {
		t.Errorf("outcomes %v", outcomes)
	}
	files, err := filepath.Glob(filepath.Join(dir, "mail", "*"))
	if err != nil || len(files) != 1 || filepath.Base(files[0]) != transfer.JobID+".eml" {
		t.Fatalf("%v %v", files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	subject, header, body := readMail(t, string(text))
	if subject != "Your transfer T-1" || header.Get("To") != "<ada@example.com>" ||
		!strings.Contains(body, "12.50 to the account bob") {
		t.Errorf("%s", text)
	}
	if !strings.Contains(s.Output(), "mail          written to "+filepath.Join(dir, "mail")) {
		t.Error("the banner does not say where mail goes")
	}
}
