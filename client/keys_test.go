package client

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"testing"
	"time"

	"github.com/tierq/tierq/client/internal/fake"
)

const (
	aKeyID = "k234567k234567ab"
	aKey   = `"id":"` + aKeyID + `","name":"ci","role":"submit","tiers":["PUBLIC"],"types":[],"queues":[],"rate":2.5,` +
		`"burst":0,"inFlight":7,` +
		`"createdAt":"2026-05-01T11:31:57.961931Z","createdBy":null,"rotatedAt":null,"expiresAt":null,"revokedAt":null,` +
		`"lastUsedAt":null}`
)

func TestKeys(t *testing.T) {
	s, c := newServer(t)
	answers(s, "GET /admin/keys", 200, `{"items":[{`+aKey+`]}`)
	keys, err := c.Keys(soon(t))
	want := Key{
		ID: aKeyID, Name: "ci", Role: RoleSubmit, Tiers: []Tier{Public}, Types: []string{}, Queues: []string{},
		Rate: 2.5, InFlight: 7,
		CreatedAt: time.Date(2026, 5, 1, 11, 31, 57, 961931000, time.UTC),
	}
	if err != nil || len(keys) != 1 || !reflect.DeepEqual(keys[0], want) {
		t.Errorf("%+v, %v", keys, err)
	}
	asked := answers(s, "POST /admin/keys", 201,
		`{"key":"tq_x","webhook":{"secret":"whsec_x","publicKey":"whpk_x"},`+aKey)
	made, err := c.CreateKey(soon(t),
		NewKey{Name: "ci", Role: RoleSubmit, Tiers: []Tier{Public}, Rate: 2.5, InFlight: 7, ExpiresAt: time.Unix(0, 0).UTC()})
	if err != nil || made.Text != "tq_x" || made.ID != aKeyID || made.Webhook == nil ||
		*made.Webhook != (WebhookKeys{"whsec_x", "whpk_x"}) {
		t.Errorf("%+v, %v", made, err)
	}
	if _, err := c.CreateKey(soon(t), NewKey{
		Name: "w", Role: RoleWorker, Queues: []string{"a*", "main"}, Submits: true, Leases: 9,
	}); err != nil {
		t.Error(err)
	}
	rotated := answers(s, "POST /admin/keys/"+aKeyID+"/rotate", 200, `{"key":"tq_y",`+aKey)
	if made, err = c.RotateKey(soon(t), aKeyID, 90*time.Minute); err != nil || made.Text != "tq_y" {
		t.Errorf("%+v, %v", made, err)
	}
	*asked = append(*asked, *rotated...)
	if want := `[{"name":"ci","role":"submit","tiers":["PUBLIC"],"rate":2.5,"inFlight":7,` +
		`"expiresAt":"1970-01-01T00:00:00Z"} {"name":"w","role":"worker","queues":["a*","main"],"submits":true,"leases":9} ` +
		`{"graceSeconds":5400}]`; fmt.Sprint(*asked) != want {
		t.Errorf("asked %v", *asked)
	}
	ended := 0
	s.Handle("DELETE /admin/keys/{id}", func(w http.ResponseWriter, r *http.Request) {
		if ended++; r.PathValue("id") != aKeyID {
			fake.Refuse(w, http.StatusNotFound, "NOT_FOUND")
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	if err := c.RevokeKey(soon(t), aKeyID); err != nil {
		t.Error(err)
	}
	for _, id := range []string{"x", "../tiers/PAID", "a?b#c"} {
		if err := c.RevokeKey(soon(t), id); !errors.Is(err, ErrNotFound) {
			t.Errorf("%q: %v", id, err)
		}
	}
	if ended < 2 {
		t.Errorf("%d revoked", ended)
	}
}

// The client asks for the gateway password of a key or of its own key, and again after a lost answer.
func TestGateways(t *testing.T) {
	s, c := newServer(t)
	answers(s, "POST /admin/keys/"+aKeyID+"/gateway", 200,
		`{"keyId":"`+aKeyID+`","password":"p","faktoryUrl":"tcp://`+aKeyID+`:p@h:7419"}`)
	answers(s, "POST /api/me/gateway", 200, `{"faktoryUrl":"tcp://h:7419"}`)
	s.Faults(firstOnly(len(s.Seen())+1, fake.Fault{DropAfter: true}))
	got, err := c.KeyGateway(soon(t), aKeyID)
	if want := (Gateway{KeyID: aKeyID, Password: "p", FaktoryURL: "tcp://" + aKeyID + ":p@h:7419"}); err != nil ||
		got != want || len(s.Seen()) != 2 {
		t.Errorf("%+v, %v after %d requests", got, err, len(s.Seen()))
	}
	if got, err = c.OwnGateway(soon(t)); err != nil || got != (Gateway{FaktoryURL: "tcp://h:7419"}) {
		t.Errorf("%+v, %v", got, err)
	}
	s.Handle("POST /admin/keys/{id}/gateway", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("id") == "other" {
			fake.Refuse(w, http.StatusConflict, "INVALID_STATE_TRANSITION")
			return
		}
		fake.Refuse(w, http.StatusNotFound, "NOT_FOUND")
	})
	if _, err := c.KeyGateway(soon(t), "other"); !errors.Is(err, ErrConflict) {
		t.Error(err)
	}
	if _, err := c.KeyGateway(soon(t), "a/../b"); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
}

// After a lost answer the client repeats neither the creation of a key nor a rotation. It repeats a revocation.
func TestKeys_LostAnswers(t *testing.T) {
	s, c := newServer(t)
	answers(s, "POST /admin/keys", 201, `{"key":"tq_x",`+aKey)
	answers(s, "POST /admin/keys/"+aKeyID+"/rotate", 200, `{"key":"tq_x",`+aKey)
	s.Handle("DELETE /admin/keys/{id}",
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	lost := func() int {
		first := len(s.Seen())
		s.Faults(firstOnly(first+1, fake.Fault{DropAfter: true}))
		return first
	}
	first := lost()
	if _, err := c.CreateKey(soon(t), NewKey{Name: "x", Role: RoleAdmin}); !errors.Is(err, ErrOutcomeUnknown) ||
		len(s.Seen()) != first+1 {
		t.Errorf("%v after %d requests", err, len(s.Seen())-first)
	}
	first = lost()
	if _, err := c.RotateKey(soon(t), aKeyID, 0); !errors.Is(err, ErrOutcomeUnknown) || len(s.Seen()) != first+1 {
		t.Errorf("%v after %d requests", err, len(s.Seen())-first)
	}
	first = lost()
	if err := c.RevokeKey(soon(t), aKeyID); err != nil || len(s.Seen()) != first+2 {
		t.Errorf("%v after %d requests", err, len(s.Seen())-first)
	}
}

func TestChanges(t *testing.T) {
	s, c := newServer(t)
	var asked []string
	s.Handle("GET /admin/audit", func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RawQuery)
		_, _ = io.WriteString(w, `{"items":[{"id":43,"at":"2026-05-01T11:31:57Z","actor":"`+aKeyID+
			`","name":"Ada","address":"::1","action":"tier.put","target":"PAID",`+
			`"before":null,"after":{"share":1},"outcome":"done","traceId":null}],"next":"42"}`)
	})
	page, err := c.Changes(soon(t), "44", 1)
	if err != nil || page.Next != "42" || len(page.Items) != 1 || fmt.Sprint(asked) != "[cursor=44&limit=1]" {
		t.Fatalf("%+v, %v, asked %v", page, err, asked)
	}
	got := page.Items[0]
	if got.ID != 43 || got.Actor != aKeyID || got.Name != "Ada" || got.Before != nil ||
		string(got.After) != `{"share":1}` || got.Outcome != "done" || got.TraceID != "" {
		t.Errorf("%+v", got)
	}
}
