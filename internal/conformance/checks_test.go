package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// What holds for every call of a worker. f.mu is held by all of these.

const (
	mostText   = 4096 // bytes of a member of an error, and of a line of a log
	mostReason = 512
	mostNote   = 200
	mostSave   = 16 << 10
	mostDepth  = 32      // levels of a checkpoint
	mostNumber = 1 << 53 // of a progress: below this
	mostRetry  = 86_400  // seconds
	mostLater  = 365 * 86_400
)

func (f *fake) wrongf(format string, args ...any) {
	if len(f.wrong) < 30 {
		f.wrong = append(f.wrong, fmt.Sprintf(format, args...))
	}
}

// strict says whether a body is JSON as RFC 7493 has it: valid UTF-8, no lone surrogates, no name twice.
func (f *fake) strict(verb string, body []byte) bool {
	if err := checkJSON(body); err != nil {
		f.wrongf("the body of a %s is not strict JSON: %v: %.300q", verb, err, body)
		return false
	}
	return true
}

func checkJSON(text []byte) error {
	d := jsontext.NewDecoder(bytes.NewReader(text))
	for depth := -1; depth != 0; depth = d.StackDepth() {
		if _, err := d.ReadToken(); err != nil {
			return err
		}
	}
	if _, err := d.ReadToken(); err == nil {
		return fmt.Errorf("there is more after the value")
	}
	return nil
}

// understand decodes a body. A field of a wrong type is the worker's fault.
func (f *fake) understand(body []byte, into any) {
	if err := json.Unmarshal(body, into); err != nil {
		f.wrongf("a body is not as the protocol has it: %v: %.300s", err, body)
	}
}

// checkReport checks the bounds that the server sets to reports.
func (f *fake) checkReport(j *job, text json.RawMessage) {
	var e report
	f.understand(text, &e)
	ends := 0
	if e.Completed != nil {
		ends++
	}
	if r := e.Released; r != nil {
		ends++
		if r.Delay < 0 || r.Delay > mostLater || r.Delay != float64(int64(r.Delay)) || len(r.Reason) > mostReason {
			f.wrongf("%s: a release with a delay of %v s and a reason of %d bytes", j.id, r.Delay, len(r.Reason))
		}
	}
	if l := e.Failed; l != nil {
		ends++
		for name, member := range map[string]string{
			"message": l.Error.Message, "type": l.Error.Type, "stack": l.Error.Stack,
		} {
			if len(member) > mostText || !utf8.ValidString(member) {
				f.wrongf("%s: the %s of an error has %d bytes", j.id, name, len(member))
			}
		}
		if s := l.RetryAfter; s != nil && (*s < 0 || *s > mostRetry || *s != float64(int64(*s))) {
			f.wrongf("%s: retryAfterSeconds is %v", j.id, *s)
		}
	}
	if ends != 1 {
		f.wrongf("%s: a report with %d ends: %.300s", j.id, ends, text)
	}
}

func (f *fake) checkCheckpoint(j *job, text json.RawMessage) {
	if len(text) > mostSave {
		f.wrongf("%s: a checkpoint of %d bytes", j.id, len(text))
	}
	if depth := depthOf(text); depth > mostDepth {
		f.wrongf("%s: a checkpoint of %d levels", j.id, depth)
	}
}

func depthOf(text []byte) (most int) {
	d := jsontext.NewDecoder(bytes.NewReader(text))
	for {
		if _, err := d.ReadToken(); err != nil {
			return most
		}
		most = max(most, d.StackDepth())
	}
}

func (f *fake) checkProgress(j *job, at time.Time, step, done, total *int64, note json.RawMessage) told {
	t := told{at: at}
	if step == nil || *step < 1 {
		f.wrongf("%s: a progress without a step", j.id)
	} else {
		t.step = *step
	}
	for _, n := range []*int64{done, total} {
		if n != nil && (*n < 0 || *n >= mostNumber) {
			f.wrongf("%s: a progress of %d", j.id, *n)
		}
	}
	if done == nil {
		f.wrongf("%s: a progress without done", j.id)
	} else {
		t.done = *done
	}
	if note != nil {
		f.understand(note, &t.note)
	}
	if len(t.note) > mostNote {
		f.wrongf("%s: a note of %d bytes", j.id, len(t.note))
	}
	return t
}

func (f *fake) checkLine(j *job, l *line) {
	switch {
	case l.Level != "INFO" && l.Level != "WARN" && l.Level != "ERROR", l.Text == nil:
		f.wrongf("%s: a line without a level or a text", j.id)
	case len(*l.Text)+len(l.Attrs) > 2*mostText:
		f.wrongf("%s: a line of %d and %d bytes", j.id, len(*l.Text), len(l.Attrs))
	case l.Attrs != nil && string(l.Attrs) != "null" && l.Attrs[0] != '{':
		f.wrongf("%s: the attributes of a line are no object: %.100s", j.id, l.Attrs)
	case l.AgeMs < 0:
		f.wrongf("%s: a line is %v ms old", j.id, l.AgeMs)
	}
}

// same compares two JSON texts.
func same(a, b []byte) bool {
	x, y := jsontext.Value(bytes.Clone(a)), jsontext.Value(bytes.Clone(b))
	return x.Canonicalize() == nil && y.Canonicalize() == nil && bytes.Equal(x, y)
}
