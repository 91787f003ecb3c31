package conformance

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// report is the report of an attempt.
type report struct {
	Lease     string `json:"lease"`
	Completed *struct {
		Result json.RawMessage `json:"result"`
	} `json:"completed"`
	Failed *struct {
		Error struct {
			Message string `json:"message"`
			Type    string `json:"type"`
			Stack   string `json:"stack"`
		} `json:"error"`
		Permanent  bool     `json:"permanent"`
		RetryAfter *float64 `json:"retryAfterSeconds"`
	} `json:"failed"`
	Released *struct {
		Delay  float64 `json:"delaySeconds"`
		Reason string  `json:"reason"`
	} `json:"released"`
}

// reportOf returns the report of a job.
func (f *fake) reportOf(id string) (r report) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_ = json.Unmarshal(f.jobs[id].report, &r) // it was checked
	return r
}

// want describes a report.
type want struct {
	end       string // completed, failed or released
	others    []want // that are right, too
	result    string // JSON; "" = any
	permanent bool
	wait      float64  // retryAfterSeconds, or delaySeconds; none = the report has none
	prefix    string   // of the message, or of the reason
	has       string   // a part of the message, the type and the reason together, without regard to case
	typ       string   // "" = any
	part      string   // of the result
	saved     []string // the checkpoints that were sent, in their order
	done      string   // of the last progress
	logged    bool     // a line of the job's log was sent
}

const none = -1

// These make descriptions.
func completed(result string) want { return want{end: "completed", result: result} }
func failed(has string) want       { return want{end: "failed", has: has, wait: none} }
func final(prefix string) want {
	return want{end: "failed", permanent: true, prefix: prefix, wait: none}
}
func released(seconds float64) want {
	return want{end: "released", wait: seconds}
}

func partly(part string) want                   { return want{end: "completed", part: part} }
func raised() want                              { return partly(`"raised":true`).saves(`{"last":true}`) }
func (w want) starts(prefix string) want        { w.prefix = prefix; return w }
func (w want) holds(has string) want            { w.has = has; return w }
func (w want) of(typ string) want               { w.typ = typ; return w }
func (w want) after(seconds float64) want       { w.wait = seconds; return w }
func (w want) saves(checkpoints ...string) want { w.saved = checkpoints; return w }
func (w want) tells(done string) want           { w.done = done; return w }
func (w want) logs() want                       { w.logged = true; return w }
func (w want) or(other want) want               { w.others = append(slices.Clone(w.others), other); return w }
func (w want) orCompleted() want                { return w.or(completed("")) }
func (w want) orFailed() want                   { return w.or(failed("")) }
func (w want) orAfter(seconds float64) want     { return w.or(w.after(seconds)) }

// check compares a report.
func (w want) check(r report) error {
	err := w.compare(r)
	for _, other := range w.others {
		if other.compare(r) == nil {
			return nil
		}
	}
	return err
}

func (w want) compare(r report) error {
	text, _ := json.Marshal(r)
	switch {
	case r.Completed != nil && w.end == "completed":
		if w.result != "" && !same([]byte(w.result), r.Completed.Result) {
			return fmt.Errorf("the result is %.200s, want %s", r.Completed.Result, w.result)
		}
		if !strings.Contains(string(r.Completed.Result), w.part) {
			return fmt.Errorf("the result is %.200s, which lacks %s", r.Completed.Result, w.part)
		}
		return nil
	case w.end == "failed" && r.Failed != nil:
		return w.checkFailed(r)
	case w.end == "released" && r.Released != nil:
		if r.Released.Delay != w.wait {
			return fmt.Errorf("released for %v s, want %v", r.Released.Delay, w.wait)
		}
		return w.checkText(r.Released.Reason, "")
	}
	return fmt.Errorf("want %s, got %.400s", w.end, text)
}

func (w want) checkFailed(r report) error {
	e := r.Failed.Error
	if r.Failed.Permanent != w.permanent {
		return fmt.Errorf("permanent is %v, want %v: %.200s", r.Failed.Permanent, w.permanent, e.Message)
	}
	wait := float64(none)
	if r.Failed.RetryAfter != nil {
		wait = *r.Failed.RetryAfter
	}
	if wait != w.wait {
		return fmt.Errorf("retryAfterSeconds is %v, want %v: %.200s", wait, w.wait, e.Message)
	}
	if w.typ != "" && e.Type != w.typ {
		return fmt.Errorf("the type is %.100q, want %q: %.200s", e.Type, w.typ, e.Message)
	}
	if e.Message == "" && e.Type == "" {
		return fmt.Errorf("the failure says nothing")
	}
	return w.checkText(e.Message, e.Type)
}

func (w want) checkText(message, typ string) error {
	if !strings.HasPrefix(message, w.prefix) {
		return fmt.Errorf("the text is %.200q, which does not begin with %q", message, w.prefix)
	}
	if !strings.Contains(strings.ToLower(message+" "+typ), strings.ToLower(w.has)) {
		return fmt.Errorf("the text is %.200q (type %.100q), which lacks %q", message, typ, w.has)
	}
	return nil
}
