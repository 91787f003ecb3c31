package web

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestTexts(t *testing.T) {
	at := time.Date(2026, 5, 1, 11, 31, 57, 961e6, time.UTC)
	for _, c := range []struct{ got, want string }{
		{count(0), "0"}, {count(999), "999"}, {count(1204), "1,204"}, {count(int64(-1234567)), "-1,234,567"},
		{span(0), "0 ms"}, {span(-1), "0 ms"}, {span(0.0004), "0.4 ms"}, {span(0.0084), "8.4 ms"}, {span(0.004), "4 ms"},
		{span(0.23), "230 ms"}, {span(0.9999), "1.00 s"},
		{span(1.236), "1.24 s"}, {span(42), "42.0 s"}, {span(59.97), "1 min"}, {span(252), "4 min 12 s"}, {span(3600), "1 h"},
		{span(11100), "3 h 5 min"}, {span(187200), "2 d 4 h"},
		{neat(15 * time.Second), "15 s"}, {neat(1500 * time.Millisecond), "1.5 s"}, {neat(5 * time.Minute), "5 min"},
		{neat(100 * time.Millisecond), "100 ms"},
		{rate(0), "0"}, {rate(0.05), "0.05"}, {rate(30.24), "30.2"}, {rate(4711.4), "4,711"},
		{size(512), "512 B"}, {size(1536), "1.5 KiB"}, {size(int64(3 << 20)), "3.0 MiB"},
		{ago(at, at), "now"}, {ago(at, at.Add(-90*time.Second)), "1 min 30 s ago"},
		{ago(at, at.Add(30*time.Second)), "in 30 s"}, {ago(at, time.Time{}), ""},
		{between(at, at.Add(5*time.Second)), "5.00 s"}, {between(at, time.Time{}), ""}, {clock(at), "11:31:57"},
		{stamp(at), "2026-05-01 11:31:57.961"}, {stamp(time.Time{}), ""},
		{due(at, at.Add(2100*time.Millisecond), 5), "3 s"}, {due(at, at.Add(7*time.Second), 60), "\u20077 s"},
		{due(at, at.Add(-time.Second), 5), "0 s"}, {due(at, at.Add(31*time.Second), 5), "31 s"},
		{hue("PAID"), "t-paid"}, {hue("EXPRESS"), "t-other"},
		{short("019de340-01fe-7a58-be69-567cd7d6b700"), "…567cd7d6b700"}, {short("x"), "x"},
		{spark(nil), "0,27 120,27"}, {spark([]int64{0, 5, 10}), "0,27 60,14.5 120,2"}, {iso(at), "2026-05-01T11:31:57.961Z"},
	} {
		if c.got != c.want {
			t.Errorf("%q, not %q", c.got, c.want)
		}
	}
}

// A number keeps its digits, what is no JSON stays as it is, and what is too large for a tree is shown whole as text.
func TestTree(t *testing.T) {
	n := tree([]byte(`{"a": 12345678901234567890, "b": [null, true, "x"], "c": {}}`))
	if n.Kind != "object" || len(n.Children) != 3 || n.Children[0].Text != "12345678901234567890" ||
		n.Children[1].Children[0].Text != "null" || n.Children[2].Kind != "object" {
		t.Errorf("%+v", n)
	}
	deep := strings.Repeat("[", 100) + strings.Repeat("]", 100)
	many := "[" + strings.Repeat("1,", mostNodes) + "1]"
	for _, text := range []string{"", "{", `{"a":1} 2`, "<b>", deep, many} {
		if n := tree([]byte(text)); n.Kind != "text" ||
			strings.Join(strings.Fields(n.Text), "") != strings.Join(strings.Fields(text), "") {
			t.Errorf("%.20q: %s %.40q", text, n.Kind, n.Text)
		}
	}
}

func TestTimeline(t *testing.T) {
	at := func(s int) time.Time { return time.Date(2026, 5, 1, 11, 0, s, 0, time.UTC) }
	for name, c := range map[string]struct {
		job  Job
		want string
	}{
		"waits": {Job{Status: "PENDING", ArrivedAt: at(0)}, "accepted; waits has waited 30.0 s"},
		"runs": {Job{Status: "PROCESSING", ArrivedAt: at(0), Attempts: []Attempt{{Number: 1, StartedAt: at(2)}}},
			"accepted; attempt waited 2.00 s"},
		"done": {Job{Status: "COMPLETED", ArrivedAt: at(0), EndedAt: at(3),
			Attempts: []Attempt{{Number: 1, StartedAt: at(2), FinishedAt: at(3)}}},
			"accepted; attempt waited 2.00 s; ended  0 ms"},
		"cancelled": {Job{Status: "CANCELLED", ArrivedAt: at(0), EndedAt: at(3)}, "accepted; ended waited 3.00 s"},
		"retried": {Job{Status: "SCHEDULED", ArrivedAt: at(0),
			Attempts: []Attempt{{Number: 1, StartedAt: at(2), FinishedAt: at(4)},
				{Number: 2, StartedAt: at(9), FinishedAt: at(10)}}},
			"accepted; attempt waited 2.00 s; attempt waited 5.00 s; waits has waited 20.0 s"},
		"requeued": {Job{Status: "COMPLETED", ArrivedAt: at(10), EndedAt: at(12),
			Attempts: []Attempt{{Number: 1, StartedAt: at(2), FinishedAt: at(4)},
				{Number: 2, StartedAt: at(11), FinishedAt: at(12)}}},
			"accepted; attempt waited ; requeued was dead 6.00 s; attempt waited 1.00 s; ended  0 ms"},
	} {
		var got []string
		for _, s := range timeline(&c.job, at(30)) {
			got = append(got, strings.TrimSuffix(s.Kind+" "+s.Edge+" "+s.EdgeFor, "  "))
		}
		if text := strings.Join(got, "; "); text != c.want {
			t.Errorf("%s: %s, not %s", name, text, c.want)
		}
	}
}

func TestStrip(t *testing.T) {
	at := func(s int) time.Time { return time.Date(2026, 5, 1, 11, 0, s, 0, time.UTC) }
	j := Job{Status: "COMPLETED", ArrivedAt: at(0), EndedAt: at(10),
		Attempts: []Attempt{{Number: 1, StartedAt: at(2), FinishedAt: at(4), Outcome: "FAILURE"},
			{Number: 2, StartedAt: at(10), FinishedAt: at(10), Outcome: "SUCCESS"}}}
	bars := strip(&j, at(30))
	if len(bars) != 3 || bars[1].X != 200 || bars[1].W != 200 || bars[1].Tone != "is-bad" || bars[2].X+bars[2].W > 1000 ||
		bars[2].W < 1 {
		t.Errorf("%+v", bars)
	}
	if bars := strip(&Job{}, at(0)); bars != nil {
		t.Errorf("of nothing: %+v", bars)
	}
}

// Each built-in type has a schema that is an object's, and each example fits what the schema requires.
func TestTypes(t *testing.T) {
	types := set.Types()
	if len(types) != 6 {
		t.Fatalf("%d types", len(types))
	}
	for _, typ := range types {
		var schema, payload map[string]any
		if err := json.Unmarshal(typ.Schema, &schema); err != nil {
			t.Fatal(err)
		}
		if schema["type"] != "object" || typ.About == "" || len(typ.Examples) == 0 {
			t.Errorf("%s: %v", typ.Name, schema)
		}
		required, _ := schema["required"].([]any)
		properties, _ := schema["properties"].(map[string]any)
		for _, e := range typ.Examples {
			payload = nil
			if err := json.Unmarshal(e.Payload, &payload); err != nil {
				t.Fatal(err)
			}
			for _, r := range required {
				if payload[r.(string)] == nil {
					t.Errorf("%s, %s: no %s", typ.Name, e.Title, r)
				}
			}
			for name := range payload {
				if properties[name] == nil {
					t.Errorf("%s, %s: the form has no %s", typ.Name, e.Title, name)
				}
			}
		}
	}
}

// The snapshot of a tier that an operator adds, and of nothing at all, is JSON that scripts can read.
func TestSnapshotJSON(t *testing.T) {
	text, err := json.Marshal(samples{now: now}.snapshot())
	if err != nil {
		t.Fatal(err)
	}
	for _, member := range []string{`"at":"2026-11-21T11:31:57.961Z"`, `"waitSeconds":{"p50":0.004,`, `"heartbeatBy":`,
		`"nextAt":"2026`, `{"name":"stuck","delaySeconds":5}`} {
		if !strings.Contains(string(text), member) {
			t.Errorf("no %s in %.900s", member, text)
		}
	}
	text, err = json.Marshal(&Snapshot{})
	if err != nil || !strings.Contains(string(text), `"tiers":[]`) || strings.Contains(string(text), "null") {
		t.Errorf("of nothing: %s, %v", text, err)
	}
}
