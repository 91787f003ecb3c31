package testkit

import (
	"net/http"
	"testing"
	"testing/synctest"
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
		known   int // from which time on that it is asked for the lost job is there; 0 = never
		want    string
	}{
		{"at once", []answer{{http.StatusAccepted, taken}}, 0, "taken"},
		{
			"refused before", []answer{{http.StatusServiceUnavailable, "{}"}, {http.StatusAccepted, taken}},
			0, "taken",
		},
		{"lost, and there", []answer{{http.StatusGatewayTimeout, lost}}, 1, "lost"},
		{"lost, and there later", []answer{{http.StatusGatewayTimeout, lost}}, 9, "lost"},
		{
			"lost, and not there", []answer{{http.StatusGatewayTimeout, lost}, {http.StatusAccepted, taken}},
			0, "taken",
		},
		{"an error", []answer{{http.StatusBadRequest, "{}"}}, 0, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls, asked, got := 0, 0, ""
				r := runRed(t, func(t testing.TB) {
					got = Accepted(t, func() (int, []byte) {
						a := tc.answers[calls]
						calls++
						return a.status, []byte(a.body)
					}, func(id string) bool {
						asked++
						return tc.known > 0 && asked >= tc.known && id == "lost"
					})
				})
				if got != tc.want || r.failed != (tc.want == "") || calls != len(tc.answers) {
					t.Errorf("%q, failed %t after %d calls", got, r.failed, calls)
				}
			})
		})
	}
}
