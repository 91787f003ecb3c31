package face

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/testkit"
)

// Each scenario is clicked in a browser of its own, and plays to its end by the events of its own queue. At its
// end the stage shows the story's result.
func TestDemo_Scenarios(t *testing.T) {
	t.Attr("proves", "S2-W4")
	t.Parallel()
	s := newSite(t)
	type play struct {
		id  string
		tab *testkit.Tab
	}
	var playing []play // all at the same time
	ends := map[string]struct {
		results, sql, dead, refused string
		told                        []string // the last lines in the list of events
	}{
		"happy":    {"3", "4", "0", "0 refused", []string{"job.cancelled", "job.archived", "done"}},
		"overtake": {"10", "", "0", "0 refused", []string{"#10", "done"}},
		"crash":    {"9", "", "0", "0 refused", []string{"lease.lost", "job.requeued", ": LOST"}},
		"hang":     {"2", "", "0", "0 refused", []string{"MAX_TIME_EXCEEDED", "lease.expired", "done"}},
		"dead":     {"1", "2", "0", "0 refused", []string{"job.dead", "failed_jobs", "generation 2", "job_results"}},
		"full":     {"12", "", "0", "2 refused", []string{"FULL: PUBLIC has its share of the capacity", "it was due"}},
		"outage":   {"3", "", "0", "1 refused", []string{"a probe failed", "gate.changed"}},
	}
	for id := range ends {
		tab := testkit.StartBrowser(t).Tab(t)
		tab.Open(s.base + "/demo")
		tab.Eval("document.querySelector('#speed').value = '4'", nil)
		tab.Click("[data-scenario=" + id + "]")
		playing = append(playing, play{id, tab})
	}
	for _, p := range playing {
		end, tab := ends[p.id], p.tab
		tab.WaitText("#demo[data-done="+p.id+"] #progress", ", the end", 2*alive)
		// The stories happen in real time. If the machine is too busy for all of them at once, a story whose jobs end
		// too late says so. It is then played again, after the others have ended.
		for again := 1; again < 3 && strings.Contains(tab.Text("#caption"), "did not come to its end"); again++ {
			t.Logf("%s: %s", p.id, tab.Text("#caption"))
			tab.Click("[data-scenario=" + p.id + "]")
			tab.WaitText("#demo[data-done="+p.id+"] #progress", ", the end", 2*alive)
		}
		if caption := tab.Text("#caption"); strings.Contains(caption, "did not come to its end") {
			t.Errorf("%s: %s", p.id, caption)
		}
		for selector, want := range map[string]string{
			"#st-results": end.results, "#st-sql": end.sql, "#st-dead": end.dead, "#st-refused": end.refused,
			"#st-gate-word": "open",
		} {
			if got := tab.Text(selector); want != "" && got != want {
				t.Errorf("%s: at its end %s is %q, want %q", p.id, selector, got, want)
			}
		}
		told := tab.Text("#trail")
		for _, want := range end.told {
			if !strings.Contains(told, want) {
				t.Errorf("%s: the events do not tell %q:\n%s", p.id, want, told)
			}
		}
		if script, keys := tab.Text("#script"), tab.Text("#keys"); !strings.Contains(script, ".lua") ||
			!strings.Contains(keys, "{tierq:0}:") {
			t.Errorf("%s: what Redis did: %q, %q", p.id, script, keys)
		}
	}
	if everything {
		barriers(t, playing[0].tab, "the stage")
	}
}

// The player pauses the story, advances it by one event, and plays it again.
func TestDemo_Player(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	tab := testkit.StartBrowser(t).Tab(t)
	tab.Open(s.base + "/demo")
	shown := func() int {
		n, _ := strconv.Atoi(strings.Fields(tab.Text("#progress") + " -")[0])
		return n
	}
	tab.Press("5") // the fifth scenario: retries spent
	tab.WaitText("#demo[data-shows=dead] #trail", "job.accepted", alive)
	tab.Press("r")
	tab.WaitText("#play", "Play", alive)
	held := shown()
	tab.WaitText("#progress", " events", alive)
	testkit.Eventually(t, alive, "all of the scenario has come", func() (bool, string) {
		p := strings.Fields(tab.Text("#progress")) // "4 of 31 events"
		n, _ := strconv.Atoi(p[2])
		return n > 25, tab.Text("#progress")
	})
	if now := shown(); now != held {
		t.Errorf("it goes on while it is held: %d, then %d", held, now)
	}
	tab.Click("#step")
	tab.Press(".")
	if now := shown(); now != held+2 {
		t.Errorf("two steps lead from %d to %d", held, now)
	}
	tab.Eval("document.querySelector('#speed').value = '4'", nil)
	tab.Click("#play")
	tab.WaitText("#demo[data-done=dead] #progress", ", the end", 2*alive)
	tab.WaitText("#play", "Replay", alive)
	tab.Click("#play")
	tab.WaitText("#play", "Pause", alive)
	tab.WaitText("#demo[data-done=dead] #progress", ", the end", 2*alive)
	if n := tab.Text("#st-results"); n != "1" {
		t.Errorf("seen again, it has %s results", n)
	}
	tab.Press("1") // another scenario, after the end
	tab.WaitText("#demo[data-shows=happy] #trail", "job.claimed", alive)
}

// A server with API keys has no demo, not even for an administrator.
func TestDemo_WithKeys(t *testing.T) {
	t.Parallel()
	s := newKeyedSite(t)
	for _, key := range []string{"", theAdmin, s.newKey(`"role":"worker"`)} {
		if a := s.asked(key, "/demo/play"); a.status != http.StatusNotFound {
			t.Errorf("a scenario: %d %s", a.status, a.body)
		}
	}
	a := s.ask(http.MethodGet, "/demo", "")
	if a.status != http.StatusNotFound || !strings.Contains(a.body, "has no demo") {
		t.Errorf("the page: %d %s", a.status, a.body)
	}
}

// asked posts a form with a key; "" = without one.
func (s *site) asked(key, path string) answer {
	s.t.Helper()
	was := s.key
	defer func() { s.key = was }()
	s.key = key
	return s.ask("POST", path, "scenario=happy", "Content-Type", "application/x-www-form-urlencoded")
}
