package e2e

import (
	"strings"
	"testing"
)

// A flow meets the limit of a declared queue as submits do: a job that waits for others counts as a delayed one, the
// others as if they came now, and a refused flow leaves nothing behind.
func TestFlowQueueLimit(t *testing.T) {
	t.Attr("proves", "A68")
	t.Parallel()
	e := newEmbedded(t)
	e.start()
	base := e.server.base
	if a := do(t, "PUT", base+"/admin/queues/tiny", `{"limit":2}`); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if a := do(t, "POST", base+"/paid/submit", `{"type":"X","queue":"tiny"}`); a.status != 202 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	const one = `{"type":"X","queue":"tiny"`
	for what, jobs := range map[string]string{
		"two jobs beside one in a queue of two": `"a":` + one + `},"b":` + one + `}`,
		"three that wait": `"a":{"type":"SIMULATION"},"b":` + one + `,"after":["a"]},"c":` + one + `,"after":["a"]},"d":` +
			one + `,"after":["a"]}`,
	} {
		a := do(t, "POST", base+"/api/flows", `{"jobs":{`+jobs+`}}`)
		if a.status != 503 || !strings.Contains(string(a.body), "QUEUE_FULL") {
			t.Errorf("%s: %d %s", what, a.status, a.body)
		}
	}
	if a := do(t, "GET", base+"/api/flows", ""); a.status != 200 || !strings.Contains(string(a.body), `"items":[]`) {
		t.Errorf("the list of flows: %d %s", a.status, a.body)
	}
	if a := do(t, "POST", base+"/api/flows", `{"jobs":{"a":`+one+`},"b":{"type":"SIMULATION"},"c":`+one+
		`,"after":["a"]},"d":`+one+`,"after":["a"]}}}`); a.status != 201 {
		t.Errorf("one job beside one, and two that wait: %d %s", a.status, a.body)
	}
}
