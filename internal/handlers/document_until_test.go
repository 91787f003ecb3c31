package handlers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

// until makes a delivery wait for MANAGED, for at most this many seconds (0 = the default).
func (d *delivery) until(seconds int) *delivery {
	d.in.Until, d.in.UntilSeconds = docManaged, seconds
	return d
}

// An endpoint that says SUBMITTED is looked up again, with growing pauses, until it says MANAGED. The document is
// sent once, and no retry is spent.
func TestForwardUntilManaged(t *testing.T) {
	t.Attr("proves", "S3-S5 S3-S7 S3-Q5 S3-S13")
	slow := endpoint(t, &downstream{submit: always(202, ""), lookup: func(call int) (int, string) {
		switch {
		case call == 0:
			return 404, ""
		case call == 1: // it has acknowledged the document, and does not know it yet
			return 404, ""
		case call == 2:
			return 500, ""
		case call < 9:
			return 200, `{"status":"PROCESSING"}`
		}
		return 200, `{"status":"MANAGED"}`
	}})
	takes := endpoint(t, &downstream{lookup: unknownThere, submit: always(201, `{"status":"MANAGED"}`)})
	d := deliver(t, slow, takes).until(0)
	var waits []time.Duration
	for {
		got, err := d.attempt()
		if err == nil {
			if got != "MANAGED MANAGED" || d.note != "" {
				t.Errorf("ended %s, note %q", got, d.note)
			}
			break
		}
		v := handler.Judge(err)
		if v.Later <= 0 || v.Permanent || !strings.Contains(v.Reason, "1 of 2 endpoints say SUBMITTED: 127.0.0.1") {
			t.Fatalf("after %s: %v, %+v", d.waited, err, v)
		}
		waits = append(waits, v.Later)
		d.waited += v.Later
	}
	if want := "[1s 1s 2s 4s 8s 16s 32s 1m4s 2m8s]"; fmt.Sprint(waits) != want {
		t.Errorf("it waited %v, want %s", waits, want)
	}
	if slow.heard() != "GET POST"+strings.Repeat(" GET", 9) || takes.heard() != "GET POST" {
		t.Errorf("called %q and %q", slow.heard(), takes.heard())
	}
	deliverTo(d, endpoint(t, &downstream{lookup: always(200, `{"status":"SUBMITTED"}`)}))
	for waited, want := range map[time.Duration]time.Duration{time.Hour: 5 * time.Minute, 12 * time.Hour: time.Hour} {
		d.waited, d.saved = waited, nil
		if _, err := d.attempt(); handler.Judge(err).Later != want {
			t.Errorf("after %s: %v, want %s", waited, err, want)
		}
	}
}

// A document that waits for the longest time is looked up fewer times than a job may end with "later".
func TestForwardUntilManaged_LooksLessOftenThanItMay(t *testing.T) {
	in := Forward{Until: docManaged, UntilSeconds: 604_800}
	looks := 0
	for waited := time.Duration(0); waited < in.patience(); looks++ {
		waited += in.nextLook(waited, 0)
	}
	if looks < 50 || looks >= 100 { // TIERQ_LATER_LIMIT
		t.Errorf("%d looks in a week", looks)
	}
}

func deliverTo(d *delivery, to ...*downstream) *delivery {
	d.in.Endpoints = nil
	for _, e := range to {
		d.in.Endpoints = append(d.in.Endpoints, e.URL+"/base")
	}
	return d
}

// Without the option, or with SUBMITTED, the job ends when the document is received.
func TestForwardUntilSubmitted(t *testing.T) {
	for _, until := range []DocStatus{"", docSubmitted} {
		d := deliver(t, endpoint(t, &downstream{lookup: unknownThere, submit: always(202, "")}))
		d.in.Until = until
		if got, err := d.attempt(); got != "SUBMITTED" || err != nil {
			t.Errorf("until %q: %s, %v", until, got, err)
		}
	}
}

// The wait for MANAGED has a limit. The last lookup comes at that limit, and then the job fails for good.
func TestForwardUntilTooLong(t *testing.T) {
	t.Attr("proves", "S3-S13")
	stuck := endpoint(t, &downstream{lookup: unknownThere, submit: always(202, "")})
	rejects := endpoint(t, &downstream{lookup: unknownThere, submit: always(422, "")})
	d := deliver(t, stuck, rejects).until(90)
	for at, want := range map[time.Duration]time.Duration{0: time.Second, 50 * time.Second: 40 * time.Second,
		89 * time.Second: time.Second} {
		d.waited = at
		if _, err := d.attempt(); handler.Judge(err).Later != want {
			t.Errorf("after %s: %v, want later in %s", at, err, want)
		}
	}
	d.waited = 90 * time.Second
	_, err := d.attempt()
	if v := handler.Judge(err); !v.Permanent ||
		!strings.Contains(err.Error(), "1 of 2 endpoints still say SUBMITTED after 1m30s: 127.0.0.1") {
		t.Errorf("at the bound: %v", err)
	}
	if n := strings.Count(stuck.heard(), "POST"); n != 1 {
		t.Errorf("the document was sent %d times", n)
	}
}

// A busy endpoint still chooses the time, also if it has the document. The longest time counts. A failure takes
// precedence over any wait.
func TestForwardUntilBusy(t *testing.T) {
	t.Attr("proves", "S3-Q5 S3-S9")
	has := endpoint(t, &downstream{submit: always(202, ""), after: "40", lookup: func(call int) (int, string) {
		if call == 0 {
			return 404, ""
		}
		return 503, ""
	}})
	d := deliver(t, has).until(0)
	if _, err := d.attempt(); handler.Judge(err).Later != time.Second {
		t.Errorf("first: %v", err)
	}
	if _, err := d.attempt(); handler.Judge(err).Later != 40*time.Second {
		t.Errorf("it has the document and is busy: %v", err)
	}
	busy := endpoint(t, &downstream{lookup: always(429, ""), after: "7"})
	waits := endpoint(t, &downstream{lookup: always(200, `{"status":"SUBMITTED"}`)})
	_, err := deliver(t, busy, waits).until(0).attempt()
	if v := handler.Judge(err); v.Later != 7*time.Second || !strings.Contains(v.Reason, "TRY_AGAIN_LATER") ||
		!strings.Contains(v.Reason, "SUBMITTED") {
		t.Errorf("one is busy, one waits: %+v", v)
	}
	down := endpoint(t, &downstream{lookup: always(500, "")})
	if _, err := deliver(t, down, waits).until(0).attempt(); handler.Judge(err).Later > 0 || handler.Judge(err).Permanent {
		t.Errorf("one failed: %v", err)
	}
}

// An endpoint that is always busy does not prolong the wait for another one's MANAGED. A failure uses retries, and
// only as many as the job has.
func TestForwardUntilTooLongBesideABusyOne(t *testing.T) {
	t.Attr("proves", "S3-S13")
	busy := endpoint(t, &downstream{lookup: always(429, ""), after: "7"})
	waits := endpoint(t, &downstream{lookup: always(200, `{"status":"SUBMITTED"}`)})
	d := deliver(t, busy, waits).until(60)
	var ended error
	for looks := 0; ended == nil; looks++ {
		_, err := d.attempt()
		switch v := handler.Judge(err); {
		case v.Permanent:
			ended = err
		case v.Later <= 0:
			t.Fatalf("after %s: %v", d.waited, err)
		case looks > 20:
			t.Fatalf("after %s it still waits: %v", d.waited, err)
		default:
			d.waited += v.Later
		}
	}
	for _, want := range []string{
		"1 of 2 endpoints still say SUBMITTED after 1m", "1 of 2 endpoints say TRY_AGAIN_LATER: 127.0.0.1",
	} {
		if !strings.Contains(ended.Error(), want) {
			t.Errorf("it ends with %q, want %q", ended, want)
		}
	}
	down := endpoint(t, &downstream{lookup: always(500, "")})
	d = deliver(t, down, busy, waits).until(5)
	d.waited = time.Hour
	if _, err := d.attempt(); err == nil || handler.Judge(err).Permanent {
		t.Errorf("behind the bound one fails: %v, want an error that costs a retry", err)
	}
	d = deliver(t, busy).until(5)
	d.waited = time.Hour
	if _, err := d.attempt(); handler.Judge(err).Later != 7*time.Second {
		t.Errorf("nobody has the document, a busy one is asked when it wants to be: %v", err)
	}
}

// A document that some endpoint rejected has a note, whatever status it waited for. Without a rejection there is
// no note.
func TestForwardNote(t *testing.T) {
	t.Attr("proves", "S3-S6")
	takes := endpoint(t, &downstream{lookup: always(200, `{"status":"MANAGED"}`)})
	var refuse []*downstream
	for range 15 {
		refuse = append(refuse, endpoint(t, &downstream{lookup: always(400, "")}))
	}
	d := deliver(t, append(refuse, takes)...).until(0)
	if got, err := d.attempt(); err != nil || !strings.HasPrefix(got, "REJECTED") ||
		!strings.HasSuffix(got, "MANAGED") {
		t.Fatal(got, err)
	}
	want := "rejected by 15 of 16 endpoints: 127.0.0.1"
	if !strings.HasPrefix(d.note, want) || len(d.note) > job.MaxNote {
		t.Errorf("the note is %q, want %q...", d.note, want)
	}
	d = deliver(t, takes)
	if _, err := d.attempt(); err != nil || d.note != "" {
		t.Errorf("nobody rejected it: %q, %v", d.note, err)
	}
}

func TestForwardUntilIsChecked(t *testing.T) {
	registry := outgoingTypes(wire{})
	for body, field := range map[string]string{
		`"until":"MANAGED"`: "", `"until":"SUBMITTED"`: "", `"until":""`: "", `"until":"MANAGED","untilSeconds":604800`: "",
		`"until":"REJECTED"`: "payload.until", `"until":"managed"`: "payload.until",
		`"until":"MANAGED","untilSeconds":604801`: "payload.untilSeconds",
		`"until":"MANAGED","untilSeconds":-1`:     "payload.untilSeconds",
		`"untilSeconds":60`:                       "payload.untilSeconds",
		`"until":"MANAGED","untilSeconds":1.5`:    "payload.untilSeconds",
	} {
		payload := `{"documentId":"D","contentType":"text/plain","body":1,"endpoints":["http://127.0.0.1:1/x"],` + body + `}`
		err := registry.Check("FORWARD_DOCUMENT", []byte(payload))
		var wrong *handler.PayloadError
		switch {
		case field == "" && err != nil:
			t.Errorf("%s: %v", body, err)
		case field != "" && (!errors.As(err, &wrong) || wrong.Field != field):
			t.Errorf("%s: %v, want a word about %s", body, err, field)
		}
	}
}

// A checkpoint that an older build saved works after an upgrade. A failed save of the next one does not change the
// wait.
func TestForwardUntilAfterAnUpgrade(t *testing.T) {
	d := deliver(t, endpoint(t, &downstream{lookup: always(200, `{"status":"QUEUED"}`)})).until(0)
	d.saved, _ = json.Marshal([]map[string]string{{"status": "SUBMITTED", "said": "answered 202"}})
	if _, err := d.attempt(); handler.Judge(err).Later != time.Second {
		t.Errorf("%v", err)
	}
	d.save = func(context.Context, []byte) error { return job.ErrUnavailable }
	if _, err := d.attempt(); handler.Judge(err).Later != time.Second || !errors.Is(err, job.ErrUnavailable) {
		t.Errorf("what it heard is not saved: %v", err)
	}
}
