package testkit

import (
	"net/http"
	"testing"
)

// Accepted repeats a refused submit, and a submit with an unknown outcome whose job does not exist. Any other
// answer ends the test.
func TestAccepted(t *testing.T) {
	const taken, lost = `{"apiResponseData":{"jobId":"taken"}}`, `{"jobId":"lost"}`
	type answer struct {
		status int
		body   string
	}
	for _, tc := range []struct {
		name    string
		answers []answer
		known   bool
		want    string
	}{
		{"at once", []answer{{http.StatusAccepted, taken}}, false, "taken"},
		{
			"refused before", []answer{{http.StatusServiceUnavailable, "{}"}, {http.StatusAccepted, taken}},
			false, "taken",
		},
		{"lost, and there", []answer{{http.StatusGatewayTimeout, lost}}, true, "lost"},
		{
			"lost, and not there", []answer{{http.StatusGatewayTimeout, lost}, {http.StatusAccepted, taken}},
			false, "taken",
		},
		{"an error", []answer{{http.StatusBadRequest, "{}"}}, false, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			calls, got := 0, ""
			r := runRed(t, func(t testing.TB) {
				got = Accepted(t, func() (int, []byte) {
					a := tc.answers[calls]
					calls++
					return a.status, []byte(a.body)
				}, func(id string) bool { return tc.known && id == "lost" })
			})
			if got != tc.want || r.failed != (tc.want == "") || calls != len(tc.answers) {
				t.Errorf("%q, failed %t after %d calls", got, r.failed, calls)
			}
		})
	}
}
