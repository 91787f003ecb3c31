package httpapi

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/fuzz"
	"github.com/tierq/tierq/internal/job"
)

// For any body, a key that is made has a known role, valid names and bounded values, and its text is in one answer
// only.
func FuzzKeyBody(f *testing.F) {
	f.Attr("proves", "A61 A62")
	r := fuzzedRooms(f)
	keys := &ring{}
	r.deps.Keys = keys
	r.Handler = NewHandler(r.deps)
	fuzz.Text(f, func(t *testing.T, body string) {
		keys.asked, keys.ended = nil, nil
		rec := r.ask(t, "POST", "/admin/keys", body, asJSON...)
		if (rec.Code == 201) != (len(keys.asked) == 1) || rec.Code == 201 && strings.Count(rec.Body.String(), keyText) != 1 ||
			rec.Code != 201 && strings.Contains(rec.Body.String(), "tq_") && !strings.Contains(body, "tq_") {
			t.Errorf("%d %s for %+v", rec.Code, rec.Body, keys.asked)
		}
		for _, k := range keys.asked {
			if k.Role != job.RoleAdmin || k.Name == "" || !(k.Rate >= 0 && k.Rate <= maxRate) || math.IsNaN(k.Rate) ||
				k.Burst < 0 ||
				k.Burst > maxRate || k.InFlight < 0 || k.InFlight > maxFlight || k.ID != "" {
				t.Errorf("made %+v", k) // the first key of an open server must be an admin's
			}
			if slices.ContainsFunc(k.Tiers, func(tier job.Tier) bool { return tierNamed(string(tier)) != tier }) ||
				slices.ContainsFunc(k.Types, func(typ string) bool { return !job.IsTypeName(typ) }) {
				t.Errorf("made for %q, %q", k.Tiers, k.Types)
			}
		}
		r.ask(t, "POST", "/admin/keys/"+knownKey+"/rotate", body, asJSON...)
		if keys.grace < 0 || keys.grace > maxGrace {
			t.Errorf("the old secret opens for %s longer", keys.grace)
		}
		r.ask(t, "DELETE", "/admin/keys/"+knownKey, body, asJSON...)
		if len(keys.ended) > 1 || len(keys.ended) == 1 && keys.ended[0] != knownKey {
			t.Errorf("ended %q", keys.ended)
		}
	}, `{"name":"ci","role":"admin","tiers":["PAID","public"],"types":["PAIR"],"rate":1.5,"burst":10,"inFlight":5,`+
		`"expiresInSeconds":3600}`,
		`{"name":"ci","role":"root"}`, `{"name":"a\r\nb","role":"admin"}`,
		`{"name":"x","role":"admin","rate":1e999}`, `{"name":"x","role":"admin","rate":-1}`,
		`{"name":"x","role":"admin","tiers":"PAID"}`,
		`{"name":"x","role":"admin","tiers":[["PAID"]]}`, `{"name":"x","role":"submit"}`,
		`{"name":"x","role":"admin","id":"aaaaaaaaaaaaaaaa"}`,
		`{"name":"x","role":"admin","expiresAt":"2027-01-01T00:00:00Z","expiresInSeconds":1}`, `{"graceSeconds":86400}`,
		`{"graceSeconds":1e9}`, ``,
		`{"name":"\u202e","role":"admin"}`, `{"name":"x","role":"admin","expiresInSeconds":9223372036854775807}`)
}

// For any body, a filter that is accepted is the filter that was sent, and its limit is bounded.
func FuzzRequeueBody(f *testing.F) {
	f.Attr("proves", "A21 A57")
	r := fuzzedRooms(f)
	var asked job.Filter
	var limit int
	r.requeueDead = func(f job.Filter, n int, _ bool) (int, int, error) {
		asked, limit = f, n
		return 0, 0, nil
	}
	fuzz.Text(f, func(t *testing.T, body string) {
		limit = 0
		rec := r.ask(t, "POST", "/admin/dead/requeue", body, asJSON...)
		if (rec.Code == 200) != (limit > 0) || limit > maxRequeue {
			t.Errorf("%d with a limit of %d", rec.Code, limit)
		}
		if limit > 0 && (asked.Tier != "" && tierNamed(string(asked.Tier)) != asked.Tier ||
			asked.Type != "" && !job.IsTypeName(asked.Type) ||
			asked.Cause != "" && causes[string(asked.Cause)] == "" || asked.Status != "" || asked.Owner != nil) {
			t.Errorf("asked for %+v", asked)
		}
		if limit > 0 {
			var sent struct{ After, Before string }
			if err := json.Unmarshal([]byte(body), &sent); err != nil {
				t.Fatal(err)
			}
			for text, taken := range map[string]time.Time{"after " + sent.After: asked.From, "before " + sent.Before: asked.To} {
				_, text, _ = strings.Cut(text, " ")
				at, err := time.Parse(time.RFC3339Nano, text)
				if text == "" && !taken.IsZero() ||
					text != "" && (err != nil || !taken.Equal(at) || taken.Location() != time.UTC || taken.IsZero()) {
					t.Errorf("%q was taken as %s, %v", text, taken, err)
				}
			}
		}
	}, `{"limit":10}`, `{"limit":1,"after":"2026-04-01T02:00:00.5+02:00"}`, `{"limit":1,"before":"0001-01-01T00:00:00Z"}`,
		`{"limit":1,"after":null}`,
		`{"limit":1,"after":"9999-12-31T23:59:59-14:00","before":"2026-04-01 00:00:00Z"}`,
		`{"tier":"PAID","cause":"HANDLER_ERROR","type":"PAIR","after":"2026-04-01T00:00:00Z",`+
			`"before":"2026-05-01T00:00:00Z","limit":10000,"dryRun":true}`,
		`{"limit":1e9}`, `{"limit":0}`, `{"limit":10,"dryRun":"yes"}`,
		`{"tier":"x' OR 1=1 --","limit":1}`, `{"type":"A\u0000","limit":1}`, `{"limit":1,"limit":2}`,
		`{"owner":"x","limit":1}`, ``)
}

// For any body, a plan that is stored can be served. When the server's answer is sent back, the same plan is
// stored.
func FuzzTierBody(f *testing.F) {
	f.Attr("proves", "A61")
	r := fuzzedRooms(f)
	var stored *job.Plan
	r.store = func(p job.Plan, _ int64) (job.Plan, error) {
		stored = &p
		return p, nil
	}
	fuzz.Text(f, func(t *testing.T, body string) {
		stored = nil
		rec := r.ask(t, "PUT", "/admin/tiers/GOLD", body, asJSON...)
		if (rec.Code == 200) != (stored != nil) {
			t.Errorf("%d, stored %+v", rec.Code, stored)
		}
		if stored == nil {
			return
		}
		first := *stored
		if err := first.Check(); err != nil {
			t.Error(err)
		}
		var shown map[string]json.RawMessage
		if err := json.Unmarshal(rec.Body.Bytes(), &shown); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"tier", "version"} {
			delete(shown, name)
		}
		again, err := json.Marshal(shown)
		if err != nil {
			t.Fatal(err)
		}
		stored = nil
		if rec := r.ask(t, "PUT", "/admin/tiers/GOLD", string(again), asJSON...); stored == nil ||
			planText(*stored) != planText(first) {
			t.Errorf("shown as %s it becomes %+v: %d %s", again, stored, rec.Code, rec.Body)
		}
	}, `{"priority":4,"maxRetries":3,"heartbeatTimeoutMs":3000,"maxProcessingTimeMs":10000,"share":50,`+
		`"backoff":{"baseMs":500,"factor":2,"capMs":30000,"jitter":0.2},"typeBackoff":{"PAIR":{"baseMs":0,"factor":1,`+
		`"capMs":0,"jitter":0}}}`,
		`{"priority":4,"maxRetries":3,"heartbeatTimeoutMs":3000,"maxProcessingTimeMs":10000,"share":50,`+
			`"backoff":{"baseMs":0,"factor":1,"capMs":0,"jitter":0}}`,
		`{"priority":1e3,"maxRetries":-1,"share":101}`, `{"backoff":{"baseMs":1e999}}`,
		`{"priority":4,"typeBackoff":{"x y":{"baseMs":1}}}`,
		`{}`, ``, `{"tier":"PAID"}`, `{"backoff":[]}`)
}

func planText(p job.Plan) string {
	text, _ := json.Marshal(planOf(p))
	return string(bytes.TrimSpace(text))
}
