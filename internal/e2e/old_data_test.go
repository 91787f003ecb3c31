package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tierq "github.com/tierq/tierq/client"
	"github.com/tierq/tierq/internal/testkit"
)

// oldFacts describes the data of an earlier build in a folder of testdata/old. Beside it are commands.resp (the
// data of Redis) and rows.sql (the rows of SQL). `go test -tags=olddata -run TestMakeOldData` writes such a
// folder.
type oldFacts struct {
	Commit    string            `json:"commit"`
	Schema    int64             `json:"schema"` // the last migration of the build
	Admin     string            `json:"admin"`
	Submitter string            `json:"submitter"`
	Read      string            `json:"read"`
	Jobs      map[string]oldJob `json:"jobs"`
}

// oldJob is a job as the earlier build left it, and its expected end.
type oldJob struct {
	ID         string `json:"id"`
	Left       string `json:"left"`       // its state in the old data, in words
	Status     string `json:"status"`     // at its end
	Generation int    `json:"generation"` // at its end
	Called     int    `json:"called"`     // callbacks that are still to be sent
}

// oldReceiver is the address in each callbackUrl of the data. The test replaces it by its own receiver's address,
// which has the same length.
const oldReceiver = "127.0.0.1:15990"

// oldSettings are the settings of the earlier build, which has one secret for all webhooks.
var oldSettings = append(outward[:2:2], "TIERQ_JOURNAL=on")

// This build takes over what an earlier build's processes left in SQL: keys, a webhook secret, jobs that wait, that a
// killed worker held, or that ended without a row, promised requeues, and unsent callbacks. It completes each of them
// once. The earlier build's Redis has another layout of its keys (schemaVersion 1): this build refuses to start on it
// and changes nothing in it. It starts once an operator has emptied Redis, because the journal has the living jobs. The
// same rows in an embedded server's file, whose Redis is always empty at the start, need no operator.
func TestOldData(t *testing.T) {
	t.Attr("proves", "F60")
	t.Parallel()
	folders, err := filepath.Glob("testdata/old/*")
	if err != nil || len(folders) == 0 {
		t.Fatal("no data of an earlier build", err)
	}
	for _, folder := range folders {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			t.Parallel()
			paysOldDebts(t, folder, onOldStores)
		})
		t.Run(filepath.Base(folder)+", embedded", func(t *testing.T) {
			t.Parallel()
			paysOldDebts(t, folder, onOldFile)
		})
	}
}

func paysOldDebts(
	t *testing.T, folder string, open func(t *testing.T, folder, receiver string, facts oldFacts) oldHouse,
) {
	text, err := os.ReadFile(filepath.Join(folder, "facts.json"))
	if err != nil {
		t.Fatal(err)
	}
	var facts oldFacts
	if err := json.Unmarshal(text, &facts); err != nil {
		t.Fatal(err)
	}
	r := newReceiver(t, nil)
	s := open(t, folder, strings.TrimPrefix(r.URL, "http://"), facts)
	row := func(query string, into ...any) {
		if err := s.db.QueryRowContext(t.Context(), query).Scan(into...); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
	}

	for name, j := range facts.Jobs {
		testkit.Eventually(t, 60*time.Second, name+" is "+j.Status, func() (bool, string) {
			a := s.asks(facts.Submitter, http.MethodGet, "/result/poll?jobId="+j.ID, "")
			return a.status == http.StatusOK && strings.Contains(string(a.body), `"`+j.Status+`"`), string(a.body)
		})
	}
	paid := "every callback is sent, and every row of the journal is gone"
	testkit.Eventually(t, 60*time.Second, paid, func() (bool, string) {
		want, rows := 0, 0
		for _, j := range facts.Jobs {
			want += j.Called
		}
		row("SELECT COUNT(*) FROM accepted_jobs", &rows)
		heard := len(r.heard())
		return heard >= want && rows == 0, fmt.Sprintf("%d callbacks of %d, %d rows", heard, want, rows)
	})
	s.auditsOldData(facts)
	s.quiet()

	v, err := tierq.NewWebhookVerifier(secret)
	if err != nil {
		t.Fatal(err)
	}
	for name, j := range facts.Jobs {
		calls := r.of(http.MethodPost, "/"+name)
		if len(calls) != j.Called {
			t.Errorf("%s: %d callbacks, want %d", name, len(calls), j.Called)
		}
		for _, one := range calls {
			if told, err := v.JobEnded(one.header, one.body); err != nil || told.Data.JobID != j.ID {
				t.Errorf("%s: a callback of %s, %v: %s", name, told.Data.JobID, err, one.body)
			}
		}
		var outcomes, newest int
		row("SELECT COUNT(*), COALESCE(MAX(generation), 0) FROM "+endings+" WHERE job_id = '"+j.ID+"'",
			&outcomes, &newest)
		if outcomes != j.Generation || newest != j.Generation {
			t.Errorf("%s: %d outcomes up to generation %d, want %d", name, outcomes, newest, j.Generation)
		}
	}
	for _, tc := range []struct {
		key, method, path string
		status            int
	}{
		{facts.Submitter, http.MethodPost, "/paid/submit", http.StatusAccepted},
		{facts.Submitter, http.MethodGet, "/admin/keys", http.StatusForbidden},
		{facts.Read, http.MethodPost, "/paid/submit", http.StatusForbidden},
		{facts.Read, http.MethodGet, "/admin/dead", http.StatusOK},
		{facts.Admin, http.MethodGet, "/admin/keys", http.StatusOK},
		{"", http.MethodPost, "/paid/submit", http.StatusUnauthorized},
	} {
		body := map[string]string{http.MethodPost: "{}"}[tc.method]
		if a := s.asks(tc.key, tc.method, tc.path, body); a.status != tc.status {
			t.Errorf("%s %s with %.12s: %d %s", tc.method, tc.path, tc.key, a.status, a.body)
		}
	}
}

// auditsOldData runs the server's audit twice. An earlier build may not have counted the bytes of living jobs: the
// first audit repairs that, and finds nothing else to repair.
func (s *server) auditsOldData(facts oldFacts) {
	s.t.Helper()
	var all struct {
		Report struct {
			Whole    bool
			Findings []struct{ Kind, Detail string }
		}
	}
	for look := range 2 {
		a := s.asks(facts.Admin, http.MethodPost, "/admin/consistency", "")
		if err := json.Unmarshal(a.body, &all); err != nil || a.status != http.StatusOK || !all.Report.Whole {
			s.t.Fatalf("the audit: %d %s", a.status, a.body)
		}
		for _, f := range all.Report.Findings {
			if look > 0 || f.Kind != "counter" || !strings.Contains(f.Detail, "bytes") {
				s.t.Errorf("the audit's look %d: %s %s", look+1, f.Kind, f.Detail)
			}
		}
	}
}
