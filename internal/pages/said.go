package pages

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// The page that a form leads to shows what the form did. The address names the text by a code of this file, so
// that no link can put a text of its own on a page: "requeued.2", "some_requeued.1.3.INVALID_STATE_TRANSITION".
// The code is followed by as many numbers as its text has, and by the API's code of a refusal if the text gives a
// reason.

// formText is a text with places for numbers and, last, a reason.
type formText struct {
	numbers int
	reason  bool
	text    func(n []int64, reason string) string
}

// plainly makes a text without numbers and reason.
func plainly(text string) formText {
	return formText{text: func([]int64, string) string { return text }}
}

var formTexts = map[string]formText{
	"cancelled":    plainly("The job is cancelled."),
	"cancel_asked": plainly("Its worker was told to stop. The job will end CANCELLED."),
	"killed":       plainly("The job was killed: it is a dead letter now."),
	"hastened":     plainly("The job is ready: it waits for a worker at its own place."),
	"dismissed":    plainly("The dead letter was dismissed: it is off the list, and its job stays FAILED."),
	"job_requeued": plainly("The job was requeued: it has all its retries again and a new arrival."),
	"one_requeued": plainly("The dead letter was requeued."),
	"requeued": {numbers: 1, text: func(n []int64, _ string) string {
		return "Requeued " + letterCount(n[0]) + "."
	}},
	"plan_stored": {numbers: 1, text: func(n []int64, _ string) string {
		return fmt.Sprintf("The plan is stored as version %d.", n[0])
	}},
	"limits_stored":    plainly("The limits of the key are stored, and hold at once."),
	"flow_cancelled":   plainly("The flow is cancelled: what waited has ended, and running jobs are asked to stop."),
	"line_paused":      plainly("The key is paused: none of its jobs starts. Those that run go on."),
	"line_resumed":     plainly("The key is resumed: its jobs may start again."),
	"schedule_run":     plainly("A job of the schedule was made now."),
	"schedule_paused":  plainly("The schedule is paused: it makes no jobs. Those that it has made go on."),
	"schedule_resumed": plainly("The schedule is resumed: it goes on with the next occurrence."),
	"schedule_stored": {numbers: 1, text: func(n []int64, _ string) string {
		return fmt.Sprintf("The schedule is stored as version %d.", n[0])
	}},
	"batch_sealed":    plainly("The batch is sealed: it takes no more jobs."),
	"batch_cancelled": plainly("The batch is cancelled: what waited has ended, and running jobs are asked to stop."),
	"batch_cancels":   plainly("The batch is sealed and 2,000 jobs were cancelled. More live: cancel again."),
	"worker_quiet": plainly("The worker was told to claim no more jobs. It hears that within a second or two, and " +
		"finishes the jobs that it has."),
	"worker_resume":    plainly("The worker may claim jobs again. It hears that within a second or two."),
	"worker_terminate": plainly("The worker was told to end. It finishes its jobs, or gives them back."),

	"no_worker":      plainly("You chose no worker, so none was told anything."),
	"nothing_chosen": plainly("You chose no dead letter, so nothing was done."),
	"none_selected":  plainly("You selected no dead letter, so none was requeued."),
	"none_passes":    plainly("No dead letter matches this filter any more, so none was requeued."),
	"too_many": {numbers: 1, text: func(n []int64, _ string) string {
		return fmt.Sprintf("You selected %d dead letters; one requeue takes at most %d: none was requeued.", n[0], mostChosen)
	}},
	"rest_here": {numbers: 2, text: func(n []int64, _ string) string {
		return "Requeued " + thousands(n[0]) + " of " + thousands(n[1]) + "; requeue again for the rest."
	}},
	"not_requeued": {reason: true, text: func(_ []int64, reason string) string {
		return "The dead letter was not requeued: " + reason
	}},
	"some_requeued": {numbers: 2, reason: true, text: func(n []int64, reason string) string {
		return fmt.Sprintf("Requeued %d of %d. The latest error: %s", n[0], n[1], reason)
	}},
	"refused": {reason: true, text: func(_ []int64, reason string) string {
		return "The server refused that: " + reason
	}},
	"logout_half": plainly("This browser has deleted its cookie, but the server could not end the session: Redis " +
		"does not answer. The session ends within 12 hours; revoke the key to end it at once."),
}

// reasons are short texts for the API's refusals. For a code that is not in this list the text of INTERNAL is
// used.
var reasons = map[string]string{
	"INVALID_REQUEST":          "the request is not valid.",
	"UNAUTHORIZED":             "the key is not valid any more.",
	"FORBIDDEN":                "the key may not do this.",
	"NOT_FOUND":                "it is not there any more.",
	"JOB_NOT_FOUND":            "there is no job with this id.",
	"INVALID_STATE_TRANSITION": "the job's state does not allow that any more.",
	"RATE_LIMITED":             "too many requests; try again in a while.",
	"QUEUE_FULL":               "the queue is full; try again in a while.",
	"SYSTEM_UNHEALTHY":         "Redis or SQL does not answer; try again in a while.",
	"OUTCOME_UNKNOWN":          "the answer was lost. The change may or may not have been made: check first.",
	"INTERNAL":                 "internal error; the server's log has the cause.",
}

// say encodes a text for an address. reason, the API's code of a refusal, is "" for texts without one.
func say(code, reason string, numbers ...int64) string {
	var b strings.Builder
	b.WriteString(code)
	for _, n := range numbers {
		b.WriteString("." + strconv.FormatInt(n, 10))
	}
	if reason != "" {
		if reasons[reason] == "" {
			reason = "INTERNAL"
		}
		b.WriteString("." + reason)
	}
	return b.String()
}

// saidText returns the text that say encoded; "" for anything else.
func saidText(said string) string {
	parts := strings.Split(said, ".")
	m, known := formTexts[parts[0]]
	if !known {
		return ""
	}
	parts = parts[1:]
	reason := ""
	if m.reason && len(parts) > 0 {
		reason = reasons[parts[len(parts)-1]]
		parts = parts[:len(parts)-1]
	}
	if len(parts) != m.numbers || m.reason != (reason != "") {
		return ""
	}
	numbers := make([]int64, len(parts))
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 10, 31)
		if err != nil {
			return ""
		}
		numbers[i] = int64(n)
	}
	return m.text(numbers, reason)
}

// said returns the text about the last form from the address that the form led to. For a link on another site's
// page it returns "".
func said(r *http.Request, name string) string {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "cross-site", "same-site":
		return ""
	}
	return saidText(r.URL.Query().Get(name))
}
