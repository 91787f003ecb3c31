package testkit

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"
)

// late is how long a busy machine may take to carry out a submit whose answer was lost.
const late = 5 * time.Second

// Accepted makes a submit that the server must accept, and returns the job's id. On a machine that stood still for
// a moment, the server may refuse the submit (503): Accepted repeats it. Or the server may not know the outcome
// (504): Accepted then asks known for some seconds whether the job exists, and repeats the submit if it does not.
func Accepted(t testing.TB, submit func() (status int, body []byte), known func(id string) bool) (id string) {
	t.Helper()
	Eventually(t, 20*time.Second, "a submit is accepted", func() (bool, string) {
		status, body := submit()
		var said struct {
			JobID string                 `json:"jobId"`
			Data  struct{ JobID string } `json:"apiResponseData"`
		}
		_ = json.Unmarshal(body, &said) // what is not JSON names no job
		text := fmt.Sprintf("%d %s", status, body)
		switch {
		case status == http.StatusAccepted && said.Data.JobID != "":
			id = said.Data.JobID
			return true, ""
		case status == http.StatusGatewayTimeout && said.JobID != "":
			id = said.JobID
			for asked := time.Now(); time.Since(asked) < late; <-time.After(100 * time.Millisecond) {
				if known(id) {
					return true, ""
				}
			}
		case status != http.StatusServiceUnavailable:
			t.Fatalf("submit: %s", text)
		}
		return false, text
	})
	return id
}
