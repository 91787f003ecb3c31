package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// row is a job in a list.
type row struct {
	JobID, ID, Type, Tier, Status string
	FailureCause                  *string
}

// list reads a list to its end, in pages of 7.
func (s *server) list(path, filter string) (all []row) {
	s.t.Helper()
	cursor := ""
	for range 100 {
		p := get[struct {
			Items []row
			Next  *string
		}](s.t, s.base+path+"?limit=7"+filter+cursor)
		if len(p.Items) > 7 {
			s.t.Fatalf("a page of %d", len(p.Items))
		}
		all = append(all, p.Items...)
		if p.Next == nil {
			return all
		}
		cursor = "&cursor=" + *p.Next
	}
	s.t.Fatal("the list has no end")
	return nil
}

// A list of living and archived jobs has each of them once, from every server. A filter accepts the words of all
// seeds.
func TestLists(t *testing.T) {
	t.Attr("proves", "S1-E3 S4-E2 S0-E3")
	t.Parallel()
	c := newCluster(t)
	api := c.start("TIERQ_ROLES=api,recovery")
	worker := c.start("TIERQ_ROLES=worker")
	want := map[string]string{} // by id: status and tier
	kind := func(status, tier, body string, n int) (ids []string) {
		for range n {
			id := api.submit(tier, body)
			want[id] = status + " " + strings.ToUpper(tier)
			ids = append(ids, id)
		}
		return ids
	}
	ended := kind("COMPLETED", "paid", `{}`, 9)
	ended = append(ended, kind("COMPLETED", "unpaid",
		`{"type":"SEND_EMAIL","payload":{"to":"a@example.com","subject":"x","body":"y"}}`, 8)...)
	dead := kind("FAILED", "public", `{"payload":{"steps":[{"type":"FAIL","message":"boom"}]},"maxRetries":0}`, 10)
	cancelled := kind("CANCELLED", "paid", `{"delaySeconds":3600}`, 3)
	for _, id := range cancelled {
		wants(t, do(t, http.MethodDelete, api.base+"/admin/jobs/"+id, ""), http.StatusOK, "")
	}
	ended = append(append(ended, dead...), cancelled...)
	c.settled(20*time.Second, ended...)
	c.forget(ended[0]) // only SQL has this one
	if code, _ := worker.terminate(20 * time.Second); code != 0 {
		t.Fatalf("exit %d", code)
	}
	kind("PENDING", "public", `{}`, 9)
	kind("SCHEDULED", "paid", `{"delaySeconds":3600}`, 8)

	for _, tc := range []struct {
		path, filter string
		takes        func(status, tier, typ string) bool
	}{
		{"/admin/jobs", "", func(string, string, string) bool { return true }},
		{"/api/jobs", "", func(string, string, string) bool { return true }},
		{"/admin/jobs", "&status=DONE", func(s, _, _ string) bool { return s == "COMPLETED" }},
		{"/admin/jobs", "&status=SUCCESS&type=SEND_EMAIL",
			func(s, _, typ string) bool { return s == "COMPLETED" && typ == "SEND_EMAIL" }},
		{"/admin/jobs", "&status=DEAD", func(s, _, _ string) bool { return s == "FAILED" }},
		{"/admin/jobs", "&status=FAILED&cause=HANDLER_ERROR&tier=PUBLIC", func(s, _, _ string) bool { return s == "FAILED" }},
		{"/admin/jobs", "&status=FAILED&cause=MAX_TIME_EXCEEDED", func(string, string, string) bool { return false }},
		{"/admin/jobs", "&status=RUNNING", func(string, string, string) bool { return false }},
		{"/admin/jobs", "&status=PENDING", func(s, _, _ string) bool { return s == "PENDING" }},
		{"/admin/jobs", "&status=SCHEDULED", func(s, _, _ string) bool { return s == "SCHEDULED" }},
		{"/admin/jobs", "&status=CANCELLED", func(s, _, _ string) bool { return s == "CANCELLED" }},
		{"/api/jobs", "&tier=paid", func(_, tier, _ string) bool { return tier == "PAID" }},
		{"/admin/dead", "", func(s, _, _ string) bool { return s == "FAILED" }},
		{"/admin/dead", "&tier=PAID", func(string, string, string) bool { return false }},
	} {
		seen := map[string]bool{}
		for _, r := range api.list(tc.path, tc.filter) {
			if seen[r.ID] || r.ID != r.JobID {
				t.Errorf("%s%s: %s is there twice", tc.path, tc.filter, r.ID)
			}
			seen[r.ID] = true
			if want[r.ID] != r.Status+" "+r.Tier || !tc.takes(r.Status, r.Tier, r.Type) {
				t.Errorf("%s%s: %+v, want %s", tc.path, tc.filter, r, want[r.ID])
			}
		}
		missing := 0
		for id, w := range want {
			status, tier, _ := strings.Cut(w, " ")
			typ := "SIMULATION"
			if w == "COMPLETED UNPAID" {
				typ = "SEND_EMAIL"
			}
			if tc.takes(status, tier, typ) && !seen[id] {
				missing++
			}
		}
		if missing > 0 {
			t.Errorf("%s%s lacks %d jobs", tc.path, tc.filter, missing)
		}
	}
	wants(t, do(t, http.MethodGet, api.base+"/admin/jobs?cursor=bm9uZQ", ""), http.StatusBadRequest, "INVALID_REQUEST")

	paged := map[string]bool{}
	for page := range 4 {
		p := get[struct {
			Items             []row
			Page, Size, Total int
		}](t, fmt.Sprintf("%s/jobs/dead?page=%d&size=4", api.base, page))
		if p.Total != 10 || p.Page != page || p.Size != 4 || len(p.Items) != min(4, max(0, 10-4*page)) {
			t.Errorf("page %d: %+v", page, p)
		}
		for _, r := range p.Items {
			paged[r.ID] = true
		}
	}
	for _, id := range dead {
		if !paged[id] {
			t.Errorf("no page has %s", id)
		}
	}
}

// Two operators requeue 250 dead letters of one cause at once; those of another cause stay. Each is requeued once,
// and a dry run requeues none.
func TestBulkRequeue(t *testing.T) {
	t.Attr("proves", "S0-E4 S1-E4")
	t.Parallel()
	c := newCluster(t)
	r := newReceiver(t, func(w http.ResponseWriter, _ call, _ int) { w.WriteHeader(http.StatusGone) })
	servers := []*server{c.start(outward...), c.start(outward...)}
	s := servers[0]
	entries := make([]string, 250)
	for i := range entries {
		entries[i] = `{"payload":{"steps":[{"type":"FAIL","message":"boom"}]},"maxRetries":0}`
	}
	answers, _ := s.batch("public", "application/json", entries)
	var ids []string
	for _, e := range answers {
		ids = append(ids, e.JobID)
	}
	bystander := s.submit("public", fmt.Sprintf(`{"type":"SEND_WEBHOOK","payload":{"url":%q}}`, r.URL+"/"))
	c.settled(30*time.Second, append(ids, bystander)...)
	before := time.Now().Add(time.Second).UTC() // a job that dies again is not requeued again
	testkit.Eventually(t, 3*time.Second, "a second has passed",
		func() (bool, string) { return time.Now().After(before), "" })

	requeue := func(s *server, dry bool) (n struct{ Matched, Requeued int }) {
		a := do(t, http.MethodPost, s.base+"/admin/dead/requeue",
			fmt.Sprintf(`{"cause":"HANDLER_ERROR","tier":"PUBLIC","before":%q,"limit":1000,"dryRun":%v}`,
				before.Format(time.RFC3339Nano), dry))
		if err := json.Unmarshal(a.body, &n); err != nil || a.status != http.StatusOK {
			t.Errorf("%d %s", a.status, a.body)
		}
		return n
	}
	if n := requeue(s, true); n.Matched != 250 || n.Requeued != 0 {
		t.Errorf("dry run: %+v", n)
	}
	var marked int
	c.row(`SELECT COUNT(*) FROM failed_jobs WHERE requeue_requested_at IS NOT NULL`, &marked)
	if marked != 0 {
		t.Errorf("the dry run marked %d", marked)
	}
	var brought [2]int
	var all sync.WaitGroup
	for i, s := range servers {
		all.Go(func() { brought[i] = requeue(s, false).Requeued })
	}
	all.Wait()
	t.Logf("brought back: %v", brought)
	if brought[0]+brought[1] != 250 {
		t.Errorf("brought back: %v", brought)
	}
	c.counts(250, `SELECT COUNT(*) FROM `+endings+` WHERE generation = 2`)
	c.quiet(20 * time.Second)
	c.counts(501, `SELECT COUNT(*) FROM `+endings)
	c.counts(250, `SELECT COUNT(*) FROM failed_jobs WHERE generation = 1 AND requeued_at IS NOT NULL`)
	c.counts(250, `SELECT COUNT(*) FROM failed_jobs WHERE generation = 2 AND requeue_requested_at IS NULL AND `+
		`requeued_at IS NULL`)
	c.counts(1, `SELECT COUNT(*) FROM failed_jobs WHERE job_id = '`+bystander+
		`' AND requeue_requested_at IS NULL AND requeued_at IS NULL`)
	if j := s.job(ids[7]); j.Generation != 2 || j.Attempts != 2 || len(j.History) != 2 {
		t.Errorf("%+v", j)
	}
}
