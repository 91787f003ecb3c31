package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/testkit"
)

// pushesWith is pushTo as an admin of a server with keys. It returns the secret that verifies the posts.
func (s *server) pushesWith(key, queue, url, more string) (secret string) {
	s.t.Helper()
	a := s.asks(key, http.MethodPut, "/admin/queues/"+queue,
		`{"types":["PUSHED"],"push":{"url":"`+url+`"`+more+`}}`)
	var is struct {
		Push struct{ Webhook signing }
	}
	if err := json.Unmarshal(a.body, &is); err != nil || a.status != http.StatusOK {
		s.t.Fatalf("%d %s", a.status, a.body)
	}
	return is.Push.Webhook.Secret
}

// pushedWith is pushed with a key.
func (s *server) pushedWith(key, queue, name, more string) (id string) {
	s.t.Helper()
	a := s.asks(key, http.MethodPost, "/paid/submit",
		`{"type":"PUSHED","queue":"`+queue+`","payload":"`+name+`"`+more+`}`)
	var is struct {
		Data struct{ JobID string } `json:"apiResponseData"`
	}
	if err := json.Unmarshal(a.body, &is); err != nil || a.status != http.StatusAccepted {
		s.t.Fatalf("%d %s", a.status, a.body)
	}
	return is.Data.JobID
}

// stateWith waits for a job's status with a key, and returns the whole job.
func (s *server) stateWith(key, id, want string) (last string) {
	s.t.Helper()
	testkit.Eventually(s.t, pushTime, id+" is "+want, func() (bool, string) {
		last = string(s.asks(key, http.MethodGet, "/api/jobs/"+id, "").body)
		return strings.Contains(last, `"status":"`+want+`"`), last
	})
	return last
}

// On a server with keys the receiver ends its jobs with the key that the queue names, and with no other. Without such a
// key a 202 is a failed attempt. The queue's own keys sign the posts, and no job's message.
func TestPush_Keys(t *testing.T) {
	t.Parallel()
	e := newEmbedded(t, append([]string{"TIERQ_ADMIN_KEY=" + theAdmin}, outward...)...)
	e.start()
	s := e.server
	mine := s.makeKey(theAdmin, http.MethodPost, "/admin/keys", `{"name":"thumbs","role":"worker"}`)
	other := s.makeKey(theAdmin, http.MethodPost, "/admin/keys", `{"name":"films","role":"worker"}`)
	p := newPushes(t, answers{"later": status(202), "keyless": status(202)})
	secret := s.pushesWith(theAdmin, "pushed", p.URL+"/jobs", `,"key":"`+mine.ID+`"`)
	others := s.pushesWith(theAdmin, "keyless", p.URL+"/jobs", "")
	for _, key := range []string{"", mine.Key} {
		a := s.asks(key, http.MethodPut, "/admin/queues/stolen", `{"push":{"url":"`+p.URL+`"}}`)
		if a.status != http.StatusUnauthorized && a.status != http.StatusForbidden {
			t.Errorf("who is no admin declares: %d %s", a.status, a.body)
		}
	}

	keyless := s.stateWith(theAdmin, s.pushedWith(theAdmin, "keyless", "keyless", `,"maxRetries":0`), "FAILED")
	if !strings.Contains(keyless, "names no key") || p.of("keyless")[0].Get("X-Job-Lease") != "" {
		t.Errorf("%s, %v", keyless, p.of("keyless"))
	}
	later := s.pushedWith(theAdmin, "pushed", "later", "")
	testkit.Eventually(t, pushTime, "it is posted", func() (bool, string) { return len(p.of("later")) == 1, "" })
	h := p.of("later")[0]
	names := signedBy(t, call{header: h, body: []byte(`"later"`)},
		map[string]string{"queue": secret, "another": others, "the submitter": s.signingOf(theAdmin).Secret})
	if fmt.Sprint(names) != "[queue]" {
		t.Errorf("signed by %v", names)
	}
	for _, key := range []string{other.Key, theAdmin} {
		if got := s.reports(key, "complete", h.Get("X-Job-Lease"), `,"result":7`); got != "LEASE_LOST" {
			t.Errorf("another key: %s", got)
		}
	}
	if got := s.reports(mine.Key, "complete", h.Get("X-Job-Lease"), `,"result":7`); got != "COMPLETED" {
		t.Errorf("its key: %s", got)
	}
	if got := s.stateWith(theAdmin, later, "COMPLETED"); !strings.Contains(got, `"result":7`) {
		t.Errorf("%s", got)
	}
}

// A process that serves no API knows whether there are keys: it gives a lease to no receiver that could not use it.
func TestPush_KeysAndNoAPI(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	front := c.start(append([]string{"TIERQ_ROLES=api,recovery", "TIERQ_ADMIN_KEY=" + theAdmin}, outward...)...)
	mine := front.makeKey(theAdmin, http.MethodPost, "/admin/keys", `{"name":"thumbs","role":"worker"}`)
	c.start(append([]string{"TIERQ_ROLES=worker"}, outward...)...)
	p := newPushes(t, answers{"later": status(202), "keyless": status(202)})
	front.pushesWith(theAdmin, "pushed", p.URL+"/jobs", `,"key":"`+mine.ID+`"`)
	front.pushesWith(theAdmin, "keyless", p.URL+"/jobs", "")
	keyless := front.pushedWith(theAdmin, "keyless", "keyless", `,"maxRetries":0`)
	if got := front.stateWith(theAdmin, keyless, "FAILED"); !strings.Contains(got, "names no key") {
		t.Errorf("%s", got)
	}
	later := front.pushedWith(theAdmin, "pushed", "later", "")
	testkit.Eventually(t, pushTime, "it is posted", func() (bool, string) { return len(p.of("later")) == 1, "" })
	if got := front.reports(mine.Key, "complete", p.of("later")[0].Get("X-Job-Lease"), ""); got != "COMPLETED" {
		t.Errorf("its key: %s", got)
	}
	front.stateWith(theAdmin, later, "COMPLETED")
}
