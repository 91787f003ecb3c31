package archive_test

import (
	"errors"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/archive/archivetest"
	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/database/databasetest"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/testkit"
)

// behind returns a migrated archive with n dead letters that reaches its database through a proxy.
func behind(t *testing.T, n int) (*archivetest.Store, *testkit.TCPProxy) {
	t.Helper()
	cfg, err := mysql.ParseDSN(databasetest.MariaDB(t).MySQLDSN)
	if err != nil {
		t.Fatal(err)
	}
	proxy := testkit.NewTCPProxy(t, cfg.Addr)
	cfg.Addr = proxy.Addr()
	s := archivetest.New(t, database.Options{MySQLDSN: cfg.FormatDSN()})
	w := start(t, s.Archive, &redis{}, archive.WriterOptions{})
	for i := range n {
		record(t, w, discarded(i, i))
	}
	return s, proxy
}

// lost says whether an error leaves open whether the promise was made.
func lost(err error) bool {
	return errors.Is(err, job.ErrAmbiguous) && !errors.Is(err, job.ErrUnavailable)
}

// refused says whether an error says that no promise was made.
func refused(err error) bool {
	return errors.Is(err, job.ErrUnavailable) && !errors.Is(err, job.ErrAmbiguous)
}

// askFor makes the promises of one request.
func askFor(t *testing.T, a *archive.Archive, request string, lives ...job.JournalRow) ([]bool, error) {
	t.Helper()
	return a.PromiseRequeues(t.Context(), lives, job.Request{ID: request})
}

// If a promise is made and its answer is lost, a repeat of the same request gets its own promise.
func TestPromiseAnswerLost(t *testing.T) {
	t.Attr("proves", "F40")
	t.Parallel()
	t.Run("mariadb", func(t *testing.T) {
		s, proxy := behind(t, 3)
		proxy.DropReply("\x03COMMIT")
		if mine, err := askFor(t, s.Archive, "request-1", next(0, 1)); mine != nil || !lost(err) || proxy.Cuts() != 1 {
			t.Fatalf("%v, %v after %d cuts", mine, err, proxy.Cuts())
		}
		if row := s.Row(t, "failed_jobs WHERE job_id = ?", string(id(0))); row["requeue_request_id"] != "request-1" {
			t.Fatalf("the promise was not made: %v", row["requeue_request_id"])
		}
		if n := s.Count(t, "accepted_jobs WHERE job_id = ? AND generation = 2", string(id(0))); n != 1 {
			t.Errorf("%d rows", n)
		}
		if !promise(t, s.Archive, 0, 1, "request-1") {
			t.Error("asked again, the request is refused its own promise")
		}
		if promise(t, s.Archive, 0, 1, "request-2") {
			t.Error("another request got it too")
		}
		proxy.DropReply("\x03COMMIT")
		both := []job.JournalRow{next(1, 1), next(2, 1)}
		if mine, err := askFor(t, s.Archive, "request-3", both...); mine != nil || !lost(err) || proxy.Cuts() != 2 {
			t.Fatalf("%v, %v after %d cuts", mine, err, proxy.Cuts())
		}
		mine, err := askFor(t, s.Archive, "request-3", both...)
		if err != nil || len(mine) != 2 || !mine[0] || !mine[1] {
			t.Errorf("asked again: %v, %v", mine, err)
		}
	})
}

// If the connection breaks within the transaction, nothing is promised, and the error says so.
func TestPromiseBrokenOff(t *testing.T) {
	t.Attr("proves", "F40")
	t.Parallel()
	t.Run("mariadb", func(t *testing.T) {
		for _, statement := range []string{"requeue_request_id FROM failed_jobs", "request-1"} {
			s, proxy := behind(t, 1)
			proxy.DropReply(statement) // the prepared text does not have the id; only its execution has
			if _, err := askFor(t, s.Archive, "request-1", next(0, 1)); !refused(err) || proxy.Cuts() != 1 {
				t.Fatalf("%v after %d cuts", err, proxy.Cuts())
			}
			taken := s.Count(t, "failed_jobs WHERE requeue_requested_at IS NOT NULL")
			if rows := s.Count(t, "accepted_jobs"); taken+rows != 0 {
				t.Errorf("half a promise: %d letters, %d rows", taken, rows)
			}
			if !promise(t, s.Archive, 0, 1, "request-2") {
				t.Error("somebody has promised it")
			}
		}
	})
}

// Without a connection, and if the server refuses the login, no promise is made, and the error says so.
func TestPromiseNotMade(t *testing.T) {
	t.Attr("proves", "F14")
	t.Parallel()
	t.Run("mariadb", func(t *testing.T) {
		s, proxy := behind(t, 1)
		proxy.Refuse(true)
		proxy.Cut()
		if _, err := askFor(t, s.Archive, "request-1", next(0, 1)); !refused(err) {
			t.Errorf("nobody listens: %v", err)
		}
		proxy.Refuse(false)
		cfg, err := mysql.ParseDSN(s.Options.MySQLDSN)
		if err != nil {
			t.Fatal(err)
		}
		cfg.User, cfg.Passwd = "nobody", "wrong"
		stranger := archive.New(databasetest.Open(t, database.Options{MySQLDSN: cfg.FormatDSN()}), archive.Options{})
		if _, err := askFor(t, stranger, "request-1", next(0, 1)); !refused(err) || !errors.Is(err, job.ErrDenied) {
			t.Errorf("a stranger: %v", err)
		}
		if !promise(t, s.Archive, 0, 1, "request-2") {
			t.Error("somebody has promised it")
		}
	})
	t.Run("sqlite", func(t *testing.T) {
		s := archivetest.New(t, databasetest.SQLite(t))
		w := start(t, s.Archive, &redis{}, archive.WriterOptions{})
		var batch []job.Outcome
		var letters []job.JournalRow
		for n := range job.MaxBatch + 1 {
			batch = append(batch, discarded(n, n))
			letters = append(letters, next(n, 1))
		}
		record(t, w, batch...)
		last := letters[job.MaxBatch].ID
		execute(t, s.DB, "CREATE TRIGGER closed BEFORE UPDATE ON failed_jobs WHEN OLD.job_id = '"+string(last)+
			"' BEGIN SELECT RAISE(ABORT, 'closed'); END")
		if _, err := askFor(t, s.Archive, "request-1", letters[job.MaxBatch]); !refused(err) {
			t.Errorf("%v", err)
		}
		// The first transaction succeeds and the next one is refused: some promises were made.
		if _, err := askFor(t, s.Archive, "request-1", letters...); !lost(err) {
			t.Errorf("half of many: %v", err)
		}
		if n := s.Count(t, "failed_jobs WHERE requeue_request_id = 'request-1'"); n != job.MaxBatch {
			t.Errorf("%d promises", n)
		}
	})
}
