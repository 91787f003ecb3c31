package archive

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/tierq/tierq/internal/job"
)

func TestMySQLConfig(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	cfg, err := mysqlConfig("u:p@tcp(db:3307)/tierq?parseTime=false&clientFoundRows=true&multiStatements=true&loc=Local", nil, log)
	if err != nil {
		t.Fatal(err)
	}
	if !cfg.ParseTime || cfg.Loc != time.UTC || !cfg.RejectReadOnly || cfg.ClientFoundRows || cfg.MultiStatements {
		t.Errorf("%+v", cfg)
	}
	if cfg.Timeout != 2*time.Second || cfg.ReadTimeout != 5*time.Second || cfg.WriteTimeout != 5*time.Second {
		t.Errorf("timeouts %v %v %v", cfg.Timeout, cfg.ReadTimeout, cfg.WriteTimeout)
	}
	if cfg.Collation != "utf8mb4_general_ci" || cfg.Params["time_zone"] != "'+00:00'" || cfg.Params["innodb_lock_wait_timeout"] != "3" {
		t.Errorf("%q %v", cfg.Collation, cfg.Params)
	}
	cfg, err = mysqlConfig("u:p@tcp(db:3307)/tierq?readTimeout=9s&innodb_lock_wait_timeout=7&collation=utf8mb4_bin", nil, log)
	if err != nil || cfg.ReadTimeout != 9*time.Second || cfg.Params["innodb_lock_wait_timeout"] != "7" || cfg.Collation != "utf8mb4_bin" {
		t.Errorf("the DSN's own settings are lost: %v %+v", err, cfg)
	}
}

func TestVerdicts(t *testing.T) {
	my := func(number uint16, state string) error {
		e := &mysql.MySQLError{Number: number}
		copy(e.SQLState[:], state)
		return fmt.Errorf("insert: %w", e)
	}
	for _, c := range []struct {
		name string
		err  error
		want verdict
	}{
		{"deadlock", my(1213, "40001"), again},
		{"lock wait", my(1205, "HY000"), again},
		{"too long", my(1406, "22001"), badData},
		{"not null", my(1048, "23000"), badData},
		{"incorrect string, MySQL", my(1366, "HY000"), badData},
		{"CHECK, MariaDB", my(4025, "23000"), badData},
		{"larger than a packet", mysql.ErrPktTooLarge, badData},
		{"too many connections", my(1040, "08004"), down},
		{"shutting down", my(1053, "08S01"), down},
		{"read-only", my(1290, "HY000"), down},
		{"statement timeout", my(3024, "HY000"), down},
		{"no such table", my(1146, "42S02"), down},
		{"bad connection", driver.ErrBadConn, down},
		{"deadline", context.DeadlineExceeded, down},
		{"anything else", errors.New("surprise"), down},
	} {
		if got := mysqlVerdict(c.err); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestRefusalsBackOff(t *testing.T) {
	var r refusals
	now := time.Unix(1_764_000_000, 0)
	k := key{"a", 1}
	if r.holds(k, now) {
		t.Error("held before it was refused")
	}
	for i, seconds := range []int{10, 20, 40, 80, 160, 300, 300, 300} {
		want := time.Duration(seconds) * time.Second
		if got := r.add(k, now); got != want {
			t.Errorf("refusal %d waits %v, want %v", i+1, got, want)
		}
		if !r.holds(k, now.Add(want-1)) || r.holds(k, now.Add(want)) || r.holds(key{"a", 2}, now) {
			t.Errorf("refusal %d is held wrongly", i+1)
		}
	}
	r.remove(k)
	if r.holds(k, now) || r.add(k, now) != 10*time.Second {
		t.Error("not forgotten")
	}
	for i := range refusalLimit + 5 {
		r.add(key{job.ID(fmt.Sprint(i)), 1}, now.Add(time.Duration(i)))
	}
	if len(r.rows) != refusalLimit || r.holds(key{"0", 1}, now) || !r.holds(key{job.ID(fmt.Sprint(refusalLimit)), 1}, now) {
		t.Errorf("%d rows; the first due should be forgotten", len(r.rows))
	}
}

// all lists what waits, in order.
func all(b *backlog) (entries []*entry) {
	b.Remove(func(e *entry) bool {
		entries = append(entries, e)
		return false
	})
	return entries
}

func TestBacklogTakes(t *testing.T) {
	now := time.Unix(1_764_000_000, 0)
	of := func(id string, generation, size int) *entry {
		return newEntry(job.Outcome{Job: job.Job{ID: job.ID(id), Generation: generation, Status: job.Completed, Result: bytes.Repeat([]byte("x"), size)}}, nil, now)
	}
	b := newBacklog()
	take := func() []*entry {
		batch, left := b.take(now)
		if left != 0 {
			t.Errorf("%d left", left)
		}
		return batch
	}
	for i := range maxBatch + 1 {
		b.Add(of(fmt.Sprint(i), 1, 0))
	}
	if n := len(take()); n != maxBatch || b.Len() != 1 {
		t.Errorf("took %d, left %d", n, b.Len())
	}
	b.Add(of("same", 1, 0))
	b.Add(of("same", 1, 0))
	b.Add(of("same", 2, 0))
	if n := len(take()); n != 3 || b.Len() != 1 || all(&b)[0].Generation != 1 {
		t.Errorf("took %d, left %d: one key twice in a batch", n, b.Len())
	}
	take()
	if b.Bytes() != 0 {
		t.Errorf("%d bytes of nothing", b.Bytes())
	}
	b.Add(of("huge", 1, 2*maxBatchBytes))
	b.Add(of("small", 1, 0))
	first := take()
	if len(first) != 1 || first[0].ID != "huge" {
		t.Errorf("took %d", len(first))
	}
	b.AddFirst(first...)
	if again := take(); len(again) != 1 || again[0].ID != "huge" || b.Len() != 1 {
		t.Error("what was put back does not come first")
	}

	r := &recording{left: 2, done: make(chan struct{})}
	for range 2 {
		e := of("recorded", 1, 5)
		e.of = r
		b.Add(e)
	}
	b.dropRecorded(errors.New("down"))
	<-r.done
	if b.Len() != 1 || all(&b)[0].ID != "small" || b.Bytes() != all(&b)[0].bytes || r.err == nil {
		t.Errorf("%d wait, %d bytes, %v", b.Len(), b.Bytes(), r.err)
	}
}

// While SQL is behind, offers that are old are left to the outbox, and nothing that somebody waits for is; a backlog that fits one batch is
// written whatever its age.
func TestBacklogLeavesOldOffers(t *testing.T) {
	now := time.Unix(1_764_000_000, 0)
	b := newBacklog()
	add := func(id string, age time.Duration, of *recording) {
		b.Add(newEntry(job.Outcome{Job: job.Job{ID: job.ID(id), Generation: 1, Status: job.Completed}}, of, now.Add(-age)))
	}
	for i := range maxBatch {
		add(fmt.Sprint("old", i), time.Hour, nil)
	}
	if batch, left := b.take(now); len(batch) != maxBatch || left != 0 {
		t.Errorf("a backlog of one batch: %d taken, %d left", len(batch), left)
	}
	r := &recording{left: 1, done: make(chan struct{})}
	for i := range maxBatch {
		add(fmt.Sprint("old", i), offerAge+1, nil)
	}
	add("waited for", time.Hour, r)
	add("young", offerAge, nil)
	batch, left := b.take(now)
	if len(batch) != 2 || left != maxBatch || batch[0].ID != "waited for" || batch[1].ID != "young" || b.Bytes() != 0 || b.Len() != 0 {
		t.Errorf("%d taken, %d left, %d bytes, %d wait", len(batch), left, b.Bytes(), b.Len())
	}
}

func TestCut(t *testing.T) {
	for n := range 2 * maxBatch {
		left, statements := n, 0
		for ; left > 0; left -= cut(left) {
			statements++
		}
		if left != 0 || statements > 10 {
			t.Errorf("%d rows: %d statements, %d left", n, statements, left)
		}
	}
}

// What a DSN may ask for that opens the connection to whoever stands in between is refused, and does not show the password.
func TestDSNsThatTrustAnybody(t *testing.T) {
	t.Attr("proves", "A48")
	log := slog.New(slog.DiscardHandler)
	roots := x509.NewCertPool()
	for query, want := range map[string]string{
		"tls=skip-verify": "TIERQ_CA_FILE", "tls=preferred": "TIERQ_CA_FILE", "tls=true&allowFallbackToPlaintext=true": "TIERQ_CA_FILE",
		"allowFallbackToPlaintext=true": "TIERQ_CA_FILE", "allowCleartextPasswords=true": "tls=true", "allowAllFiles=true": "allowAllFiles",
		"tls=mine": "mine", "": "", "tls=false": "", "tls=true": "", "tls=true&allowCleartextPasswords=true": "",
	} {
		cfg, err := mysqlConfig("u:hunter2@tcp(db:3307)/tierq?"+query, roots, log)
		switch {
		case want == "" && err != nil, want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2")):
			t.Errorf("%s: %v, want %q", query, err, want)
		case want == "" && strings.Contains(query, "tls=true") && (cfg.TLS.ServerName != "db" || cfg.TLS.RootCAs != roots || cfg.TLS.MinVersion != tls.VersionTLS12):
			t.Errorf("%s: %+v", query, cfg.TLS)
		}
	}
}
