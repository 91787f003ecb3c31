package handlers

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/tierq/tierq/internal/handler"
)

// DocStatus is where a document stands at one endpoint.
type DocStatus string

// The statuses. The first three are ends: nothing is submitted to that endpoint any more.
const (
	docManaged   DocStatus = "MANAGED"         // it has accepted the document, or knew it already
	docSubmitted DocStatus = "SUBMITTED"       // it has acknowledged the reception
	docRejected  DocStatus = "REJECTED"        // it does not want the document, or must not be called
	docBusy      DocStatus = "TRY_AGAIN_LATER" // it chose the time at which it wants to be asked again
	docFailed    DocStatus = "FAILED"          // something unforeseen: tried again while the job has retries
	docUnknown   DocStatus = "NOT_MANAGED"     // it does not know the document: submit
)

// words are the statuses that an endpoint may use in {"status": "..."}, among them those of a service that queues
// documents itself.
var words = map[string]DocStatus{
	"MANAGED": docManaged, "SUBMITTED": docSubmitted, "REJECTED": docRejected, "TRY_AGAIN_LATER": docBusy,
	"NOT_MANAGED": docUnknown,
	"RECEIVED":    docSubmitted, "SCHEDULED": docSubmitted, "QUEUED": docSubmitted, "PROCESSING": docSubmitted,
	"FAILED": docRejected, "CANCELLED": docRejected,
}

// step is where a document stands at an endpoint after an answer. The first three fields are the checkpoint.
type step struct {
	Status DocStatus `json:"status,omitempty"` // "" = not asked yet
	Said   string    `json:"said,omitempty"`   // the answer, fit for an error's text
	Detail string    `json:"detail,omitempty"` // the endpoint's own words

	wait time.Duration // asked for by TRY_AGAIN_LATER
}

// defaultWait is what TRY_AGAIN_LATER means without a Retry-After.
const defaultWait = 30 * time.Second

// lookedUp and submitted read an answer:
//
//	answer                     to the lookup (GET)          to the submission (POST)
//	2xx with a known status    that status                  that status; NOT_MANAGED is FAILED
//	2xx otherwise              FAILED (who answered this?)  SUBMITTED
//	404                        NOT_MANAGED                  REJECTED
//	409                        REJECTED                     SUBMITTED: it is there already
//	429, 503                   TRY_AGAIN_LATER at Retry-After (1 s to 1 h, 30 s if absent)
//	408, 425, other 5xx        FAILED
//	other 4xx, redirects       REJECTED
//	no answer                  FAILED
//	a call that is refused     REJECTED
func lookedUp(a Response, now time.Time) step {
	s := read(a, now)
	switch {
	case a.Status == http.StatusNotFound:
		s.Status = docUnknown
	case s.Status == "":
		s.Status = docFailed
		s.Said += " without a known status"
	}
	return s
}

func submitted(a Response, now time.Time) step {
	s := read(a, now)
	switch {
	case a.Status == http.StatusConflict, s.Status == "":
		s.Status = docSubmitted
	case s.Status == docUnknown:
		s.Status = docFailed
		s.Said += " with NOT_MANAGED"
	}
	return s
}

// read is what both have in common; Status is "" for a 2xx that names no known status.
func read(a Response, now time.Time) step {
	var body struct {
		Status  string `json:"status"`
		Detail  string `json:"detail"`
		Message string `json:"message"`
	}
	if a.Truncated || json.Unmarshal(a.Body, &body) != nil {
		body.Status, body.Detail, body.Message = "", "", ""
	}
	s := step{Said: fmt.Sprintf("answered %d", a.Status), Detail: line(body.Detail)}
	if s.Detail == "" {
		s.Detail = line(body.Message)
	}
	switch {
	case a.Status >= 200 && a.Status <= 299:
		s.Status = words[strings.ToUpper(body.Status)]
	case a.Status == http.StatusTooManyRequests, a.Status == http.StatusServiceUnavailable:
		s.Status = docBusy
	case a.Status == http.StatusRequestTimeout, a.Status == http.StatusTooEarly, a.Status >= 500:
		s.Status = docFailed
	default:
		s.Status = docRejected
	}
	if s.Status == docBusy {
		var ok bool
		if s.wait, ok = asked(a.Header, now); !ok {
			s.wait = defaultWait
		}
	}
	return s
}

// unanswered is the step of a call without an answer.
func unanswered(host string, err error) step {
	s := step{Status: docFailed, Said: line(strings.TrimPrefix(err.Error(), "call "+host+": "))}
	if handler.Judge(err).Permanent {
		s.Status = docRejected
	}
	return s
}

// line makes an endpoint's words one line of at most 200 bytes.
func line(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
	return cut(strings.TrimSpace(strings.ToValidUTF8(text, "\uFFFD")), 200)
}
