package e2e

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// seedExample is a request from a seed document. excerpt names the file in testdata/seeds with the document's own
// bytes, which contain path and body as they are here. A body that the document only describes is marked
// described.
type seedExample struct {
	excerpt, method, path, body string

	described bool
	status    int
	code      string // the error code of a refusal
	open      bool   // only a server without keys has this address
	about     string // the job for {jobId} or {id} according to the document: "submitted", "dead", "waiting"
}

// seedExamples are the requests in the five documents, in order. The third seed (003) has none: it is an article
// about Java interfaces. A 201 in the first one is 202 here: docs/proof/SEEDS.md.
var seedExamples = []seedExample{
	{excerpt: "000-submit.txt", method: "POST", path: "/jobs", status: 202,
		body: `{"type": "EMAIL", "payload": {"to": "user@example.com", "subject": "Welcome"}}`},
	{excerpt: "000-get.txt", method: "GET", path: "/jobs/{jobId}", about: "submitted", status: 200},
	{excerpt: "000-dead.txt", method: "GET", path: "/jobs/dead?page=0&size=20", status: 200},
	{excerpt: "000-retry.txt", method: "POST", path: "/jobs/{jobId}/retry", about: "dead", status: 202},
	{excerpt: "000-health.txt", method: "GET", path: "/actuator/health", status: 200},

	// The flow chart's shorthand is not JSON: it has names without quotes and an ellipsis.
	{
		excerpt: "001-sketch.txt",
		method:  "POST",
		path:    "/jobs",
		body:    `{ type: "SEND_EMAIL", payload: {...} }`,
		status:  400,
		code:    "INVALID_REQUEST",
	},
	{excerpt: "001-endpoints.txt", method: "POST", path: "/jobs", status: 202,
		body: `{ "type": "SEND_EMAIL", "payload": { "to": "user@example.com", "subject": "...", "body": "..." } }`},
	{excerpt: "001-endpoints.txt", method: "GET", path: "/jobs/{id}", about: "submitted", status: 200},
	{
		excerpt: "001-endpoints.txt",
		method:  "GET",
		path:    "/admin/jobs?status=FAILED&type=SEND_EMAIL&limit=20",
		status:  200,
	},
	{excerpt: "001-endpoints.txt", method: "POST", path: "/admin/jobs/{id}/resubmit", about: "dead", status: 202},
	{excerpt: "001-endpoints.txt", method: "DELETE", path: "/admin/jobs/{id}", about: "waiting", status: 200},
	{excerpt: "001-health.txt", method: "GET", path: "/actuator/health", status: 200},

	{excerpt: "002-submit.txt", method: "POST", path: "/paid/submit", status: 202},
	{excerpt: "002-submit.txt", method: "POST", path: "/unpaid/submit", status: 202},
	{excerpt: "002-submit.txt", method: "POST", path: "/public/submit", status: 202},
	{excerpt: "002-poll.txt", method: "GET", path: "/result/poll?jobId={jobId}", about: "submitted", status: 200},
	{excerpt: "002-quickstart.txt", method: "POST", path: "/paid/submit", status: 202},
	{excerpt: "002-quickstart.txt", method: "GET", path: "/result/poll?jobId={jobId}", about: "submitted", status: 200},
	{excerpt: "002-pages.txt", method: "GET", path: "/", status: 200},
	{excerpt: "002-pages.txt", method: "GET", path: "/submit", status: 200},
	{excerpt: "002-pages.txt", method: "GET", path: "/poll", status: 200},
	{excerpt: "002-pages.txt", method: "GET", path: "/demo", status: 200, open: true},
	{excerpt: "002-pages.txt", method: "GET", path: "/about", status: 200},

	{excerpt: "004-submit.txt", method: "POST", path: "/api/jobs", status: 202, described: true,
		body: `{"jobType":"SIMULATION","payload":{"steps":[{"type":"SLEEP","durationMs":10},{"type":"LOG",` +
			`"message":"hi"}]},"maxRetryCount":5}`},
	{excerpt: "004-health.txt", method: "GET", path: "/actuator/health", status: 200},
}

// Every request in the seed documents, sent unchanged, is answered with the status in docs/proof/SEEDS.md.
func TestSeedExamples(t *testing.T) {
	t.Parallel()
	open := newEmbedded(t)
	open.start()
	houses(t, func(t *testing.T, h house) {
		for _, x := range seedExamples {
			t.Run(strings.TrimSuffix(x.excerpt, ".txt")+" "+x.method+" "+x.path, func(t *testing.T) {
				x.isInItsDocument(t)
				id := h.seedJob(t, x.about)
				path := strings.NewReplacer("{jobId}", id, "{id}", id).Replace(x.path)
				var a answer
				testkit.Eventually(t, 10*time.Second, "both stores have the job's end", func() (bool, string) {
					if a = h.as(theAdmin, x.method, path, x.body); x.open {
						a = do(t, x.method, open.server.base+path, x.body)
					}
					return !strings.Contains(string(a.body), "try again in a moment"), string(a.body)
				})
				if a.status != x.status || a.code() != x.code {
					t.Errorf("%d %s, want %d %s; %s", a.status, a.code(), x.status, x.code, a.body)
				}
			})
		}
	})
}

// isInItsDocument checks that the document's bytes contain the example.
func (x *seedExample) isInItsDocument(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "seeds", x.excerpt))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(text, []byte(x.path)) || !x.described && !bytes.Contains(text, []byte(x.body)) {
		t.Fatalf("not in %s: %s %s", x.excerpt, x.path, x.body)
	}
}

// seedJob makes the job that an example needs, and returns its id; "" for an example without a job.
func (h house) seedJob(t *testing.T, about string) string {
	t.Helper()
	const mail = `"type":"SEND_EMAIL","payload":{"to":"user@example.com","subject":"s","body":"b"}`
	made := func(tier, body string) string {
		a := h.as(theAdmin, http.MethodPost, "/"+tier+"/submit", body)
		if a.status != http.StatusAccepted {
			t.Fatalf("%d %s", a.status, a.body)
		}
		return accepted(t, a)
	}
	switch about {
	case "submitted":
		return made("paid", `{`+mail+`}`)
	case "waiting":
		return made("paid", `{`+mail+`,"delaySeconds":3600}`)
	case "dead":
		id := made("public", `{"payload":{"steps":[{"type":"FAIL","message":"boom"}]},"maxRetries":0}`)
		testkit.Eventually(t, 20*time.Second, id+" is a dead letter", func() (bool, string) {
			a := h.as(theAdmin, http.MethodGet, "/jobs/dead", "")
			return strings.Contains(string(a.body), id), string(a.body)
		})
		return id
	}
	return ""
}
