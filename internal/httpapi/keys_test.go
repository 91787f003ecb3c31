package httpapi

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

const keyRest = `"createdAt":"2026-05-01T11:31:57.961931Z","createdBy":"` + mine +
	`","rotatedAt":null,"expiresAt":null,"revokedAt":null,"lastUsedAt":null`

func TestKeys_Create(t *testing.T) {
	r := newRooms(t)
	r.behind(callers["admin"])
	rec := r.json("POST", "/admin/keys", `{"name":"web site","role":"submit","tiers":["PUBLIC","unpaid"],"types":["SEND_EMAIL"],"rate":2.5,"burst":7,"inFlight":100,
		"expiresAt":"2026-06-01T00:00:00+02:00"}`)
	want := job.Key{
		Name: "web site", Role: job.RoleSubmit, Tiers: []job.Tier{job.Public, job.Unpaid}, Types: []string{"SEND_EMAIL"},
		Rate: 2.5, Burst: 7, InFlight: 100,
		ExpiresAt: time.Date(2026, 5, 31, 22, 0, 0, 0, time.UTC), CreatedBy: mine,
	}
	if len(r.ring.asked) != 1 || !reflect.DeepEqual(r.ring.asked[0], want) {
		t.Errorf("asked for %+v", r.ring.asked)
	}
	wantJSON(t, rec, 201, `{"key":"`+keyText+`","id":"`+knownKey+`","name":"web site","role":"submit","tiers":["PUBLIC","UNPAID"],"types":["SEND_EMAIL"],
		"queues":[],"rate":2.5,"burst":7,"inFlight":100,`+
		strings.Replace(keyRest, `"expiresAt":null`, `"expiresAt":"2026-05-31T22:00:00.000000Z"`, 1)+`}`)
	wantHeader(t, rec, "Cache-Control", "no-store")
	rec = r.json("POST", "/admin/keys", `{"name":"x","role":"read-only","tiers":null,"expiresInSeconds":3600}`)
	wantJSON(t, rec, 201, `{"key":"`+keyText+`","id":"`+knownKey+
		`","name":"x","role":"read-only","tiers":[],"types":[],"queues":[],"rate":0,"burst":0,"inFlight":0,`+
		strings.Replace(keyRest, `"expiresAt":null`, `"expiresAt":"2026-05-01T12:31:57.961000Z"`, 1)+`}`)
}

// A worker's key is made, shown, listed and written to the log of changes with its queues and tiers.
func TestKeys_OfWorkers(t *testing.T) {
	r := newRooms(t)
	r.behind(callers["admin"])
	rec := r.json("POST", "/admin/keys",
		`{"name":"thumbs","role":"worker","tiers":["PAID"],"queues":["pictures","main","a.b:c*"],"submits":true,"leases":9}`)
	want := job.Key{
		Name: "thumbs", Role: job.RoleWorker, Tiers: []job.Tier{job.Paid}, Queues: []string{"pictures", "main", "a.b:c*"},
		Submits: true, Leases: 9, CreatedBy: mine,
	}
	if len(r.ring.asked) != 1 || !reflect.DeepEqual(r.ring.asked[0], want) {
		t.Errorf("asked for %+v", r.ring.asked)
	}
	const body = `"name":"thumbs","role":"worker","tiers":["PAID"],"types":[],"queues":["pictures","main","a.b:c*"],` +
		`"submits":true,"leases":9,"rate":0,"burst":0,"inFlight":0,` + keyRest + `}`
	wantJSON(t, rec, 201, `{"key":"`+keyText+`","id":"`+knownKey+`",`+body)
	want.ID, want.CreatedAt = knownKey, aMoment
	r.ring.keys = []job.Key{want}
	wantJSON(t, r.do("GET", "/admin/keys", ""), 200, `{"items":[{"id":"`+knownKey+`",`+body+`]}`)
	if len(r.told.changes) != 1 || !strings.Contains(string(r.told.changes[0].After),
		`"queues":["pictures","main","a.b:c*"],"submits":true,"leases":9,`) {
		t.Errorf("the log of changes has %+v", r.told.changes)
	}
}

// A key that is not valid is refused with the names of its wrong fields, before it is made.
func TestKeys_Refused(t *testing.T) {
	for body, fields := range map[string]string{
		``:                            "name,role",
		`{}`:                          "name,role",
		`{"name":"","role":"submit"}`: "name",
		`{"name":7,"role":"root"}`:    "name,role",
		`{"name":"x","role":"Admin"}`: "role",
		`{"name":"x","role":"submit","tiers":"PAID"}`:                                           "tiers",
		`{"name":"x","role":"submit","tiers":["Paid "]}`:                                        "tiers",
		`{"name":"x","role":"submit","tiers":[["PAID"]]}`:                                       "tiers",
		`{"name":"x","role":"submit","types":["a b"]}`:                                          "types",
		`{"name":"x","role":"worker","queues":"pictures"}`:                                      "queues",
		`{"name":"x","role":"worker","queues":["a b"]}`:                                         "queues",
		`{"name":"x","role":"worker","queues":[""]}`:                                            "queues",
		`{"name":"x","role":"worker","queues":[7]}`:                                             "queues",
		`{"name":"x","role":"worker","queues":["*"]}`:                                           "queues",
		`{"name":"x","role":"worker","queues":["a*b"]}`:                                         "queues",
		`{"name":"x","role":"worker","submits":"yes"}`:                                          "submits",
		`{"name":"x","role":"worker","submits":1}`:                                              "submits",
		`{"name":"x","role":"worker","leases":-1}`:                                              "leases",
		`{"name":"x","role":"worker","leases":1.5}`:                                             "leases",
		`{"name":"x","role":"worker","leases":100001}`:                                          "leases",
		`{"name":"x","role":"submit","rate":-1}`:                                                "rate",
		`{"name":"x","role":"submit","rate":1e999}`:                                             "rate",
		`{"name":"x","role":"submit","rate":"1"}`:                                               "rate",
		`{"name":"x","role":"submit","burst":1.5}`:                                              "burst",
		`{"name":"x","role":"submit","inFlight":-1}`:                                            "inFlight",
		`{"name":"x","role":"submit","expiresAt":"tomorrow"}`:                                   "expiresAt",
		`{"name":"x","role":"submit","expiresInSeconds":0}`:                                     "expiresInSeconds",
		`{"name":"x","role":"submit","expiresInSeconds":99999999999999}`:                        "expiresInSeconds",
		`{"name":"x","role":"submit","id":"` + knownKey + `"}`:                                  "id",
		`{"name":"x","role":"submit","createdBy":"me","key":"` + keyText + `"}`:                 "createdBy,key",
		`{"name":"x","role":"submit","expiresInSeconds":60,"expiresAt":"2027-01-01T00:00:00Z"}`: "expiresInSeconds",
		`{"name":"x","role":"submit","types":[` + strings.Repeat(`"A",`, 100) + `"A"]}`:         "types",
	} {
		r := newRooms(t)
		r.behind(callers["admin"])
		wantProblem(t, r.json("POST", "/admin/keys", body), 400, "INVALID_REQUEST", strings.Split(fields, ",")...)
		if r.ring.asked != nil {
			t.Errorf("%s: made", body)
		}
	}
	r := newRooms(t)
	r.behind(callers["admin"])
	r.ring.err = &job.PayloadError{Field: "name", Reason: "is not printable"}
	wantProblem(t, r.json("POST", "/admin/keys", `{"name":"a\u0000b","role":"submit"}`), 400, "INVALID_REQUEST", "name")
}

// Only an admin's key can be the first one: with any other first key nobody could make a second one.
func TestKeys_TheFirstIsAnAdmins(t *testing.T) {
	t.Attr("proves", "A49")
	for _, role := range job.Roles {
		r := newRooms(t)
		r.behind(callers["open"])
		rec := r.json("POST", "/admin/keys", `{"name":"first","role":"`+string(role)+`"}`)
		if role == job.RoleAdmin {
			if rec.Code != 201 || r.ring.asked[0].CreatedBy != "" {
				t.Errorf("%d %s", rec.Code, rec.Body)
			}
			continue
		}
		wantProblem(t, rec, 409, "INVALID_STATE_TRANSITION")
		if r.ring.asked != nil {
			t.Errorf("%s: made", role)
		}
	}
}

func TestKeys_Rotate(t *testing.T) {
	for body, grace := range map[string]time.Duration{
		"": 24 * time.Hour, "{}": 24 * time.Hour, `{"graceSeconds":0}`: 0, `{"graceSeconds":null}`: 24 * time.Hour,
		`{"graceSeconds":2592000}`: 720 * time.Hour,
	} {
		r := newRooms(t)
		r.behind(callers["admin"])
		rec := r.json("POST", "/admin/keys/"+knownKey+"/rotate", body)
		if rec.Code != 200 || r.ring.grace != grace || !strings.Contains(rec.Body.String(), `"key":"`+keyText+`"`) {
			t.Errorf("%s: %d, grace %s, %s", body, rec.Code, r.ring.grace, rec.Body)
		}
	}
	for _, body := range []string{`{"graceSeconds":-1}`, `{"graceSeconds":2592001}`, `{"graceSeconds":"1d"}`} {
		r := newRooms(t)
		r.behind(callers["admin"])
		r.ring.grace = -1
		wantProblem(t, r.json("POST", "/admin/keys/"+knownKey+"/rotate", body), 400, "INVALID_REQUEST", "graceSeconds")
		if r.ring.grace != -1 {
			t.Errorf("%s: rotated", body)
		}
	}
}

func TestKeys_Revoke(t *testing.T) {
	r := newRooms(t)
	r.behind(callers["admin"])
	for range 2 {
		if rec := r.do("DELETE", "/admin/keys/"+knownKey, ""); rec.Code != 204 || rec.Body.Len() != 0 {
			t.Errorf("%d %s", rec.Code, rec.Body)
		}
	}
	r.ring.err = job.ErrNoKey
	wantProblem(t, r.do("DELETE", "/admin/keys/"+knownKey, ""), 404, "NOT_FOUND")
	asked := len(r.ring.ended)
	for _, id := range []string{"x", strings.ToUpper(knownKey), knownKey + "a", "k234567k234567a1", "%27%20OR%201=1",
		strings.Repeat("a", 500)} {
		wantProblem(t, r.do("DELETE", "/admin/keys/"+id, ""), 404, "NOT_FOUND")
		wantProblem(t, r.do("POST", "/admin/keys/"+id+"/rotate", ""), 404, "NOT_FOUND")
	}
	if len(r.ring.ended) != asked {
		t.Errorf("asked about what is no id: %q", r.ring.ended)
	}
}

// The list of keys, the server's log and the log of changes have no secret. A key's text is in one answer only.
func TestKeys_TheTextIsShownOnce(t *testing.T) {
	t.Attr("proves", "A47")
	r := newRooms(t)
	r.deps.WebhookKeys = webhookKeysOf
	webhookSecret, _ := webhookKeysOf(knownKey)
	r.behind(callers["admin"])
	first := r.json("POST", "/admin/keys", `{"name":"x","role":"submit"}`)
	second := r.json("POST", "/admin/keys/"+knownKey+"/rotate", "")
	for _, rec := range []string{first.Body.String(), second.Body.String()} {
		if strings.Count(rec, keyText) != 1 || !strings.Contains(rec, `"webhook":{"secret":"`+webhookSecret+`",`) {
			t.Errorf("not shown: %s", rec)
		}
	}
	r.ring.keys = []job.Key{{ID: knownKey, Name: "x", Role: job.RoleSubmit, CreatedAt: aMoment, CreatedBy: mine,
		LastUsedAt: aMoment}}
	r.do("DELETE", "/admin/keys/"+knownKey, "")
	r.ring.err = job.ErrAmbiguous
	inDoubt := r.json("POST", "/admin/keys", `{"name":"y","role":"submit"}`)
	wantProblem(t, inDoubt, 504, "OUTCOME_UNKNOWN")
	r.ring.err = nil
	list := r.do("GET", "/admin/keys", "")
	wantJSON(t, list, 200, `{"items":[{"id":"`+knownKey+
		`","name":"x","role":"submit","tiers":[],"types":[],"queues":[],"rate":0,"burst":0,"inFlight":0,`+
		strings.Replace(keyRest, `"lastUsedAt":null`, `"lastUsedAt":"2026-05-01T11:31:57.961931Z"`, 1)+`}]}`)
	changes := r.do("GET", "/admin/audit", "")
	secret := keyText[len("tq_"+knownKey+"_"):]
	for where, text := range map[string]string{"list": list.Body.String(), "changes": changes.Body.String(),
		"log": r.log.String(), "in doubt": inDoubt.Body.String()} {
		if strings.Contains(text, secret) || strings.Contains(text, "whsec_") {
			t.Errorf("the secret is in the %s: %s", where, text)
		}
	}
	if len(r.told.changes) != 4 {
		t.Errorf("%d changes", len(r.told.changes))
	}
}

// Without a room that stores keys, the list is empty and no key can be made.
func TestKeys_None(t *testing.T) {
	r := newRooms(t)
	r.deps.Keys, r.deps.Changes = nil, nil
	r.Handler = NewHandler(r.deps)
	wantJSON(t, r.do("GET", "/admin/keys", ""), 200, `{"items":[]}`)
	wantJSON(t, r.do("GET", "/admin/audit", ""), 200, `{"items":[],"next":null}`)
	wantProblem(t, r.json("POST", "/admin/keys", `{"name":"x","role":"admin"}`), 403, "FORBIDDEN")
	wantProblem(t, r.do("DELETE", "/admin/keys/"+knownKey, ""), 404, "NOT_FOUND")
	wantProblem(t, r.do("POST", "/admin/keys/"+knownKey+"/rotate", ""), 404, "NOT_FOUND")
}
