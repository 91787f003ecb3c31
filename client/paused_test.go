package client

import (
	"io"
	"net/http"
	"reflect"
	"slices"
	"testing"
	"time"
)

const aPause = `{"scope":"tier:PUBLIC","since":"2026-05-01T11:31:57Z","until":"2026-05-01T12:31:57Z","by":"ada",` +
	`"reason":"a migration","refuse":true}`

var publicPaused = Pause{
	Scope: "tier:PUBLIC", Since: time.Date(2026, 5, 1, 11, 31, 57, 0, time.UTC),
	Until: time.Date(2026, 5, 1, 12, 31, 57, 0, time.UTC), By: "ada", Reason: "a migration", Refuse: true,
}

func TestPaused(t *testing.T) {
	s, c := newServer(t)
	const bare = `{"scope":"all","since":"2026-05-01T11:31:57Z","until":null,"by":null,"reason":null,"refuse":false}`
	answers(s, "GET /admin/paused", 200, `{"version":7,"inForce":false,"items":[`+bare+`,`+aPause+`],`+
		`"processes":[{"name":"host-1","version":6,"current":false}]}`)
	got, err := c.Paused(soon(t))
	want := Paused{Version: 7, Items: []Pause{{Scope: "all", Since: publicPaused.Since}, publicPaused},
		Processes: []PausedProcess{{Name: "host-1", Version: 6}}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v, %v", got, err)
	}
	for i, want := range []string{bare, aPause} {
		if text, err := got.Items[i].MarshalJSON(); err != nil || string(text) != want {
			t.Errorf("%s, %v, want %s", text, err, want)
		}
	}
}

func TestPause(t *testing.T) {
	s, c := newServer(t)
	var asked []string
	note := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = append(asked, r.Method+" "+r.URL.EscapedPath()+" "+string(body))
		if r.Method == http.MethodDelete {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		_, _ = io.WriteString(w, aPause)
	}
	s.Handle("PUT /admin/paused/{scope}", note)
	s.Handle("DELETE /admin/paused/{scope}", note)
	if got, err := c.Pause(soon(t), publicPaused); err != nil || got != publicPaused {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := c.Pause(soon(t), Pause{Scope: "queue:a:b", For: 90 * time.Second}); err != nil {
		t.Error(err)
	}
	if err := c.Resume(soon(t), "all"); err != nil {
		t.Error(err)
	}
	want := []string{
		`PUT /admin/paused/tier:PUBLIC {"until":"2026-05-01T12:31:57Z","reason":"a migration","refuse":true}`,
		`PUT /admin/paused/queue:a:b {"forSeconds":90}`, `DELETE /admin/paused/all `,
	}
	if !slices.Equal(asked, want) {
		t.Errorf("asked %q", asked)
	}
}
