package testkit

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"
)

// Accepted makes a submit that must be accepted, and returns the job's id. Where the machine stood still for a moment
// the server may refuse the submit (503), which is made again, or not know what became of it (504): known says then
// whether the job is there.
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
			return known(id), text
		case status != http.StatusServiceUnavailable:
			t.Fatalf("submit: %s", text)
		}
		return false, text
	})
	return id
}
