//go:build pictures

package face

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// picturesFor is the time for which the queue is busy before the first picture, so that the charts show it.
const picturesFor = 4 * time.Minute

const picturesRoom = 350 << 10 // of all pictures together

// TestPictures takes the pictures of the README: a server and a worker with real stores, under a mix of all tiers.
// `make pictures` runs it.
func TestPictures(t *testing.T) {
	env := []string{"TIERQ_CAPACITY=400", "TIERQ_WORKERS=8", "TIERQ_LOG_LEVEL=warn"}
	e := newExternal(t, env...)
	second := func() *testkit.Process {
		own := append(e.env[:len(e.env):len(e.env)], "TIERQ_ROLES=worker", "TIERQ_WORKERS=4",
			"TIERQ_ADDR=127.0.0.1:"+strconv.Itoa(testkit.FreePort(t)))
		return testkit.StartProcess(t, testkit.BuildTierq(t), own, "serve")
	}
	worker := second()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); mix(ctx, e.base) }()
	defer func() { stop(); <-ended }()

	busy := time.After(picturesFor)
	waitFor(t, time.After(picturesFor-30*time.Second))
	survivor := e.crash(worker)
	second()
	waitFor(t, busy)

	dir := filepath.Join("..", "..", "..", "docs", "pictures")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	tab := testkit.StartBrowser(t).Tab(t)
	take := func(name string, width, height int, dark bool) {
		tab.View(width, height, dark)
		tab.Eval("new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)))", nil)
		raw := filepath.Join(t.TempDir(), name+".png")
		tab.Screenshot(raw, width, height, dark)
		shrink(t, tab, raw, filepath.Join(dir, name+".webp"))
	}
	tab.Open(e.base + "/dashboard")
	tab.WaitText("#live-text", "live", alive)
	plotted(t, tab)
	take("dashboard-light", 1440, 1130, false)
	take("dashboard-dark", 1440, 1130, true)
	take("dashboard-narrow", 390, 1130, true)
	tab.Open(e.base + "/poll?jobId=" + survivor)
	tab.WaitText("#life", "Its life", alive)
	take("poll", 1280, 800, false)
	tab.Open(e.base + "/submit")
	tab.Click("#examples button:nth-child(2)")
	take("submit", 1280, 1120, false)
	tab.Open(e.base + "/")
	tab.WaitText("#live-text", "live", alive)
	take("overview", 1280, 740, false)
	tab.Open(e.base + "/demo")
	tab.Press("6") // the queue is full
	tab.WaitText("#caption", "The retry is due and enters", 4*alive)
	tab.Press("r")
	tab.WaitText("#play", "Play", alive)
	take("demo", 1440, 860, true)
	weigh(t, dir)
}

// crash kills a worker while it runs jobs, and returns one of them that another attempt completed.
func (e *external) crash(worker *testkit.Process) string {
	e.t.Helper()
	ids := make([]string, 0, 12)
	for range cap(ids) {
		ids = append(ids, e.submit("paid",
			`{"payload":{"steps":[{"type":"LOG","message":"crossing the night"},{"type":"COMPUTE","iterations":200000},`+
				`{"type":"SLEEP","durationMs":6000}]}}`))
	}
	mine := func(id string) bool {
		var j struct {
			History []struct{ Worker, Outcome string }
		}
		e.want(http.StatusOK, &j, http.MethodGet, "/api/jobs/"+id, "")
		return len(j.History) > 0 && strings.Contains(j.History[0].Worker, "-"+strconv.Itoa(worker.Pid())+"-")
	}
	found := ""
	testkit.Eventually(e.t, alive, "the second worker has one of them", func() (bool, string) {
		for _, id := range ids {
			if mine(id) {
				found = id
				return true, ""
			}
		}
		return false, ""
	})
	if err := worker.Kill(); err != nil {
		e.t.Fatal(err)
	}
	testkit.Eventually(e.t, 2*alive, found+" is completed", func() (bool, string) {
		a := e.ask(http.MethodGet, "/result/poll?jobId="+found, "")
		return strings.Contains(a.body, `"COMPLETED"`), a.body
	})
	return found
}

// mix submits jobs of all tiers and of several types until the context ends: short ones, long ones, failing ones
// and delayed ones.
func mix(ctx context.Context, base string) {
	submit := func(tier, jobType string, payload any, more string) {
		text, err := json.Marshal(payload)
		if err != nil {
			panic(err)
		}
		body := `{"type":"` + jobType + `","payload":` + string(text) + more + `}`
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/"+tier+"/submit", strings.NewReader(body))
		if err != nil {
			panic(err)
		}
		req.Header.Set("Content-Type", "application/json")
		if resp, err := client.Do(req); err == nil {
			_ = resp.Body.Close()
		}
	}
	type step map[string]any
	steps := func(list ...step) step { return step{"steps": list} }
	nap := func(ms int) step { return step{"type": "SLEEP", "durationMs": ms} }
	errors := []string{"upstream answered 502 Bad Gateway", "dial tcp 10.0.3.7:443: connect: connection refused",
		"image is not a JPEG: unexpected marker 0x89"}
	kinds := []struct {
		every int
		do    func(n int)
	}{
		{2, func(n int) {
			submit("paid", "SIMULATION", steps(step{"type": "LOG", "message": "order"}, nap(60+n*37%700)), "")
		}},
		{3, func(n int) {
			submit("unpaid", "SIMULATION", steps(step{"type": "COMPUTE", "iterations": 200000}, nap(200+n*53%900)), "")
		}},
		{4, func(n int) {
			submit("public", "SIMULATION", steps(step{"type": "HTTP_CALL", "latencyMs": 200 + n*71%1600}), "")
		}},
		{23, func(n int) {
			submit("public", "SIMULATION", steps(nap(200), step{"type": "FAIL", "message": errors[n%3]}), "")
		}},
		{41, func(n int) {
			submit("unpaid", "SIMULATION", steps(nap(700), step{"type": "FAIL", "message": "row 118: no such customer"}),
				`,"maxRetries":1`)
		}},
		{43, func(n int) { submit("paid", "SIMULATION", steps(nap(18000+n*97%20000)), "") }},
		{67, func(n int) { submit("unpaid", "SIMULATION", steps(nap(8000+n*31%8000)), "") }},
		{29, func(int) {
			submit("paid", "SEND_EMAIL", step{"to": "ann@example.org", "subject": "Your order", "body": "It is on its way."}, "")
		}},
		{37, func(int) {
			submit("unpaid", "GENERATE_PDF", step{"title": "Invoice", "paragraphs": []string{"Thank you."}}, "")
		}},
		{53, func(int) { submit("paid", "REPORT", step{"kind": "jobs", "format": "csv"}, "") }},
		{61, func(int) { submit("public", "SIMULATION", steps(nap(10)), `,"delaySeconds":900`) }},
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, k := range kinds {
			if n%k.every == 0 {
				k.do(n)
			}
		}
		if n%500 < 60 { // a flood now and then
			submit("public", "SIMULATION", steps(nap(300+n*29%900)), "")
		}
	}
}

func waitFor(t *testing.T, busy <-chan time.Time) {
	t.Helper()
	select {
	case <-busy:
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	}
}

// plotted waits until both charts are drawn.
func plotted(t *testing.T, tab *testkit.Tab) {
	t.Helper()
	testkit.Eventually(t, alive, "the charts are drawn", func() (bool, string) {
		var n int
		tab.Eval("document.querySelectorAll('.plot canvas').length", &n)
		return n == 2, strconv.Itoa(n)
	})
}

// shrink saves a picture again as WebP at a lower quality, with the browser's encoder: half the size, and still
// sharp.
func shrink(t *testing.T, tab *testkit.Tab, from, to string) {
	t.Helper()
	raw, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	var small string
	tab.Eval(`(async () => {
		const i = new Image();
		i.src = "data:image/png;base64,`+base64.StdEncoding.EncodeToString(raw)+`";
		await i.decode();
		const c = Object.assign(document.createElement("canvas"), {width: i.width, height: i.height});
		c.getContext("2d").drawImage(i, 0, 0);
		return c.toDataURL("image/webp", 0.55).split(",")[1];
	})()`, &small)
	out, err := base64.StdEncoding.DecodeString(small)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, out, 0o644); err != nil {
		t.Fatal(err)
	}
}

// weigh checks that all pictures together stay within their limit.
func weigh(t *testing.T, dir string) {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "*.webp"))
	if err != nil {
		t.Fatal(err)
	}
	sum := int64(0)
	for _, name := range all {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%6d %s", info.Size(), filepath.Base(name))
		sum += info.Size()
	}
	if sum > picturesRoom {
		t.Errorf("%d B of %d", sum, picturesRoom)
	}
}
