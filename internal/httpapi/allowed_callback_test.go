package httpapi

import (
	"maps"
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/job"
)

// A callbackUrl makes a job of the type CALLBACK. A key that is bound to types may name a callbackUrl only if CALLBACK
// is among them, in every kind of submit and in a retry. Nothing changes for other keys.
func TestAllowed_CallbackURL(t *testing.T) {
	t.Attr("proves", "A26")
	t.Parallel()
	ways := map[string]string{
		"/public/submit": `{"type":"PAIR","payload":{"A":1},"callbackUrl":"https://x.example/"}`,
		"/jobs":          `{"type":"PAIR","payload":{"A":1},"tier":"PUBLIC","callbackUrl":"https://x.example/"}`,
		"/api/jobs":      `{"jobType":"PAIR","payload":{"A":1},"tier":"PUBLIC","callbackUrl":"https://x.example/"}`,
	}
	bound := func(kind string, types ...string) job.Caller {
		caller := callers[kind]
		caller.Key.Types = types
		return caller
	}
	all := maps.Clone(callers)
	all["a bound key"], all["a bound admin"] = bound("submit", "PAIR"), bound("admin", "PAIR")
	all["a bound key with CALLBACK"] = bound("submit", "PAIR", "CALLBACK")
	all["a bound stranger"], all["a bound stranger with CALLBACK"] = bound("anonymous", "PAIR"), bound("anonymous",
		"PAIR", "CALLBACK")
	for kind, want := range map[string][2]int{ // statuses at the tier's address and at the others
		"stranger": {401, 401}, "anonymous": {202, 401}, "submit": {202, 202}, "read-only": {403, 403}, "admin": {202,
			202},
		"worker": {403, 403}, "open": {202, 202}, "a bound key": {403, 403}, "a bound admin": {403, 403},
		"a bound key with CALLBACK": {202, 202}, "a bound stranger": {403, 401}, "a bound stranger with CALLBACK": {202,
			401},
	} {
		others := want[1]
		for path, body := range ways {
			want := want[0]
			if path != "/public/submit" {
				want = others
			}
			r := newRooms(t)
			r.behind(all[kind])
			rec := r.json("POST", path, body)
			if rec.Code != want || (len(r.submitted) == 1) != (want == 202) {
				t.Errorf("%s, %s: %d, want %d: %s", path, kind, rec.Code, want, rec.Body)
			}
			if strings.HasPrefix(kind, "a bound") && rec.Code == 403 && !strings.Contains(rec.Body.String(),
				"not set callbackUrl") {
				t.Errorf("%s, %s: it does not say why: %s", path, kind, rec.Body)
			}
		}
	}
}

// The rule of TestAllowed_CallbackURL holds for each entry of a batch, and for requeueing a dead letter with a
// callbackUrl.
func TestAllowed_CallbackURLElsewhere(t *testing.T) {
	t.Attr("proves", "A26")
	t.Parallel()
	r := newRooms(t)
	r.behind(publicPair)
	rec := r.json("POST", "/public/submit/batch",
		`[{"type":"PAIR","payload":{"A":1}},{"type":"PAIR","payload":{"A":1},"callbackUrl":"https://x.example/"}]`)
	if rec.Code != 202 || len(r.submitted) != 1 || strings.Count(rec.Body.String(), `"errorCode":"FORBIDDEN"`) != 1 {
		t.Errorf("%d %s, submitted %v", rec.Code, rec.Body, r.submitted)
	}
	for types, want := range map[string]int{"PAIR": 403, "PAIR CALLBACK": 202, "": 202} {
		for url, want := range map[string]int{"": 202, "https://x.example/": want} {
			r, _ := owned(t, mine)
			dead := job.Job{ID: knownID, Type: "PAIR", Tier: job.Public, Owner: mine, Status: job.Failed}
			dead.CallbackURL = url
			r.find = func(job.ID) (job.Job, error) { return dead, nil }
			asked := 0
			r.requeue = func(job.ID, string) error { asked++; return nil }
			caller := publicPair
			caller.Key.Types = strings.Fields(types)
			r.behind(caller)
			if rec := r.do("POST", "/jobs/"+string(knownID)+"/retry", ""); rec.Code != want ||
				(asked == 1) != (want == 202) {
				t.Errorf("types %q, %q: %d, want %d: %s", types, url, rec.Code, want, rec.Body)
			}
		}
	}
}
