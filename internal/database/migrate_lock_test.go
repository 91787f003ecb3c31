package database

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/testkit"
)

// everywhere runs test with a database on each backend, before any migration.
func everywhere(t *testing.T, test func(t *testing.T, db *DB)) {
	for backend, o := range map[string]Options{
		"sqlite": {SQLitePath: filepath.Join(t.TempDir(), "tierq.db")}, "mariadb": {MySQLDSN: testkit.SharedMariaDB(t)},
	} {
		t.Run(backend, func(t *testing.T) {
			db, err := Open(o)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			test(t, db)
		})
	}
}

// While another process migrates, a starting process logs that it waits, and gives up when its patience is over.
// It migrates once the other process is done.
func TestMigrateSaysThatItWaits(t *testing.T) {
	everywhere(t, func(t *testing.T, db *DB) {
		var log bytes.Buffer
		db.turn = turn{patience: 3 * time.Second, say: slog.New(slog.NewTextHandler(&log, nil)).Warn}
		done, release := make(chan error, 1), make(chan struct{})
		held := make(chan struct{})
		go func() {
			done <- db.Exclusive(t.Context(), func(*sql.DB) error {
				close(held)
				<-release
				return nil
			})
		}()
		<-held
		began := time.Now()
		err := db.Migrate(t.Context())
		if !errors.Is(err, errBusy) || !errors.Is(err, job.ErrUnavailable) {
			t.Error(err)
		}
		if took := time.Since(began); took < db.turn.patience || took > time.Minute {
			t.Errorf("after %s: %v", took, err)
		}
		if said := log.String(); !strings.Contains(said, "another process migrates") ||
			!strings.Contains(said, "giving_up_in=") {
			t.Errorf("no line says that it waits:\n%s", said)
		}
		t.Log(err, "\n", log.String())
		close(release)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if err := db.Migrate(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A process waits a minute for the lock, in virtual time: it logs at once, and then every few seconds.
func TestTurnToMigrateLastsAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, said, wait := time.Now(), []time.Duration(nil), newTurn(slog.New(slog.DiscardHandler))
		wait.say = func(string, ...any) { said = append(said, time.Since(began)) }
		try := func(ctx context.Context) (bool, error) {
			<-time.After(2 * time.Second)
			return false, nil
		}
		err := wait.await(t.Context(), try, func(context.Context) string { return "connection 7" })
		took := time.Since(began)
		if !errors.Is(err, errBusy) || !strings.Contains(err.Error(), "connection 7") || took != time.Minute {
			t.Errorf("after %s: %v", took, err)
		}
		if len(said) < 10 || said[0] > 5*time.Second {
			t.Errorf("said after %v", said)
		}
		for i := 1; i < len(said); i++ {
			if said[i]-said[i-1] > 5*time.Second {
				t.Errorf("said after %v", said)
			}
		}
	})
}
