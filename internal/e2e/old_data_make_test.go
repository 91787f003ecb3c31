//go:build olddata

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// TestMakeOldData writes testdata/old/<name>: the data that a build leaves when its processes end in the middle of
// everything. The build is a tierq with failpoints, made from the commit:
//
//	go build -tags nomsgpack,failpoint -o /tmp/old ./cmd/tierq
//	export OLD_BUILD=/tmp/old OLD_COMMIT=6344639 OLD_NAME=first-edition
//	go test -tags=nomsgpack,olddata -run TestMakeOldData ./internal/e2e
func TestMakeOldData(t *testing.T) {
	c := emptyCluster(t)
	c.bin = os.Getenv("OLD_BUILD")
	_, text := run(t, c.bin, nil, "keys", "generate")
	facts := oldFacts{Commit: os.Getenv("OLD_COMMIT"), Admin: strings.TrimSpace(text), Jobs: map[string]oldJob{}}
	start := func(more ...string) *server {
		return c.start(slices.Concat(oldSettings, []string{"TIERQ_ADMIN_KEY=" + facts.Admin}, more)...)
	}
	s := start()
	facts.Submitter = s.makeKey(facts.Admin, http.MethodPost, "/admin/keys", `{"name":"ci","role":"submit"}`).Key
	facts.Read = s.makeKey(facts.Admin, http.MethodPost, "/admin/keys", `{"name":"watcher","role":"read-only"}`).Key
	submit := func(name, options string, j oldJob) string {
		t.Helper()
		if j.Called > 0 {
			options += fmt.Sprintf(`,"callbackUrl":"http://%s/%s"`, oldReceiver, name)
		}
		a := s.asks(facts.Submitter, http.MethodPost, "/paid/submit", "{"+strings.TrimPrefix(options, ",")+"}")
		if a.status != http.StatusAccepted {
			t.Fatalf("%s: %d %s", name, a.status, a.body)
		}
		j.ID = accepted(t, a)
		facts.Jobs[name] = j
		return j.ID
	}
	left := func(how, status string, generation, called int) oldJob {
		return oldJob{Left: how, Status: status, Generation: generation, Called: called}
	}
	is := func(id, status string) {
		t.Helper()
		testkit.Eventually(t, 20*time.Second, id+" is "+status, func() (bool, string) {
			a := s.asks(facts.Admin, http.MethodGet, "/result/poll?jobId="+id, "")
			return strings.Contains(string(a.body), `"`+status+`"`), string(a.body)
		})
	}
	const fails = `,"maxRetries":0,"payload":{"steps":[{"type":"FAIL","message":"no"}]}`
	is(submit("ended", "", left("COMPLETED, in SQL", "COMPLETED", 1, 0)), "COMPLETED")
	is(submit("dead", fails, left("a dead letter", "FAILED", 1, 0)), "FAILED")
	promised := submit("promised", fails, left("a dead letter; a requeue was promised", "FAILED", 2, 0))
	is(promised, "FAILED")
	uncalled := submit("uncalled", "", left("COMPLETED; its callback waits for another try", "COMPLETED", 1, 1))
	is(uncalled, "COMPLETED")
	const quiet = "a callback waits for another try, all else is in SQL"
	testkit.Eventually(t, 20*time.Second, quiet, func() (bool, string) {
		waits := c.rdb.ZCard(t.Context(), "{tierq:0}:scheduled").Val()
		left := c.outbox()
		return waits == 1 && left == 0 && len(c.outcomes()) == 4, fmt.Sprintf("%d, %d in the outbox", waits, left)
	})
	s.terminate(20 * time.Second)

	d := start("TIERQ_ROLES=api", "TIERQ_FAILPOINTS=promise.after=kill")
	a, err := try(http.MethodPost, d.base+"/jobs/"+promised+"/retry", "", "Authorization", "Bearer "+facts.Admin)
	if err == nil {
		t.Fatalf("the requeue was answered: %d %s", a.status, a.body)
	}
	d.waitFor("failpoint promise.after hit", 10*time.Second)

	s = start("TIERQ_ROLES=api")
	submit("running", "", left("claimed by a worker that was killed then", "COMPLETED", 1, 1))
	worker := []string{"TIERQ_ROLES=worker", "TIERQ_WORKERS=1"}
	start(append(worker, "TIERQ_FAILPOINTS=claim.after=kill")...).waitFor("failpoint claim.after hit", 10*time.Second)
	submit("unrecorded", "", left("COMPLETED, and SQL does not have it", "COMPLETED", 1, 1))
	completing := start(append(worker, "TIERQ_FAILPOINTS=complete.after=kill")...)
	completing.waitFor("failpoint complete.after hit", 10*time.Second)
	cancelled := submit("cancelled", `,"delaySeconds":3600`,
		left("cancelled, and SQL does not have it", "CANCELLED", 1, 0))
	wants(t, s.asks(facts.Submitter, http.MethodDelete, "/api/jobs/"+cancelled, ""), http.StatusOK, "")
	for _, name := range []string{"waiting-1", "waiting-2", "waiting-3"} {
		submit(name, "", left("it waits", "COMPLETED", 1, 1))
	}
	submit("doomed", fails, left("it waits, and will fail", "FAILED", 1, 1))
	submit("delayed", `,"delaySeconds":30`, left("it waits for its time", "COMPLETED", 1, 1))
	s.terminate(20 * time.Second)

	c.row("SELECT MAX(version_id) FROM goose_db_version", &facts.Schema)
	about, err := json.MarshalIndent(facts, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join("testdata", "old", os.Getenv("OLD_NAME"))
	if err := os.MkdirAll(folder, 0o750); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"facts.json": string(about) + "\n", "rows.sql": c.rows(), "commands.resp": c.commands(),
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// rows returns statements that insert SQL's present rows, one per line.
func (c *cluster) rows() string {
	var all strings.Builder
	for _, table := range c.column("SHOW TABLES") {
		if table == "goose_db_version" { // the migrations fill it
			continue
		}
		names := c.column("SELECT column_name FROM information_schema.columns WHERE table_schema = DATABASE() " +
			"AND extra NOT LIKE '%GENERATED%' AND table_name = '" + table + "'")
		rows, err := c.db.QueryContext(c.t.Context(), "SELECT "+strings.Join(names, ", ")+" FROM "+table)
		if err != nil {
			c.t.Fatal(err)
		}
		for rows.Next() {
			values, into := make([]*string, len(names)), make([]any, len(names))
			for i := range values {
				into[i] = &values[i]
			}
			if err := rows.Scan(into...); err != nil {
				c.t.Fatal(err)
			}
			said := make([]string, len(values))
			for i, v := range values {
				switch {
				case v == nil:
					said[i] = "NULL"
				case strings.ContainsFunc(*v, func(r rune) bool {
					return r < ' ' || r > '~' || r == '\'' || r == '\\'
				}):
					said[i] = fmt.Sprintf("0x%x", *v)
				default:
					said[i] = "'" + *v + "'"
				}
			}
			columns, row := strings.Join(names, ", "), strings.Join(said, ", ")
			fmt.Fprintf(&all, "INSERT INTO %s (%s) VALUES (%s)\n", table, columns, row)
		}
		if err := rows.Err(); err != nil {
			c.t.Fatal(err)
		}
	}
	return all.String()
}

func (c *cluster) column(query string) (all []string) {
	rows, err := c.db.QueryContext(c.t.Context(), query)
	if err != nil {
		c.t.Fatal(err)
	}
	for rows.Next() {
		var one string
		if err := rows.Scan(&one); err != nil {
			c.t.Fatal(err)
		}
		all = append(all, one)
	}
	if err := rows.Err(); err != nil {
		c.t.Fatal(err)
	}
	return all
}

// commands returns the commands that make Redis' present data, as in a new AOF.
func (c *cluster) commands() string {
	ctx := c.t.Context()
	for name, value := range map[string]string{"aof-use-rdb-preamble": "no", "appendonly": "yes"} {
		if err := c.rdb.ConfigSet(ctx, name, value).Err(); err != nil {
			c.t.Fatal(err)
		}
	}
	if err := c.rdb.BgRewriteAOF(ctx).Err(); err != nil && !strings.Contains(err.Error(), "in progress") {
		c.t.Fatal(err)
	}
	testkit.Eventually(c.t, 20*time.Second, "the AOF is rewritten", func() (bool, string) {
		info := c.rdb.Info(ctx, "persistence").Val()
		return strings.Contains(info, "aof_rewrite_in_progress:0") &&
			strings.Contains(info, "aof_rewrite_scheduled:0"), info
	})
	settings := c.rdb.ConfigGet(ctx, "*dir*").Val()
	base, err := filepath.Glob(filepath.Join(settings["dir"], settings["appenddirname"], "*.base.aof"))
	if err != nil || len(base) != 1 {
		c.t.Fatal(base, err, settings)
	}
	text, err := os.ReadFile(base[0])
	if err != nil {
		c.t.Fatal(err)
	}
	return string(text)
}
