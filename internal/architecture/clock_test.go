package architecture

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// readers maps the files that read the host's clock to their purpose. A span is the difference of two readings, or
// a deadline that this process keeps. Both use the monotonic clock, which no change of the clock moves. Decisions
// over a job use Redis' TIME, read in the scripts.
var readers = map[string]string{
	"internal/admission/gate.go":            "span: since when the gate is as it is",
	"internal/admission/admission.go":       "shown: in a Retry-After, how long a pause lasts; other: Redis is in memory",
	"internal/ledger/pauses.go":             "span: the rest after SQL refused the pauses",
	"cmd/tierq/pause.go":                    "span: how long a command waits until all processes know",
	"internal/admission/probe.go":           "span: the same",
	"internal/admission/reserve.go":         "span: how long it has asked for places",
	"internal/app/sharedlook.go":            "span: how long a health check's look is good for",
	"internal/app/dashboard.go":             "span: how long a part of a snapshot is kept",
	"internal/app/keystore.go":              "other: the expiry of a key that is made without a server",
	"internal/app/lifecycle.go":             "span: logged",
	"internal/app/overview.go":              "span: how old a count is",
	"internal/app/retention.go":             "other: the age of files on this machine, which its clock has dated",
	"internal/app/run.go":                   "span: logged",
	"internal/app/server.go":                "shown: startedAt of a process",
	"internal/app/stores.go":                "span: patience at start-up",
	"internal/artifact/identity.go":         "other: when the keys of S3 expire",
	"internal/artifact/old.go":              "other: the age of files on this machine, which its clock has dated",
	"internal/artifact/open.go":             "other: the date that a request to S3 is signed for",
	"internal/archive/write.go":             "span: back-off of a refused row",
	"internal/archive/writer.go":            "span: the same",
	"internal/pages/sse.go":                 "span: write deadlines; shown: the timestamp of a refusal",
	"internal/schedule/book.go":             "span: since when a row was written",
	"internal/schedule/ahead.go":            "span: how far Redis' clock should have gone on since it was last read",
	"internal/schedule/firer.go":            "span: the same, and since the last sweep; occurrences go by Redis' time",
	"internal/sandbox/events.go":            "shown: when a scenario's events happened",
	"internal/sandbox/scenarios.go":         "span: since when a row was read",
	"internal/sandbox/manager.go":           "span: how long a box is idle, and the pace of plays",
	"internal/auth/lane.go":                 "span: how long a refusal that Redis told stands",
	"internal/auth/sessions.go":             "span: how old the store's answer about a session is",
	"internal/auth/limiter.go":              "span: the same; rates by this process' own count while Redis is away",
	"internal/database/migrate.go":          "span: the wait for the migration lock",
	"internal/handlers/compute.go":          "span: how long a slice took, to rest as long",
	"internal/handlers/document_forward.go": "other: an HTTP Retry-After may be a date",
	"internal/handlers/push.go":             "other: an HTTP Retry-After may be a date",
	"internal/handlers/report.go":           "other: a report without an end goes up to now",
	"internal/handlers/simulation.go":       "span: elapsedMs",
	"internal/handlers/webhook_sender.go":   "other: an HTTP Retry-After may be a date",
	"internal/httpapi/conns.go":             "span: how long a connection was idle",
	"internal/httpapi/connshares.go":        "span: how often the log says so",
	"internal/httpapi/deps.go":              "shown: timestamps of answers; what is due when goes by Clock, Redis' time",
	"internal/httpapi/guard.go":             "span: logged",
	"internal/httpapi/httpapi.go":           "span: write deadlines",
	"internal/httpapi/leftover.go":          "span: a read deadline",
	"internal/httpapi/readbatch.go":         "span: a read deadline",
	"internal/httpapi/sse.go":               "span: write deadlines",
	"internal/httpapi/stream.go":            "span: how often progress is told",
	"internal/faktory/conn.go":              "span: deadlines of a connection",
	"internal/faktory/faktory.go":           "span: a deadline; shown: since when the gateway serves",
	"internal/faktory/fetch.go":             "span: how long a FETCH waits",
	"internal/faktory/hello.go":             "span: deadlines, and how often a key is looked at again",
	"internal/faktory/info.go":              "span: how long INFO waits for SQL; shown: since when the gateway serves",
	"internal/faktory/life.go":              "span: how long a round took, and how old a lost lease is",
	"internal/faktory/line.go":              "span: deadlines of a line",
	"internal/faktory/workers.go":           "span: how long ago a worker's last connection closed",
	"internal/leasing/seen.go":              "span: how long ago a worker called; shown: since when it is known",
	"internal/ledger/batches.go":            "span: since when rows were written; other: the time in a new batch's id",
	"internal/ledger/bulk.go":               "span: pace",
	"internal/ledger/give.go":               "span: since when rows were read",
	"internal/ledger/flows.go":              "span: the same, of rows that were written",
	"internal/ledger/reconcile.go":          "span: the same, and since the last tidying",
	"internal/ledger/lines.go":              "span: since Redis was given the limits",
	"internal/ledger/tiers.go":              "span: the rest after SQL refused the plans",
	"internal/ledger/queues.go":             "span: the rest after SQL refused the queues",
	"internal/leasing/leasing.go":           "span: how long a call is repeated",
	"internal/loop/loop.go":                 "shown: in how long a loop runs again",
	"internal/mail/compose.go":              "other: Date of a mail",
	"internal/outbound/outbound.go":         "other: the timestamp that a webhook's signature covers",
	"internal/push/beat.go":                 "span: when trust in a lease ends",
	"internal/leasing/beat.go":              "span: until when a lease is trusted, from the sending of its heartbeat",
	"internal/leasing/claim.go":             "span: deadlines of workers, counted from when the claim was sent",
	"internal/app/adapters.go":              "span: for how long jobs have waited without a worker, for the log",
	"internal/push/claim.go":                "span: how long a claim took",
	"internal/embedded/redis.go":            "span: drives the embedded server's TTLs",
	"internal/embedded/snapshot.go":         "other: how much is left of TTLs after a restart, whose span no process saw",
	"internal/queue/takeover.go":            "span: since when an incarnation is known",
	"internal/queue/clock.go":               "span since Redis' time was read; before the first reading Now is the host's",
	"internal/queue/facts.go":               "span: a round trip; shown: how far the two clocks are apart",
	"internal/queue/levels.go":              "span: rates",
	"internal/queue/listen.go":              "span: renewal",
	"internal/queue/incarnation.go":         "span: since when a life of Redis is known",
	"internal/queue/script.go":              "span: how long a script took",
	"internal/recovery/forgetter.go":        "span: a rest, and how long ago the log was told",
	"internal/recovery/audit_pass.go":       "span: how long a pass took",
	"internal/recovery/retention.go":        "span: a run's time, and the rest after a step; rows are old by SQL's clock",
	"internal/recovery/retention_jobs.go":   "span: the same",
	"internal/telemetry/snapshot.go":        "span: how old the gauges are",
	"internal/worker/ask.go":                "span: how old a look at a partition is",
	"internal/worker/backoff.go":            "span: logged",
	"internal/worker/beat.go":               "span: age of a heartbeat, which ends trust in the lease",
	"internal/worker/claim_journal.go":      "span: how long claims rest after the journal refused one",
	"internal/worker/claim.go":              "span: deadlines of handlers, counted from when the claim was sent",
	"internal/worker/held.go":               "span: how long a handler ran",
	"internal/worker/logger.go":             "span: how long ago a line was written",
	"internal/worker/tell.go":               "span: the same",
	"internal/worker/save.go":               "span: age of a heartbeat",
	"internal/worker/watch.go":              "span: the look at those deadlines",
	"cmd/tierq/bar.go":                      "shown: how long a line turns",
	"cmd/tierq/main.go":                     "shown: the CLI's own clock",
	"cmd/tierq/session.go":                  "shown: the same",
}

// numbers maps the files that convert an instant to a number, which could travel to a store, to the clock that the
// instant comes from.
var numbers = map[string]string{
	"internal/archive/cursor.go":     "SQL's",
	"internal/archive/tally.go":      "given by the request",
	"internal/httpapi/expiry.go":     "Redis': Deps.Clock, and what a request gives",
	"internal/job/flowchange.go":     "the expiry of a released job: of a time by Redis' clock",
	"internal/job/pause.go":          "Redis': Queue.Now, and what a request gives",
	"internal/job/plan.go":           "Redis': Queue.Now, and what a request gives",
	"internal/ledger/batches.go":     "the host's, in a new batch's id",
	"internal/job/progress.go":       "Redis': when it was told",
	"internal/leasing/lease.go":      "Redis': when a job was claimed",
	"internal/outbound/sign.go":      "the host's, in a signature",
	"internal/queue/clock.go":        "Redis': its reading and the span since",
	"internal/queue/reserve.go":      "Redis': View.Now, from when on places are old",
	"internal/embedded/entry.go":     "the host's: when a key of the embedded server expires",
	"internal/queue/takeover.go":     "Redis': until when a lease that was taken over lives",
	"internal/queue/restore.go":      "Redis': of a job as it was accepted",
	"internal/queue/series.go":       "Redis': Queue.Now",
	"internal/queue/seats.go":        "Redis': Queue.Now, and when a seat is free by it",
	"internal/queue/sessions.go":     "Redis': Queue.Now, and when a session ends by it",
	"internal/queue/stats.go":        "Redis': Queue.Now",
	"internal/queue/spent.go":        "Redis': Queue.Now",
	"internal/schedule/row.go":       "Redis': an occurrence, and when a job expires",
	"internal/schedule/timetable.go": "Redis': an occurrence, and what a schedule gives",
	"internal/telemetry/audit.go":    "Redis': when a pass began",
	"internal/telemetry/otlp.go":     "the host's, of a span",
}

// A process with a wrong clock behaves as one with a right clock: no decision reads it.
func TestHostClocksDecideNothing(t *testing.T) {
	t.Attr("proves", "F35")
	found, converted := map[string]bool{}, map[string]bool{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		file := filepath.ToSlash(rel)
		at, ok := roomOf(path.Dir(file))
		if !ok || at.testOnly || at.dir == "client" || at.dir == "worker" || at.dir == "internal/testreport" {
			return nil // not a part of the server
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if bytes.HasPrefix(text, []byte("//go:build failpoint")) {
			return nil
		}
		reads, converts, err := clocks(text)
		if reads {
			found[file] = true
		}
		if converts {
			converted[file] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	agree(t, "reads the host's clock", found, readers)
	agree(t, "makes a number of an instant", converted, numbers)
}

func agree(t *testing.T, what string, found map[string]bool, listed map[string]string) {
	t.Helper()
	for _, file := range slices.Sorted(maps.Keys(found)) {
		if listed[file] == "" {
			t.Errorf("%s %s: say what for, in the list above; what decides over a job reads TIME in a script", file, what)
		}
	}
	for _, file := range slices.Sorted(maps.Keys(listed)) {
		if !found[file] {
			t.Errorf("%s is listed and no longer %s", file, what)
		}
	}
}

// clocks reports whether a file reads the host's clock, and whether it converts an instant to a number.
func clocks(text []byte) (reads, converts bool, err error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), "", text, 0)
	if err != nil {
		return false, false, err
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		x, isName := s.X.(*ast.Ident)
		switch s.Sel.Name {
		case "Now", "Since", "Until":
			reads = reads || isName && x.Name == "time"
		case "Unix", "UnixMilli", "UnixMicro", "UnixNano":
			converts = converts || !isName || x.Name != "time" // time.UnixMilli converts a number to an instant
		}
		return true
	})
	return reads, converts, nil
}

// clocks finds each kind of reading and conversion.
func TestClocks(t *testing.T) {
	for body, want := range map[string][2]bool{
		"_ = time.Now()":               {true, false},
		"now := time.Now; _ = now":     {true, false},
		"_ = time.Since(at)":           {true, false},
		"_ = at.UnixMilli()":           {false, true},
		"_ = at.Add(time.Hour).Unix()": {false, true},
		"_ = time.UnixMilli(5)":        {false, false},
		"_ = q.Now()":                  {false, false},
	} {
		reads, converts, err := clocks([]byte("package p\nfunc f() { " + body + " }"))
		if err != nil || [2]bool{reads, converts} != want {
			t.Errorf("%s: reads %v, converts %v, %v", body, reads, converts, err)
		}
	}
}
