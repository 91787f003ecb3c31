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

// DocStatus is the status of a document at one endpoint.
type DocStatus string

// The statuses. At MANAGED, SUBMITTED and REJECTED nothing more is submitted to that endpoint.
const (
	docManaged   DocStatus = "MANAGED"         // the endpoint has accepted the document, or knew it already
	docSubmitted DocStatus = "SUBMITTED"       // the endpoint has acknowledged the reception
	docRejected  DocStatus = "REJECTED"        // the endpoint refuses the document, or must not be called
	docBusy      DocStatus = "TRY_AGAIN_LATER" // the endpoint chose the time of the next try
	docFailed    DocStatus = "FAILED"          // an unforeseen answer: tried again while the job has retries
	docUnknown   DocStatus = "NOT_MANAGED"     // the endpoint does not know the document: submit
)

// words maps the statuses that an endpoint may send in {"status": "..."}. Some are those of services that queue
// documents themselves.
var words = map[string]DocStatus{
	"MANAGED": docManaged, "SUBMITTED": docSubmitted, "REJECTED": docRejected, "TRY_AGAIN_LATER": docBusy,
	"NOT_MANAGED": docUnknown,
	"RECEIVED":    docSubmitted, "SCHEDULED": docSubmitted, "QUEUED": docSubmitted, "PROCESSING": docSubmitted,
	"FAILED": docRejected, "CANCELLED": docRejected,
}

// step is a document's state at an endpoint after an answer. The first three fields are the checkpoint.
type step struct {
	Status DocStatus `json:"status,omitempty"` // "" = not called yet
	Said   string    `json:"said,omitempty"`   // the answer in a form that fits an error's text
	Detail string    `json:"detail,omitempty"` // the endpoint's own text

	wait time.Duration // the wait that TRY_AGAIN_LATER asks for
}

// defaultWait is the wait of TRY_AGAIN_LATER without a Retry-After.
const defaultWait = 30 * time.Second

// lookedUp and submitted read an answer:
//
//	answer                     to the lookup (GET)          to the submission (POST)
//	2xx with a known status    that status                  that status; NOT_MANAGED is FAILED
//	2xx otherwise              FAILED (a foreign server?)   SUBMITTED
//	404                        NOT_MANAGED                  REJECTED
//	409                        REJECTED                     SUBMITTED: the endpoint has it already
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

// read is the common part of lookedUp and submitted. Its Status is "" for a 2xx that names no known status.
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

// unanswered returns the step of a call without an answer: REJECTED if the error is permanent, otherwise FAILED.
func unanswered(host string, err error) step {
	s := step{Status: docFailed, Said: line(strings.TrimPrefix(err.Error(), "call "+host+": "))}
	if handler.Judge(err).Permanent {
		s.Status = docRejected
	}
	return s
}

// line makes one line of at most 200 bytes of an endpoint's text.
func line(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
	return cut(strings.TrimSpace(strings.ToValidUTF8(text, "\uFFFD")), 200)
}
