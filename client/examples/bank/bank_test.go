package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierq/tierq/client"
	"github.com/tierq/tierq/client/internal/leak"
	"github.com/tierq/tierq/client/tierqtest"
)

func TestMain(m *testing.M) { leak.Main(m) }

// open returns a bank and its fake tierq server.
func open(t *testing.T) (*tierqtest.Server, *bank) {
	t.Helper()
	s := tierqtest.New(t)
	return s, newBank(s.Client(client.WithTries(3)), client.Paid,
		map[string]*account{"ada": {"ada@example.com", 1000}, "bob": {"bob@example.com", 500}})
}

func (b *bank) post(body string) (status int, t transfer) {
	rec := httptest.NewRecorder()
	b.routes().ServeHTTP(rec, httptest.NewRequest(http.MethodPost, "/transfers", strings.NewReader(body)))
	_ = json.Unmarshal(rec.Body.Bytes(), &t) // stays empty after a refusal
	return rec.Code, t
}

func (b *bank) cents() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return fmt.Sprint(b.accounts["ada"].cents, b.accounts["bob"].cents)
}

const transferT1 = `{"transferId":"T-1","from":"ada","to":"bob","cents":250}`

// After every transfer there is a SEND_EMAIL job, and the answer names it.
func TestTransferSendsAMail(t *testing.T) {
	t.Attr("proves", "S1-P7")
	s, b := open(t)
	status, got := b.post(transferT1)
	jobs := s.Jobs()
	if status != http.StatusCreated || len(jobs) != 1 || got.JobID != jobs[0].ID || b.cents() != "750 750" {
		t.Fatalf("%d %+v, %d jobs, %s", status, got, len(jobs), b.cents())
	}
	const payload = `{"body":"You have transferred 2.50 to the account bob.","subject":"Your transfer T-1",` +
		`"to":"ada@example.com"}`
	if j := jobs[0]; j.Type != "SEND_EMAIL" || j.Tier != "PAID" || j.IdempotencyKey != "bank-transfer-T-1" ||
		string(j.Payload) != payload {
		t.Errorf("%+v", j)
	}
}

// A repeated transfer moves no money and sends no second mail. Another transfer with the same id is refused.
func TestTransferTwice(t *testing.T) {
	t.Attr("proves", "S1-P7")
	s, b := open(t)
	_, first := b.post(transferT1)
	status, again := b.post(transferT1)
	if status != http.StatusOK || again != first || len(s.Jobs()) != 1 || b.cents() != "750 750" {
		t.Errorf("%d %+v, %d jobs, %s", status, again, len(s.Jobs()), b.cents())
	}
	if status, _ := b.post(strings.Replace(transferT1, "250", "251", 1)); status != http.StatusConflict {
		t.Errorf("another one: %d", status)
	}
}

// An outage of the queue, or lost answers, neither undo a transfer nor send its mail twice.
func TestTransferWhileTheQueueIsAway(t *testing.T) {
	t.Attr("proves", "S1-P7")
	for name, fails := range map[string]func(s *tierqtest.Server, submits int){
		"away": func(s *tierqtest.Server, n int) { s.Refuse(n, tierqtest.Refusal{Code: "SYSTEM_UNHEALTHY"}) },
		"lost": func(s *tierqtest.Server, n int) { s.LoseAnswers(n) },
	} {
		s, b := open(t)
		fails(s, 6) // the client tries each submit three times
		status, got := b.post(transferT1)
		if status != http.StatusCreated || got.JobID != "" || b.cents() != "750 750" {
			t.Errorf("%s: %d %+v, %s", name, status, got, b.cents())
		}
		if err := b.notifyAll(t.Context()); err == nil {
			t.Errorf("%s: no error", name)
		}
		if err := b.notifyAll(t.Context()); err != nil || len(s.Jobs()) != 1 {
			t.Errorf("%s: %v, %d jobs", name, err, len(s.Jobs()))
		}
		if _, got := b.post(transferT1); got.JobID != s.Jobs()[0].ID {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestTransferIsChecked(t *testing.T) {
	s, b := open(t)
	for body, want := range map[string]int{
		``:                                      400,
		`[]`:                                    400,
		transferT1 + transferT1:                 400,
		`{"transferId":"T-1","x":1}`:            400,
		strings.Repeat(" ", 5000):               400,
		order{"", "ada", "bob", 1}.json():       400,
		order{"a/b", "ada", "bob", 1}.json():    400,
		order{"T-2", "ada", "ada", 1}.json():    400,
		order{"T-2", "ada", "bob", 0}.json():    400,
		order{"T-2", "ada", "bob", -5}.json():   400,
		order{"T-2", "ada", "eve", 1}.json():    404,
		order{"T-2", "eve", "ada", 1}.json():    404,
		order{"T-2", "ada", "bob", 1001}.json(): 422,
	} {
		if status, _ := b.post(body); status != want {
			t.Errorf("%.60s: %d", body, status)
		}
	}
	if len(s.Jobs()) != 0 || b.cents() != "1000 500" {
		t.Errorf("%d jobs, %s", len(s.Jobs()), b.cents())
	}
}

func (o order) json() string {
	text, _ := json.Marshal(o) // cannot fail: only texts and a number
	return string(text)
}

func TestTransfersAtOnce(t *testing.T) {
	s, b := open(t)
	var wg sync.WaitGroup
	for n := range 100 {
		wg.Go(func() { b.post(order{fmt.Sprint("T-", n/2), "ada", "bob", 10}.json()) }) // each order twice
	}
	wg.Wait()
	if len(s.Jobs()) != 50 || b.cents() != "500 1000" {
		t.Errorf("%d jobs, %s", len(s.Jobs()), b.cents())
	}
}

// The whole program makes a transfer over HTTP.
func TestRun(t *testing.T) {
	t.Attr("proves", "S1-P7")
	s, _ := open(t)
	front := httptest.NewServer(http.NotFoundHandler())
	addr := front.Listener.Addr().String()
	front.Close() // frees the port
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, addr, s.URL(), client.Paid) }()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	c := &http.Client{Transport: transport}
	post := func() (string, error) {
		resp, err := c.Post("http://"+addr+"/transfers", "application/json", strings.NewReader(transferT1))
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		return string(text), err
	}
	text, err := post()
	for tick := time.NewTicker(10 * time.Millisecond); err != nil; text, err = post() {
		select {
		case <-tick.C:
		case err := <-ended:
			t.Fatal(err)
		}
	}
	if len(s.Jobs()) != 1 || !strings.Contains(text, s.Jobs()[0].ID) {
		t.Errorf("%s, %d jobs", text, len(s.Jobs()))
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
