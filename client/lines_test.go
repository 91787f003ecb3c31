package client_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"
	"time"

	"github.com/tierq/tierq/client"
)

// Lines and limits are read as the server writes them, and limits are sent as it reads them.
func TestLines(t *testing.T) {
	t.Parallel()
	var asked []string
	mux := http.NewServeMux()
	mux.HandleFunc("/admin/lines", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = append(asked, r.Method+" "+r.URL.RawQuery+" "+r.Header.Get("If-Match")+" "+string(body))
		limits := `{"key":"a b","owner":null,"running":2,"weight":3,"rate":0.5,"burst":4,"waiting":5,"strict":true,` +
			`"paused":{"since":"2026-05-01T11:31:57Z","until":"2026-05-01T12:31:57Z","by":"ada","reason":"a fire"},"version":7}`
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodPut {
			_, _ = io.WriteString(w, limits)
			return
		}
		_, _ = io.WriteString(w, `{"items":[{"key":null,"owner":"k1","tier":"PAID","queue":"films","waiting":9,"running":40,`+
			`"share":0.8,"noisy":true,"parked":true,"until":"2026-05-01T12:31:57Z"}],"lines":3,"running":50,"limits":`+
			limits+`}`)
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	c := client.New(server.URL)
	since := time.Date(2026, 5, 1, 11, 31, 57, 0, time.UTC)
	line := client.Line{LineKey: client.LineKey{Owner: "k1"}, Tier: client.Paid, Queue: "films", Waiting: 9, Running: 40,
		Share: 0.8, Noisy: true, Parked: true, Until: since.Add(time.Hour)}
	want := client.LineLimits{LineKey: client.LineKey{Key: "a b"}, Running: 2, Weight: 3, Rate: 0.5, Burst: 4, Waiting: 5,
		Strict: true, Version: 7,
		Paused: &client.Pause{Since: since, Until: since.Add(time.Hour), By: "ada", Reason: "a fire"}}

	lines, err := c.Lines(t.Context(), 5, client.ByRunning)
	if err != nil || !reflect.DeepEqual(lines, client.Lines{Items: []client.Line{line}, Lines: 3, Running: 50}) {
		t.Errorf("%+v, %v", lines, err)
	}
	items, limits, err := c.LinesOf(t.Context(), client.LineKey{Key: "a b"})
	if err != nil || !reflect.DeepEqual(items, []client.Line{line}) || !reflect.DeepEqual(limits, want) {
		t.Errorf("%+v, %+v, %v", items, limits, err)
	}
	text, err := json.Marshal(want)
	var again client.LineLimits
	if err != nil || json.Unmarshal(text, &again) != nil || !reflect.DeepEqual(again, want) {
		t.Errorf("%s is read as %+v, %v", text, again, err)
	}
	want.Paused = &client.Pause{By: "eve", Since: since, For: 90 * time.Second, Reason: "a fire"}
	if stored, err := c.SetLineLimits(t.Context(), want, want.ETag()); err != nil || stored.Version != 7 {
		t.Errorf("%+v, %v", stored, err)
	}
	owner := client.LineLimits{LineKey: client.LineKey{Owner: "k1"}}
	if _, err := c.SetLineLimits(t.Context(), owner, ""); err != nil {
		t.Error(err)
	}
	if got := []string{
		"GET limit=5&sort=running  ", "GET key=a+b  ",
		`PUT key=a+b "7" {"running":2,"weight":3,"rate":0.5,"burst":4,"waiting":5,"strict":true,` +
			`"paused":{"forSeconds":90,"reason":"a fire"}}`,
		`PUT owner=k1  {"running":0,"weight":0,"rate":0,"burst":0,"waiting":0,"strict":false}`,
	}; !reflect.DeepEqual(asked, got) {
		t.Errorf("%q", asked)
	}
}
