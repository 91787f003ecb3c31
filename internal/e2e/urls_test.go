package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// A read-only key sees the host that the server calls, but not the path and the query, which may be secret. This
// holds for jobs, polls, streams, lists, exports and pages, with any TIERQ_REDACT. The submitter and an admin see
// the whole URL.
func TestReadOnlyKeysSeeOrigins(t *testing.T) {
	t.Attr("proves", "A11")
	t.Parallel()
	const token = "t0ken-5e1f"
	r := newReceiver(t, func(w http.ResponseWriter, c call, _ int) {
		switch {
		case strings.HasPrefix(c.path, "/gone"):
			w.WriteHeader(http.StatusGone)
		case c.method == http.MethodGet:
			w.WriteHeader(http.StatusNotFound)
		}
	})
	for name, redact := range map[string]string{"by default": "", "with nothing hidden": "none"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := guarded(t, "TIERQ_REDACT="+redact)
			reader := s.makeKey(theAdmin, http.MethodPost, "/admin/keys", `{"name":"eyes","role":"read-only"}`)
			owner := s.makeKey(theAdmin, http.MethodPost, "/admin/keys", submitKey)
			fine, gone := r.URL+"/fine/"+token, r.URL+"/gone/"+token
			whole := map[string]bool{}
			for _, body := range []string{
				fmt.Sprintf(`{"type":"SEND_WEBHOOK","payload":{"url":"%s?key=%s"},"callbackUrl":"%[1]s?key=%[2]s"}`,
					fine, token),
				fmt.Sprintf(`{"type":"SEND_WEBHOOK","payload":{"url":%q}}`, gone),
				fmt.Sprintf(
					`{"type":"FORWARD_DOCUMENT","payload":{"documentId":"1","contentType":"text/plain","body":"","endpoints":[%q]}}`,
					fine,
				),
				fmt.Sprintf(
					`{"type":"FORWARD_DOCUMENT","payload":{"documentId":"1","contentType":"text/plain","body":"","endpoints":[%q]},`+
						`"callbackUrl":%q}`,
					gone, gone,
				),
				fmt.Sprintf(`{"callbackUrl":%q,"delaySeconds":3600}`, fine),
			} {
				id := accepted(t, s.asks(owner.Key, http.MethodPost, "/public/submit", body))
				if !strings.Contains(body, "delaySeconds") {
					end := s.asks(theAdmin, http.MethodGet, "/result/poll?jobId="+id+"&wait=8s", "")
					if !strings.Contains(string(end.body), `"completedAt":"`) {
						t.Fatalf("it has not ended: %s", end.body)
					}
				}
				whole[id] = true
			}
			all := string(s.asks(theAdmin, http.MethodGet, "/admin/jobs?limit=100", "").body)
			for _, id := range anID.FindAllString(all, -1) { // also those of the callbacks' jobs
				whole[id] = true
			}
			paths := []string{"/admin/jobs?limit=100", "/api/jobs?limit=100", "/jobs/dead", "/admin/dead",
				"/admin/dead/export", "/admin/audit", "/dashboard", "/dashboard/jobs"}
			for id := range whole {
				paths = append(paths, "/jobs/"+id, "/api/jobs/"+id, "/result/poll?jobId="+id, "/api/jobs/"+id+"/why",
					"/poll?jobId="+id)
			}
			seen, origins := 0, 0
			for _, path := range paths {
				a := s.asks(reader.Key, http.MethodGet, path, "")
				if strings.Contains(string(a.body), token) {
					t.Errorf("%s shows a read-only key the whole address: %s", path, a.body)
				}
				origins += strings.Count(string(a.body), strings.TrimPrefix(r.URL, "http://"))
				if strings.Contains(string(s.asks(theAdmin, http.MethodGet, path, "").body), token) {
					seen++
				}
			}
			if seen < 10 || origins < 10 {
				t.Errorf("an admin sees the addresses at %d places, a read-only key their hosts at %d", seen, origins)
			}
			if events := endedStreams(t, s, reader.Key, whole); strings.Contains(events, token) ||
				!strings.Contains(events, "SEND_WEBHOOK") {
				t.Errorf("streams: %s", events)
			}
		})
	}
}

// endedStreams returns the text of the streams of ended jobs.
func endedStreams(t *testing.T, s *server, key string, ids map[string]bool) string {
	t.Helper()
	var all strings.Builder
	for id := range ids {
		poll := string(s.asks(key, http.MethodGet, "/result/poll?jobId="+id, "").body)
		if !strings.Contains(poll, `"COMPLETED"`) && !strings.Contains(poll, `"FAILED"`) {
			continue // its stream would not end
		}
		all.Write(s.asks(key, http.MethodGet, "/api/jobs/"+id+"/events", "").body)
	}
	return all.String()
}
