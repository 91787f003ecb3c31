package client

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/tierq/tierq/client/internal/fake"
)

func mustBase(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := parseBase(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestNew_WhatIsWrongIsTheErrorOfEveryCall(t *testing.T) {
	for base, opts := range map[string][]Option{
		"":                          nil,
		"localhost:8080":            nil,
		"ftp://localhost":           nil,
		"http://":                   nil,
		"http://%zz:secret@host":    nil,
		"http://me:secret@host":     nil,
		"http://host/?token=secret": nil,
		"http://host":               {WithToken("secret\r\nX: y")},
		"http://other":              {WithUserAgent("a\nb")},
	} {
		c := New(base, opts...)
		_, err := c.Submit(soon(t), Paid, "A", nil)
		_, polled := c.Poll(soon(t), unknownID)
		events := c.Events(soon(t), "", nil)
		for _, err := range []error{err, polled, events} {
			if err == nil || strings.Contains(err.Error(), "secret") || errors.Is(err, ErrUnavailable) {
				t.Errorf("%s: %v", base, err)
			}
		}
	}
}

func TestNew_APathInFront(t *testing.T) {
	s := fake.New()
	defer s.Close()
	front := httptest.NewServer(http.StripPrefix("/jobs/v1", s))
	defer front.Close()
	for _, base := range []string{front.URL + "/jobs/v1", front.URL + "/jobs/v1/"} {
		c := New(base)
		if _, err := c.Submit(soon(t), Paid, "A", nil); err != nil {
			t.Errorf("%s: %v", base, err)
		}
		c.Close()
	}
}

// The client follows no redirect, which could send a job, or a token, to another server.
func TestRedirectsAreNotFollowed(t *testing.T) {
	other := fake.New()
	defer other.Close()
	s, c := newServer(t, WithToken("tq_1_secret"),
		WithHTTPClient(&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return nil }}))
	s.Handle("GET /api/stats", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL+r.URL.Path, http.StatusTemporaryRedirect)
	})
	_, err := c.Stats(soon(t))
	if e, ok := errors.AsType[*Error](err); !ok || e.Status != http.StatusTemporaryRedirect || len(other.Seen()) != 0 {
		t.Errorf("%v; the other one saw %v", err, other.Seen())
	}
}

// Concurrent callers share one client, and the client reuses connections, also after refusals.
func TestConnectionsAreReused(t *testing.T) {
	s := fake.New()
	defer s.Close()
	var mu sync.Mutex
	from := map[string]bool{}
	s.Faults(func(n int, r *http.Request) fake.Fault {
		mu.Lock()
		defer mu.Unlock()
		from[r.RemoteAddr] = true
		if n%5 == 0 {
			return fake.Fault{Status: 503, Code: "QUEUE_FULL"}
		}
		return fake.Fault{}
	})
	c := New(s.URL, WithBackoff(1, 1), WithTries(50)) // four in step: every fifth may be refused for a while
	defer c.Close()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 50 {
				if _, err := c.Submit(soon(t), Paid, "A", nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if len(s.Jobs()) != 200 || len(from) > 8 {
		t.Errorf("%d jobs over %d connections", len(s.Jobs()), len(from))
	}
}
