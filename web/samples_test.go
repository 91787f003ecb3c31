package web

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// hostile is what somebody may send who wishes to be more than text.
const hostile = `</script></pre></td><script>alert(1)</script><img src=x onerror=alert(2)> ' " ` +
	`onmouseover="alert(3)" javascript:alert(4) {{.}} ` + "`${5}` \u202e\x00"

// samples are the views of a page: texts are either plain or hostile, and full ones have everything in them.
type samples struct {
	evil bool
	now  time.Time
}

func (s samples) text(plain string) string {
	if s.evil {
		return hostile + plain
	}
	return plain
}

func (s samples) id(n int) string {
	if s.evil {
		return hostile
	}
	return fmt.Sprintf("019de340-01fe-7a58-be69-567cd7d6%04x", n)
}

func (s samples) frame(path string) Frame {
	f := Frame{
		Path: path, Now: s.now, Mode: "EMBEDDED", Version: s.text("0.7.0"), Gate: &Gate{Open: true, Threshold: 5},
		Caller: Caller{Open: true, Change: true},
		Live:   "/dashboard/stream", Demo: true,
	}
	if s.evil {
		f.Path, f.Gate = "/dashboard/dead", &Gate{Reason: hostile}
		f.Caller = Caller{Name: hostile, Role: hostile, Change: true}
		f.Problem, f.Notice, f.Trouble = hostile, hostile, hostile
	}
	return f
}

func (s samples) plans() []Plan {
	p := func(tier string, priority, retries int, beat, most time.Duration, share int) Plan {
		return Plan{
			Tier: s.text(tier), Priority: priority, MaxRetries: retries, HeartbeatTimeout: beat, MaxProcessingTime: most,
			Share:       share,
			BackoffBase: 2 * time.Second, BackoffFactor: 2, BackoffCap: 5 * time.Minute, BackoffJitter: 0.2, Version: 3,
			Lines: s.text("key"),
		}
	}
	return []Plan{
		p("PAID", 1, 5, 15*time.Second, 50*time.Second, 100), p("UNPAID", 2, 2, 6*time.Second, 20*time.Second, 85),
		p("PUBLIC", 3, 1, 3*time.Second, 10*time.Second, 60),
	}
}

func (s samples) snapshot() *Snapshot {
	shape := func(base, swing int64) []int64 {
		list := make([]int64, 60)
		for i := range list {
			list[i] = base + swing*int64((i*7)%11)/10 + swing*int64(i%17)/20
		}
		return list
	}
	plans := s.plans()
	lane := func(i int, depth, running int64, age float64, wait, run Percentiles, in, out float64, spark []int64) Lane {
		return Lane{
			Tier: plans[i].Tier, Depth: depth, Scheduled: 12, OldestAgeSeconds: age, InFlight: running, SubmittedPerSecond: in,
			FinishedPerSecond: out, WaitSeconds: wait,
			RunSeconds: run, Completed: 41280, Failed: 17, Retried: 231, Spark: spark, Plan: &plans[i],
		}
	}
	snap := &Snapshot{
		At: s.now, Gate: Gate{Open: !s.evil, Reason: s.text("")}, Capacity: Capacity{3412, 10000}, InFlight: 38,
		Slots: Slots{38, 48}, Outbox: Outbox{128, 91342},
		Journal: Journal{true}, Dead: 1204, Ended: 128311, PerSecond: 35.6,
		Hint:    s.text("PUBLIC has waited for 4 min 12 s while PAID arrives at 30 / s: tiers are strict."),
		Watches: []Watch{{"crashed", 3, s.now.Add(2 * time.Second)}, {"stuck", 5, time.Time{}}},
		Tiers: []Lane{
			lane(0, 4, 22, 0.12, Percentiles{0.004, 0.031, 0.12}, Percentiles{0.21, 1.4, 2.2}, 30.2, 30.1, shape(1700, 300)),
			lane(1, 210, 11, 8.4, Percentiles{2.4, 7.9, 12}, Percentiles{0.34, 2.1, 3.3}, 12.4, 11.9, shape(620, 420)),
			lane(2, 3198, 5, 252, Percentiles{61, 214, 251}, Percentiles{0.9, 4.1, 8}, 9.1, 3.6, shape(210, 500)),
		},
	}
	for i := range 12 {
		snap.Leases = append(snap.Leases, Lease{
			JobID: s.id(4096 + i*77), Tier: plans[i%3].Tier,
			Type:    s.text([]string{"SIMULATION", "SEND_EMAIL", "GENERATE_PDF", "FORWARD_DOCUMENT"}[i%4]),
			Worker:  s.text(fmt.Sprintf("node-%d-4711-58aeba3b", i%3+1)),
			Attempt: i%3 + 1, StartedAt: s.now.Add(-time.Duration(i*700+310) * time.Millisecond),
			HeartbeatBy: s.now.Add(time.Duration(2900-i*190) * time.Millisecond), HeartbeatSeconds: 3,
			EndBy: s.now.Add(time.Duration(9700-i*600) * time.Millisecond), MaxSeconds: 10,
			Progress: []*LeaseProgress{nil, {45_000, 90_000}, {7, 0}}[i%3],
		})
	}
	for i := range 3 {
		snap.Workers = append(snap.Workers, Worker{
			Name: s.text(fmt.Sprintf("node-%d-4711-58aeba3b", i+1)), Host: s.text(fmt.Sprintf("node-%d", i+1)), PID: 4711 + i,
			Version: s.text("0.7.0"), Slots: 16, Running: 16 - i*4,
			State:     s.text([]string{"server", "server, quiet", "server, terminate asked"}[i]),
			Asked:     []string{"run", "quiet", "terminate"}[i],
			StartedAt: s.now.Add(-time.Hour), SeenAt: s.now.Add(-400 * time.Millisecond),
		})
	}
	snap.Queues = []Queue{
		{Queue: "main", Depth: 3408, Scheduled: 12, InFlight: 36, Workers: 3},
		{Queue: "films", Depth: 4, InFlight: 2, Workers: 1,
			Paused: s.text("queue films is paused since 2026-05-01T11:31:57Z")},
		{Queue: "thumbnails:low", Depth: 12041}, {Queue: "pictures", Depth: 2, Workers: 3, Push: true},
	}
	for i, kind := range []string{"crashed", "stuck", "dead", "gate", "crashed", "requeue"} {
		f := FeedItem{ID: fmt.Sprintf("7-%d", 90-i), At: s.now.Add(-time.Duration(i*47) * time.Second), Kind: kind,
			JobID: s.id(8000 + i*31), Tier: "PUBLIC"}
		f.Text = s.text([]string{"taken back to its place, attempt 2 comes next", "ran for longer than 10 s: taken back",
			"no retry is left: MAX_TIME_EXCEEDED", "closed after 5 errors in a row: Redis does not answer",
			"taken back to its place", "ann requeued it"}[i])
		if kind == "gate" {
			f.JobID = ""
		}
		snap.Recoveries = append(snap.Recoveries, f)
	}
	return snap
}

func (s samples) job() *Job {
	at := func(ms int) time.Time { return s.now.Add(time.Duration(ms-41000) * time.Millisecond) }
	return &Job{
		ID: s.id(
			1,
		), Generation: 2, Tier: s.text("PAID"), Type: s.text("FORWARD_DOCUMENT"), Status: "FAILED",
		Note: s.text("rejected by 1 of 2 endpoints: tax.example"), Attempt: 4, RetryCount: 2, MaxRetries: 2,
		Worker: s.text("node-1"), Owner: s.text("k7"),
		TraceID: s.text(
			"4bf92f3577b34da6a3ce929d0e0e4736",
		), CallbackURL: s.text("https://shop.example/hooks"), ArrivedAt: at(0), FirstTriedAt: at(1800), StartedAt: at(22000),
		EndedAt: at(24100),
		Cause: s.text(
			"HANDLER_ERROR",
		), LastError: s.text("documents[0]: POST https://archive.example/v1/documents: 503 Service Unavailable"),
		CanRetry: true, Artifact: "/jobs/7/artifact", Position: -1,
		Payload: []byte(
			s.text(
				`{"documentId":"invoice-7","contentType":"application/json","body":{"total":12345678901234567890,` +
					`"lines":[{"item":"Pencil","pieces":12},{"item":"Rubber","pieces":2.50}],"note":null,"paid":true},` +
					`"endpoints":["https://archive.example/v1","https://tax.example"]}`,
			),
		),
		Result: []byte(
			s.text(`{"endpoints":[{"url":"https://archive.example/v1","status":"SUBMITTED"}]}`),
		), Why: []string{s.text("3 PAID jobs are ahead")},
		Redis:    []Field{{"status", s.text("FAILED")}, {"score", "11779967918000"}},
		Progress: &Progress{At: at(14000), Done: 1, Total: 2, Note: s.text("archive.example")},
		Log: []LogLine{
			{Attempt: 2, At: at(9100), Level: "INFO", Text: s.text("begins"), Attrs: []byte(`{"endpoints":2}`)},
			{Attempt: 2, At: at(9200), Level: "GAP", Lost: 7},
		},
		Reasons: []Reason{{"requeue", 1, at(9000), s.text("the bank is back")}},
		Attempts: []Attempt{
			{
				1,
				s.text("node-2-4711-58aeba3b"),
				at(1800),
				at(5100),
				"FAILURE",
				"HEARTBEAT_STOPPED",
				"",
				1,
				"",
				time.Time{},
			},
			{
				2,
				s.text("node-1-4711-58aeba3b"),
				at(9000),
				at(14400),
				"FAILURE",
				s.text("HANDLER_ERROR"),
				s.text("documents[0]: POST https://archive.example/v1/documents: 503 Service Unavailable"),
				2,
				"",
				time.Time{},
			},
			{
				3,
				s.text("node-3-4711-58aeba3b"),
				at(22000),
				at(24100),
				"FAILURE",
				"HANDLER_ERROR",
				s.text("documents[0]: 503"),
				2,
				"",
				time.Time{},
			},
			{
				4,
				s.text("node-3-4711-58aeba3b"),
				at(23000),
				at(23100),
				"LATER",
				"",
				"",
				2,
				s.text("1 of 2 endpoints say SUBMITTED: tax.example answered 202"),
				at(24000),
			},
		},
	}
}

func (s samples) rows(status string) []JobRow {
	var rows []JobRow
	for i := range 14 {
		r := JobRow{
			ID: s.id(
				600 + i*13,
			), Tier: s.text([]string{"PAID", "PUBLIC", "UNPAID", "EXPRESS"}[i%4]),
			Type: s.text([]string{"SIMULATION", "SEND_EMAIL", "FORWARD_DOCUMENT"}[i%3]), Status: status, Attempt: i%3 + 1,
			ArrivedAt: s.now.Add(
				-time.Duration(i*93+200) * time.Second,
			), EndedAt: s.now.Add(-time.Duration(i*93+140) * time.Second),
			Cause: s.text([]string{"HANDLER_ERROR", "MAX_TIME_EXCEEDED", "HEARTBEAT_STOPPED"}[i%3]),
			Error: s.text(
				"dial tcp 10.0.3.7:443: connect: connection refused; the endpoint was asked three times",
			), Note: s.text("rejected by 1 of 2 endpoints: tax.example"), Requeued: i == 3,
		}
		if status == "" {
			r.Status = []string{"COMPLETED", "PROCESSING", "PENDING", "FAILED", "SCHEDULED", "CANCELLED", "HELD",
				"EXPIRED"}[i%8]
			if r.Status != "FAILED" {
				r.Cause, r.Error = "", ""
			}
		}
		rows = append(rows, r)
	}
	return rows
}

// pages writes every page: empty ones with nothing but a frame, the others with all there is.
func (s samples) pages(p *Set, empty bool) map[string]func(io.Writer) error {
	const base = "http://127.0.0.1:8080"
	if empty {
		f := func(path string) Frame { return Frame{Path: path} }
		return map[string]func(io.Writer) error{
			"overview": func(w io.Writer) error { return p.Overview(w, OverviewView{Frame: f("/")}) },
			"submit":   func(w io.Writer) error { return p.Submit(w, SubmitView{Frame: f("/submit")}) },
			"poll":     func(w io.Writer) error { return p.Poll(w, PollView{Frame: f("/poll")}) },
			"job":      func(w io.Writer) error { return p.Poll(w, PollView{Frame: f("/poll"), Job: &Job{}}) },
			"nojob":    func(w io.Writer) error { return p.Poll(w, PollView{Frame: f("/poll"), Asked: "x"}) },
			"dashboard": func(w io.Writer) error {
				return p.Dashboard(w, DashboardView{Frame: f("/dashboard"), Snapshot: &Snapshot{}, Base: base})
			},
			"away": func(w io.Writer) error {
				return p.Dashboard(w, DashboardView{Frame: Frame{Path: "/dashboard", Live: "/dashboard/stream",
					Problem: "Redis does not answer."}})
			},
			"jobs":    func(w io.Writer) error { return p.Jobs(w, JobsView{Frame: f("/dashboard/jobs"), Base: base}) },
			"dead":    func(w io.Writer) error { return p.Dead(w, DeadView{Frame: f("/dashboard/dead"), Base: base}) },
			"tiers":   func(w io.Writer) error { return p.Tiers(w, TiersView{Frame: f("/dashboard/tiers")}) },
			"tier":    func(w io.Writer) error { return p.Tier(w, TierView{Frame: f("/dashboard/tiers/PAID")}) },
			"lines":   func(w io.Writer) error { return p.Lines(w, LinesView{Frame: f("/dashboard/lines")}) },
			"line":    func(w io.Writer) error { return p.Line(w, LineView{Frame: f("/dashboard/lines/key")}) },
			"flows":   func(w io.Writer) error { return p.Flows(w, FlowsView{Frame: f("/flows")}) },
			"flow":    func(w io.Writer) error { return p.Flow(w, FlowView{Frame: f("/flows/x")}) },
			"batches": func(w io.Writer) error { return p.Batches(w, BatchesView{Frame: f("/batches")}) },
			"batch":   func(w io.Writer) error { return p.Batch(w, BatchView{Frame: f("/batches/x")}) },
			"demo":    func(w io.Writer) error { return p.Demo(w, DemoView{Frame: f("/demo")}) },
			"about":   func(w io.Writer) error { return p.About(w, AboutView{Frame: f("/about")}) },
			"login":   func(w io.Writer) error { return p.Login(w, LoginView{Frame: f("/login")}) },
			"error":   func(w io.Writer) error { return p.Error(w, ErrorView{Frame: f("/x")}) },
			"confirm": func(w io.Writer) error { return p.Confirm(w, ConfirmView{Frame: f("/x")}) },
		}
	}
	types, tiers := p.Types(), []string{s.text("PAID"), "UNPAID", "PUBLIC"}
	names := make([]string, len(types))
	for i := range types {
		types[i].Name, types[i].About = s.text(types[i].Name), s.text(types[i].About)
		names[i] = types[i].Name
	}
	wrong := []FieldError{{"payload.steps[0]" + s.text(""), s.text("is not a step")}, {"tier", s.text("is none")},
		{"priority", s.text("is not in 1..899")}}
	values := SubmitValues{}
	running := s.job()
	running.Status, running.EndedAt, running.Result, running.LastError, running.Cause, running.CanRetry,
		running.CanStop = "PROCESSING", time.Time{}, nil, "", "", false, true
	running.Attempts[2].FinishedAt, running.Attempts[2].Outcome, running.Attempts[2].Cause,
		running.Attempts[2].Error = time.Time{}, "RUNNING", "", ""
	running.Key, running.KeyLinks, running.Line = s.text("acme"), true, s.text("It waits in the line of the key acme")
	running.Why, running.Follow = []string{"it is running: attempt 3"}, "/api/jobs/"+running.ID+"/events"
	if s.evil {
		values = SubmitValues{hostile, hostile, hostile, hostile, hostile, hostile, hostile}
	} else {
		wrong = nil
	}
	query := Query{}
	if s.evil {
		query = Query{hostile, hostile, hostile, hostile, hostile, hostile, hostile, hostile, hostile}
	}
	plan := s.plans()[0]
	planValues := PlanValues{"1", "7", "3", "4", "15", "50", "100", "2", "2", "300", s.text("0.2"), s.text("key"),
		s.text("120")}
	title := strings.TrimSpace
	return map[string]func(io.Writer) error{
		"overview": func(w io.Writer) error {
			return p.Overview(w, OverviewView{s.frame("/"), s.snapshot(), s.plans(),
				[]Part{{"Redis", "UP", s.text("embedded, in this process")}, {"SQL", "UP", "SQLite"}, {"gate", "UP", "open"},
					{"workers", "UP", "48 slots"}}, base})
		},
		"submit": func(w io.Writer) error {
			return p.Submit(w, SubmitView{s.frame("/submit"), s.plans(), types, base, values, wrong})
		},
		"poll":    func(w io.Writer) error { return p.Poll(w, PollView{s.frame("/poll"), s.text(""), nil, base}) },
		"job":     func(w io.Writer) error { return p.Poll(w, PollView{s.frame("/poll"), s.id(1), s.job(), base}) },
		"running": func(w io.Writer) error { return p.Poll(w, PollView{s.frame("/poll"), s.id(1), running, base}) },
		"dashboard": func(w io.Writer) error {
			return p.Dashboard(w, DashboardView{s.frame("/dashboard"), s.snapshot(), base})
		},
		"jobs": func(w io.Writer) error {
			return p.Jobs(w, JobsView{s.frame("/dashboard/jobs"), query, s.rows(""), "/dashboard/jobs?cursor=7", true, tiers,
				names, base, wrong})
		},
		"dead": func(w io.Writer) error {
			return p.Dead(w, DeadView{s.frame("/dashboard/dead"), query, s.rows("FAILED"), 1204, "/dashboard/dead?cursor=7",
				"/admin/dead/export", tiers, names, base, wrong})
		},
		"tiers": func(w io.Writer) error { return p.Tiers(w, TiersView{s.frame("/dashboard/tiers"), s.plans()}) },
		"tier": func(w io.Writer) error {
			return p.Tier(w, TierView{s.frame("/dashboard/tiers/PAID"), plan, planValues, wrong,
				[]Change{{"Retries", "5", s.text("7"), s.text("jobs that wait keep theirs")},
					{"Share of capacity", "90 %", "100 %", ""}}, true})
		},
		"lines": func(w io.Writer) error {
			return p.Lines(w, LinesView{s.frame("/dashboard/lines"), s.lines(), 90210, 50, "running"})
		},
		"batches": func(w io.Writer) error {
			return p.Batches(w, BatchesView{s.frame("/batches"), s.batches(), "/batches?cursor=7"})
		},
		"batch": func(w io.Writer) error { return p.Batch(w, s.batch()) },
		"flows": func(w io.Writer) error {
			return p.Flows(w, FlowsView{s.frame("/flows"), "STUCK", s.flows(), "/flows?cursor=7"})
		},
		"flow": func(w io.Writer) error { return p.Flow(w, s.flow()) },
		"line": func(w io.Writer) error { return p.Line(w, s.line()) },
		"read line": func(w io.Writer) error {
			v := s.line()
			v.Caller.Change = false
			return p.Line(w, v)
		},
		"demo": func(w io.Writer) error {
			return p.Demo(
				w,
				DemoView{
					s.frame("/demo"),
					[]Scenario{{"happy", s.text("The happy path"), s.text("Submit, claim, complete, remember."),
						[]string{s.text("one")}}, {"overtake", "A flood is overtaken", "One PAID job goes before twenty PUBLIC ones.",
						nil}, {"crash", "A heartbeat stops", "The watch takes the job back to the place it had.", nil},
						{"hang", "A job hangs", "Its maximum time ends it.", nil},
						{"dead", "Retries are spent", "A dead letter, and a requeue.", nil},
						{"full", "No room", "QUEUE_FULL, while a retry still enters.", nil},
						{"redis", "Redis fails", "The gate closes, probes, and opens again.", nil}},
					"/demo/play", "/demo/events", 3, 12,
				},
			)
		},
		"about": func(w io.Writer) error {
			return p.About(w, AboutView{s.frame("/about"), "go1.26", s.text("6d25f314"),
				[]Decision{{s.text("Redis decides, SQL remembers"),
					s.text("SQL being down stops no work; every step between the two may be repeated."), "/docs"},
					{"Claim is one script", "Between a pop and a second call a crash loses the job.", ""},
					{"Two processing sets", "A process that died and a job that hangs are found by different clocks.", ""},
					{"Two looks before a job is taken back", "A Redis that stood still has not killed anybody.", ""}},
				[]Link{{"The API", "/docs", s.text("readable, and for machines")},
					{"Repository", s.text("javascript:alert(1)"), "docs/ARCHITECTURE.md and more"}},
				[]Licence{{s.text("uPlot"), "1.6.32", "MIT"}, {"Swagger UI", "5.35.0", "Apache 2.0"}}})
		},
		"login": func(w io.Writer) error { return p.Login(w, LoginView{s.frame("/login"), s.text("/dashboard")}) },
		"error": func(w io.Writer) error {
			return p.Error(w, ErrorView{s.frame("/dashboard"), 503, title("Redis does not answer"),
				s.text("Jobs that run go on, and nothing that was accepted is lost. New jobs are refused until it is back."),
				s.text("4bf92f35"), true})
		},
		"confirm": func(w io.Writer) error {
			return p.Confirm(w, ConfirmView{s.frame("/dashboard/dead"), s.text("Requeue 1,204 dead letters?"),
				s.text("Each gets a new life: the same id, fresh retries, a new arrival."), "/dashboard/dead/requeue",
				s.text("Requeue 1,204"), []Field{{"scope", s.text("all")}, {"expected", "1204"}}, "/dashboard/dead"})
		},
	}
}
