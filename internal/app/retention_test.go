package app

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/archive/archivetest"
	"github.com/tierq/tierq/internal/config"
	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/httpapi"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/recovery"
	"github.com/tierq/tierq/internal/testkit"
)

// aging is an embedded server whose Redis forgets ended jobs at once, with a second connection to its SQLite file.
type aging struct {
	*server
	t    *testing.T
	dir  string
	sql  *archivetest.Store
	base string
}

func newAging(t *testing.T, more ...string) *aging {
	t.Helper()
	dir := t.TempDir()
	c, err := config.Load(append([]string{
		"TIERQ_DATA_DIR=" + dir, "TIERQ_ADDR=127.0.0.1:0", "TIERQ_RETENTION=0", "TIERQ_FAILED_RETENTION=0", "TIERQ_DEMO=off",
		"TIERQ_WORKERS=2",
	}, more...), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	s, err := openStores(c, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.close() })
	out, err := openOutgoing(t.Context(), c, true, "test", log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = out.close() })
	v, err := newServer(c, s, out, Options{Version: "test", Out: io.Discard, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	if err := v.prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := start(t.Context(), v.parts, log); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stop(v.parts, log); err != nil {
			t.Error(err)
		}
	})
	beside := archivetest.New(t, database.Options{SQLitePath: filepath.Join(dir, "tierq.sqlite")})
	return &aging{server: v, t: t, dir: dir, sql: beside, base: "http://" + v.http.Addr()}
}

func (a *aging) get(path string) (status int, body string) {
	a.t.Helper()
	r, err := http.Get(a.base + path)
	if err != nil {
		a.t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	return r.StatusCode, string(text)
}

// done submits a job and waits until only SQL knows it.
func (a *aging) done(body string) job.ID {
	a.t.Helper()
	r, err := http.Post(a.base+"/paid/submit", "application/json", strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	defer r.Body.Close()
	var answer struct {
		APIResponseData struct{ JobID job.ID }
	}
	if err := json.NewDecoder(r.Body).Decode(&answer); err != nil || r.StatusCode != http.StatusAccepted {
		a.t.Fatal(r.StatusCode, err)
	}
	id := answer.APIResponseData.JobID
	testkit.Eventually(a.t, 30*time.Second, "the job is in SQL alone", func() (bool, string) {
		_, err := a.stores.archive.Find(a.t.Context(), id)
		missing, gone := a.queue.Missing(a.t.Context(), []job.ID{id})
		return err == nil && gone == nil && len(missing) == 1, fmt.Sprint(err, gone, missing)
	})
	return id
}

// age sets the time of a job's outcome in SQL to some days ago.
func (a *aging) age(id job.ID, days int) {
	a.t.Helper()
	at := time.Now().UTC().AddDate(0, 0, -days).Format("2006-01-02 15:04:05.000000")
	for _, table := range []string{"job_outcomes", "job_results"} {
		a.sql.Exec(a.t, "UPDATE "+table+" SET recorded_at = ? WHERE job_id = ?", at, string(id))
	}
}

// retain makes the retention run once.
func (a *aging) retain() {
	a.t.Helper()
	before, _ := a.retention.Last()
	a.retention.Wake()
	testkit.Eventually(a.t, 30*time.Second, "a run of the retention", func() (bool, string) {
		last, ok := a.retention.Last()
		if ok && last.Problem != "" {
			a.t.Error(last.Problem)
		}
		if !ok || last.At.Equal(before.At) {
			a.retention.Wake() // the first run, at the start, only counts
			return false, fmt.Sprint(last)
		}
		return true, ""
	})
}

// A job past its retention is like a job that never existed: its poll and its file are 404. Younger jobs stay.
func TestRetentionOfAServer(t *testing.T) {
	a := newAging(t, "TIERQ_SQL_RETENTION=90d,PAID.results=30d,mails=2d")
	const pdf = `{"type": "GENERATE_PDF", "payload": {"title": "t", "paragraphs": ["p"]}}`
	old, young, plain := a.done(pdf), a.done(pdf), a.done(`{}`)
	for _, id := range []job.ID{old, plain} {
		a.age(id, 31)
	}
	a.age(young, 29)
	file := func(id job.ID) string { return filepath.Join(a.dir, "artifacts", string(id[34:]), string(id)+".1") }
	mails := filepath.Join(a.dir, "mail")
	if err := os.MkdirAll(mails, 0o700); err != nil {
		t.Fatal(err)
	}
	lost := job.ID(
		"019a0000-0000-7000-8000-000000000100",
	) // its worker crashed after writing the file, and no store knows the job
	aged := time.Now().AddDate(0, 0, -31)
	for name, left := range map[string]bool{file(lost): true, filepath.Join(mails, string(lost)+".eml"): true,
		file(young): false} {
		if left {
			if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, []byte("{}\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chtimes(name, aged, aged); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []job.ID{old, young} {
		if status, _ := a.get("/jobs/" + string(id) + "/artifact"); status != http.StatusOK {
			t.Fatalf("before: the file of %s is %d", id, status)
		}
	}
	a.retain()
	for id, want := range map[job.ID]int{old: 404, plain: 404, young: 200} {
		if status, body := a.get("/result/poll?jobId=" + string(id)); status != want ||
			want == 404 && !strings.Contains(body, "JOB_NOT_FOUND") {
			t.Errorf("poll of %s: %d %s, want %d", id, status, body, want)
		}
	}
	for id, want := range map[job.ID]int{old: 404, young: 200} {
		if status, _ := a.get("/jobs/" + string(id) + "/artifact"); status != want {
			t.Errorf("the file of %s: %d, want %d", id, status, want)
		}
	}
	for name, want := range map[string]bool{file(old): false, file(lost): false,
		filepath.Join(mails, string(lost)+".eml"): false, file(young): true} {
		if _, err := os.Stat(name); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, metrics := a.get("/metrics")
	for _, want := range []string{
		`tierq_sql_rows{table="job_results"} 1`, `tierq_sql_rows_deleted_total{table="job_results"} 2`,
		`tierq_files_deleted_total{kind="mail"} 1`,
		`tierq_files_deleted_total{kind="artifact"} 1`,
	} {
		if !strings.Contains(metrics, want+"\n") {
			t.Errorf("no %s", want)
		}
	}
	if _, body := a.get("/admin/consistency"); !strings.Contains(body, "2 old jobs deleted since the start") {
		t.Error("the doctor does not say what was deleted: " + body)
	}
	if _, body := a.get("/api/jobs?status=COMPLETED"); strings.Contains(body, string(old)) ||
		!strings.Contains(body, string(young)) {
		t.Error("the list: " + body)
	}
}

// By default a job of 89 days stays; with "forever" a job of any age.
func TestRetentionKeepsByDefault(t *testing.T) {
	for setting, days := range map[string]int{"": 89, "forever": 4000} {
		t.Run(fmt.Sprintf("%q", setting), func(t *testing.T) {
			a := newAging(t, "TIERQ_SQL_RETENTION="+setting)
			id := a.done(`{}`)
			a.age(id, days)
			a.retain()
			if status, _ := a.get("/result/poll?jobId=" + string(id)); status != http.StatusOK {
				t.Errorf("after %d days: %d", days, status)
			}
		})
	}
}

// Only an embedded server deletes files of unknown jobs, because it locks its folder. In external mode two
// clusters may use one folder, and files of jobs that one cluster does not know may belong to the other.
func TestLeftFilesAreSweptInALockedFolderOnly(t *testing.T) {
	external := []string{"REDIS_URL=redis://127.0.0.1:1/0", "MYSQL_DSN=tierq@tcp(127.0.0.1:1)/tierq"}
	for _, tc := range []struct {
		env  []string
		want string
	}{
		{nil, "mail artifact "},
		{[]string{"TIERQ_BLOB_URL=file:///tmp/files"}, "mail "}, {[]string{"TIERQ_SQL_RETENTION=0"}, ""},
		{external, "mail "}, {append(external, "TIERQ_SQL_RETENTION=90d,mails=0"), ""},
	} {
		c, err := config.Load(tc.env, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		kinds := ""
		for _, f := range (&server{config: c, stores: &stores{}}).oldFiles(c.SQLAges()) {
			kinds += f.Kind + " "
		}
		if kinds != tc.want {
			t.Errorf("%v: %q are deleted, want %q", tc.env, kinds, tc.want)
		}
	}
}

// The doctor warns about the retention only if a run failed.
func TestRetentionCheck(t *testing.T) {
	now := time.Now()
	at := now.Add(-time.Minute)
	for want, got := range map[string]httpapi.AuditCheck{
		"ok processes with the recovery role delete old jobs; this process does not ": retentionCheck(
			recovery.RetentionReport{Problem: "no mail"}, true, false, now),
		"ok no run yet: the first run starts within ten minutes of the server's start ": retentionCheck(
			recovery.RetentionReport{}, false, true, now),
		"ok 7 old jobs deleted since the start, last run 1m0s ago ": retentionCheck(
			recovery.RetentionReport{At: at, Total: 7, Whole: true}, true, true, now),
		"ok 7 old jobs deleted since the start, last run 1m0s ago, more old jobs are left ": retentionCheck(
			recovery.RetentionReport{At: at, Total: 7}, true, true, now),
		"warn 0 old jobs deleted since the start, last run 1m0s ago: SQL is away " +
			"repair that: old jobs stay in SQL until then": retentionCheck(
			recovery.RetentionReport{At: at, Problem: "SQL is away"}, true, true, now),
	} {
		if said := got.Status + " " + got.Detail + " " + got.Fix; said != want || got.Name != "retention" {
			t.Errorf("%s: %q, want %q", got.Name, said, want)
		}
	}
}
