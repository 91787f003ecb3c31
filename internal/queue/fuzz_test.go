package queue

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/fuzz"
	"github.com/tierq/tierq/internal/job"
)

const fuzzedID = job.ID("019de340-01fe-7a58-be69-567cd7d6b7d4")

// The password of a URL appears in no error about the URL, and in no address that a failed dial would name,
// wherever the rest of the URL is broken.
func FuzzReadURL(f *testing.F) {
	f.Attr("proves", "A47")
	const secret = "hunter2hunter2hunter2"
	fuzz.Text(f, func(t *testing.T, text string) {
		before, after, _ := strings.Cut(text, "\n")
		o, err := readURL(before + ":" + secret + "@" + after)
		if err != nil && strings.Contains(err.Error(), secret) ||
			err == nil && strings.Contains(strings.Join(o.Addrs, " "), secret) {
			t.Errorf("dials %q, %v", o.Addrs, err)
		}
	}, "redis://user\nhost:6379/0", "redis://user:12/\nhost:6379/0", "redis://tierq:/\nhost:6379/0",
		"redis://user:12?\nhost", "redis://user:12#\nhost",
		"redis://user:12/\nh?master_name=m", "redis://h?master_name=m&addr=x\nh:1", "redis://h?addr=x\nh:1",
		"rediss://\nh?addr=n2:1&read_timeout=1",
		"unix://\n/run/redis.sock", "unix:///run/x\ny", "redis://h?db=\n", "redis://h?dial_timeout=\n")
}

// A head that was read and written again has the same content, and no part of it spills into another part.
func FuzzReadHead(f *testing.F) {
	fuzz.Text(f, func(t *testing.T, head string) {
		j := job.Job{ID: fuzzedID}
		if err := readHead(head, &j); err != nil {
			return
		}
		if strings.ContainsRune(j.Type+j.TraceID, ' ') || j.ID != fuzzedID || j.TraceID == "-" {
			t.Errorf("read as %+v", j)
		}
		var again job.Job
		parts := strings.SplitN(head, " ", 4)
		err := readHead(strings.Join(parts[:3], " ")+" "+descriptor(j.Type, j.TraceID, j.Options), &again)
		if err != nil || again.Type != j.Type || again.TraceID != j.TraceID || again.Options != j.Options {
			t.Errorf("read as %+v, written, read as %+v, %v", j, again, err)
		}
	}, "1777635117961 -94853.5 12 SIMULATION 4bf92f3577b34da6a3ce929d0e0e4736",
		`1777635117961 1e15 0 SEND_WEBHOOK - {"callbackUrl":"https://example.org/a"}`,
		"0 0 0 X -",
		"0 x 0 X -",
		`0 0 0 X - {"everybody":true} `, "", "-", "        ")
}

// A line of a history has six parts, whatever text the error contains.
func FuzzReadAttempt(f *testing.F) {
	fuzz.Text(f, func(t *testing.T, line string) {
		a, err := readAttempt(line, 7)
		if err != nil {
			return
		}
		parts := strings.SplitN(line, " ", 6)
		want := parts[5]
		if a.Outcome == "LATER" { // "until reason"
			_, want, _ = strings.Cut(want, " ")
		}
		if a.Error != want || a.Generation != 7 || a.Worker != parts[4] || a.Outcome != parts[3] ||
			strings.Contains(a.Worker+a.Outcome, " ") {
			t.Errorf("read as %+v", a)
		}
	}, "1 1777635117961 1777635118961 HANDLER_ERROR w1 boom and more", "3 0 0 CRASHED w - ",
		"4 1777635117961 1777635118961 LATER w1 1777635208961 2 of 3 wait", "5 1 2 LATER w1 ", "5 1 2 LATER w1 soon",
		"x 1 2 3 4 5", "1 2 3 4 5", "1 2 3 4 5 \x00\r\n")
}

// Each line of an events message is an event, or the message is an error; the events before a bad line are still
// returned.
func FuzzReadEvents(f *testing.F) {
	fuzz.Text(f, func(t *testing.T, message string) {
		events, err := readEvents(message)
		lines := strings.Count(message, "\n")
		if err == nil && len(events) != lines || len(events) > max(lines, 1) {
			t.Errorf("%d events of %d lines, %v", len(events), lines, err)
		}
		for _, e := range events {
			if e.At.IsZero() || strings.ContainsAny(string(e.ID)+string(e.Tier)+string(e.Status)+string(e.Cause), " \n") ||
				e.Cause == "-" {
				t.Errorf("read %+v", e)
			}
		}
	}, "1777635117961\n019de340-01fe-7a58-be69-567cd7d6b7d4 PAID PENDING 0 -",
		"1777635117961\na PAID FAILED 3 MAX_TIME_EXCEEDED\nb PUBLIC COMPLETED 1 -",
		"0\na PAID PENDING 0 -", "1777635117961", "1777635117961\n", "x\ny z")
}

// A list's cursor is read as a valid place or is job.ErrBadCursor.
func FuzzReadPlace(f *testing.F) {
	f.Attr("proves", "A60")
	v := &View{&shared{opts: Options{Partitions: 4}}}
	fuzz.Text(f, func(t *testing.T, cursor string) {
		p, err := v.readPlace(cursor)
		if err != nil {
			if !errors.Is(err, job.ErrBadCursor) {
				t.Error(err)
			}
			return
		}
		if p.source < 0 || p.source >= len(sources) || p.partition < 0 || p.partition >= 4 || math.IsNaN(p.score) ||
			len(p.member) > 36 {
			t.Errorf("read as %+v", p)
		}
		if again, err := v.readPlace(p.String()); cursor != "" && (err != nil || again != p) {
			t.Errorf("read as %+v, which is written %q and read as %+v, %v", p, p, again, err)
		}
	}, "", "1.0.-94853.", "0.3.1777635117961.019de340-01fe-7a58-be69-567cd7d6b7d4", "3.0.+Inf.", "4.0.1.", "0.4.1.",
		"1.1.NaN.", "1.1.1e400.",
		"1.1.0x1p-2.", "+1.0.1.")
}

// A plan that was read is valid, and is stored with the same values that it was read from.
func FuzzReadPlan(f *testing.F) {
	fuzz.Text(f, func(t *testing.T, text string) {
		fields := map[string]string{}
		for line := range strings.Lines(text) {
			name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
			fields[name] = value
		}
		p, err := readPlan("GOLD", fields)
		if err != nil {
			if !errors.Is(err, job.ErrBadPlan) {
				t.Error(err)
			}
			return
		}
		if err := p.Check(); err != nil {
			t.Errorf("%+v: %v", p, err)
		}
		if len(p.TypeBackoff) == 0 {
			p.TypeBackoff = nil
		}
		stored := map[string]string{}
		for name, value := range planFields(p) {
			stored[name] = fmt.Sprint(value)
		}
		if again, err := readPlan("GOLD", stored); err != nil || !reflect.DeepEqual(again, p) {
			t.Errorf("read as %+v, which is stored as %q and read as %+v, %v", p, stored, again, err)
		}
	}, "priority=1\nmaxRetries=5\nshare=100\nversion=1\nheartbeatTimeoutMs=3000\nmaxProcessingTimeMs=60000\n"+
		"backoffBaseMs=500\nbackoffFactor=2\nbackoffCapMs=30000\nbackoffJitter=0.2\ntypeBackoff=",
		"priority=1\nmaxRetries=5\nshare=100\nversion=1\nheartbeatTimeoutMs=3000\nmaxProcessingTimeMs=60000\n"+
			"backoffBaseMs=500\nbackoffFactor=2\nbackoffCapMs=30000\nbackoffJitter=0.2\n"+
			`typeBackoff={"SEND_EMAIL":{"Base":1000000000,"Factor":2,"Cap":60000000000,"Jitter":0}}`,
		"priority=NaN\nbackoffFactor=Inf", "")
}

// fuzzedEnd is what is kept of an ended job.
const fuzzedEnd = "NEED_DISCARD 9 fail PAID main 1 5 - 0 3 2 1 2 0 w1:7\n1777635117961 -94853.5 7 SIMULATION t\n- 0\n"

// An entry of take_outbox is read as one outcome or is one error, whatever its parts are.
func FuzzReadOutcome(f *testing.F) {
	fuzz.Text(f, func(t *testing.T, text string) {
		parts := strings.Split(text, "\x1f")
		list := make([]any, len(parts))
		for i, p := range parts {
			list[i] = p
			if p == "nil" {
				list[i] = nil
			}
		}
		o, err := readOutcome(list)
		if err != nil {
			return
		}
		if string(o.ID) != parts[0] || len(o.Attempts) != len(parts)-outcomeFields ||
			!strings.HasSuffix(parts[1], o.LastError+string(o.Result)) || !strings.HasSuffix(parts[2], string(o.Payload)) {
			t.Errorf("%q was read as %+v", parts, o)
		}
	}, strings.Join([]string{string(fuzzedID), fuzzedEnd, "PAID main 1 5 - 0\n1777635117961 -94853.5 7 SIMULATION t\n{}"},
		"\x1f"),
		strings.Join([]string{string(fuzzedID), strings.Replace(fuzzedEnd, "- 0", "HANDLER_ERROR 4", 1) + `boom{"a":1}`, "",
			"1 2 3 HANDLER_ERROR w1 boom", "2 3 4 CRASHED w1 -"}, "\x1f"), "nil", "",
		strings.Repeat("\x1f", 3))
}

// A script's text is a known word or an error.
func FuzzWord(f *testing.F) {
	s := &script{name: "fuzzed"}
	fuzz.Text(f, func(t *testing.T, text string) {
		w, err := s.word(text)
		if (err == nil) != (string(w) == text && text != "") {
			t.Errorf("%q, %v", w, err)
		}
	}, "OK", "FULL", "QUOTA", "LATE", "LOST", "DUPLICATE", "REPLAY", "ok", "OK ", "", "OK\x00")
}

// A Redis key is one of this queue, with its partition, or is reported.
func FuzzSplitKey(f *testing.F) {
	f.Attr("proves", "A58")
	q := &Queue{shared: &shared{opts: Options{Partitions: 4, Queues: &job.QueueBook{}}}}
	fuzz.Text(f, func(t *testing.T, key string) {
		if !strings.HasPrefix(key, "{tierq:") { // the walk meets no other keys
			return
		}
		p, suffix := q.splitKey(key)
		kind, id := q.kindOf(suffix)
		if p < -1 || p >= 4 || p >= 0 && key != prefix(p)+suffix {
			t.Errorf("partition %d, %q", p, suffix)
		}
		if p >= 0 && kind == "job" && !strings.HasSuffix(key, string(id)) {
			t.Errorf("kind %q, id %q", kind, id)
		}
	}, "{tierq:0}:main:queue", "{tierq:3}:job:metadata:019de340-01fe-7a58-be69-567cd7d6b7d4", "{tierq:4}:outbox",
		"{tierq:-1}:outbox",
		"{tierq:+1}:x", "{tierq:0}:claims:a:b", "")
}

// The reply of the rate script is read completely: a refusal is never read as granted, and a refusal always has a
// wait.
func FuzzRateAnswer(f *testing.F) {
	q := &Queue{rate: bound{script: &script{name: "rate"}}}
	fuzz.Text(f, func(t *testing.T, text string) {
		a, err := q.rateAnswer(text)
		word, _, _ := strings.Cut(text, " ")
		if err == nil && (a.OK != (word == "OK") || !a.OK && (word != "FULL" || a.RetryIn <= 0)) {
			t.Errorf("read as %+v", a)
		}
	}, "OK 9 1000", "FULL 0 1000 500", "FULL 0 1000 -1", "FULL 0 1000", "OK", "OK 1 2 3", "FULL 0 0 0",
		"FULL 0 1 9223372036854775807", "",
		"LATE 1 2", "OK x y")
}
