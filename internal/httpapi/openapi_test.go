package httpapi

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/tierq/tierq/internal/contract"
)

// described returns docs/openapi.yaml without its schemas of the built-in job types: these tests have their own
// types.
var described = sync.OnceValues(func() (*contract.Contract, error) { return contract.Load(contract.ByType()...) })

// hold serves one request and fails the test if docs/openapi.yaml contradicts the answer. It checks nothing for
// handlers of other rooms, for addresses that a test adds, and for the answer to a client that has left.
func (r *rooms) hold(req *http.Request, sent string) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	r.ServeHTTP(rec, req)
	if _, ours := r.Handler.(*gin.Engine); !ours || len(r.deps.Extra)+len(r.deps.Pages) > 0 || r.deps.Live != nil ||
		rec.Code == gone {
		return rec
	}
	if err := contradiction(req, sent, rec); err != nil {
		r.tb.Errorf("docs/openapi.yaml: %v", err)
	}
	return rec
}

func contradiction(req *http.Request, sent string, rec *httptest.ResponseRecorder) error {
	c, err := described()
	if err != nil {
		return err
	}
	return c.Check(contract.Call{Request: req, Sent: []byte(sent), Status: rec.Code, Header: rec.Header(),
		Body: rec.Body.Bytes()})
}

// failures is a testing.TB that records the errors reported to it.
type failures struct {
	testing.TB
	said []string
}

func (f *failures) Errorf(format string, args ...any) {
	f.said = append(f.said, fmt.Sprintf(format, args...))
}

// An answer that docs/openapi.yaml does not describe fails the test that received it.
func TestOpenAPI_AWrongAnswerFails(t *testing.T) {
	r := newRooms(t)
	f := &failures{TB: t}
	r.tb = f
	r.do("POST", "/paid/submit", "")
	if f.said != nil {
		t.Fatalf("a right one failed: %q", f.said)
	}
	r.Handler.(*gin.Engine).GET("/secret", func(c *gin.Context) { c.String(200, "hunter2") })
	r.do("GET", "/secret", "")
	r.health.Status = "SLEEPY"
	r.do("GET", "/actuator/health", "")
	if len(f.said) != 2 || !strings.Contains(f.said[0], "not in the description, and not 404") ||
		!strings.Contains(f.said[1], "SLEEPY") {
		t.Errorf("said %q", f.said)
	}
}

// docs/openapi.yaml lists exactly the methods of the addresses that are served.
func TestOpenAPI_ListsTheRoutes(t *testing.T) {
	c, err := described()
	if err != nil {
		t.Fatal(err)
	}
	var served, listed []string
	for _, r := range Routes() {
		path := strings.NewReplacer(":tier", "{tier}", ":id", "{id}", ":name", "{name}", ":scope", "{scope}").Replace(r.Path)
		served = append(served, r.Method+" "+path)
	}
	for _, o := range c.Operations() {
		if !o.Elsewhere {
			listed = append(listed, o.Method+" "+o.Path)
		}
	}
	slices.Sort(served)
	slices.Sort(listed)
	for _, s := range served {
		if !slices.Contains(listed, s) {
			t.Errorf("%s is served and not in the description", s)
		}
	}
	for _, l := range listed {
		if !slices.Contains(served, l) {
			t.Errorf("%s is in the description and not served", l)
		}
	}
	if len(served) < 40 {
		t.Errorf("only %d routes", len(served))
	}
}

// The engine serves no address that is not listed.
func TestOpenAPI_TheEngineHasTheListedRoutes(t *testing.T) {
	listed := map[string]bool{}
	for _, r := range Routes() {
		listed[r.Method+" "+r.Path] = true
	}
	for _, r := range newRooms(t).Handler.(*gin.Engine).Routes() {
		if !listed[r.Method+" "+r.Path] {
			t.Errorf("%s %s is served and not listed", r.Method, r.Path)
		}
	}
}

// The error codes in docs/openapi.yaml are those of the error table, with the same statuses.
func TestOpenAPI_ErrorCodes(t *testing.T) {
	c, err := described()
	if err != nil {
		t.Fatal(err)
	}
	kinds := []*kind{
		invalidRequest, unauthorized, forbidden, jobNotFound, unknownTier, unknownQueue, unknownQueueAsked,
		notFound, methodNotAllowed, wrongState, leaseLost, queueInUse, needsAdmin, noGateway, uniqueTaken,
		changed, payloadTooLarge, unsupportedMedia, invalidPayload,
		unknownJobType, keyMismatch, rateLimited, internalError, systemUnhealthy, queueFull, outcomeUnknown, changeUnknown,
		badScope, submitsPaused, scheduleState, noSuchSchedule,
		noSuchBatch, batchSealed,
	}
	source, err := os.ReadFile("errors.go")
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(source, []byte("= &kind{")); n != len(kinds) {
		t.Errorf("errors.go has %d kinds, this test knows %d", n, len(kinds))
	}
	want := map[string]int{}
	for _, k := range kinds {
		want[k.code] = k.status
	}
	got := c.ErrorCodes()
	for code, status := range want {
		if got[code] != status {
			t.Errorf("%s: %d in the description, %d in the table", code, got[code], status)
		}
	}
	for code := range got {
		if want[code] == 0 {
			t.Errorf("%s is in the description and not in the table", code)
		}
	}
}
