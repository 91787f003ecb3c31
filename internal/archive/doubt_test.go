package archive_test

import (
	"errors"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/archive/archivetest"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/testkit"
)

// behind is a migrated archive that reaches its database through a proxy, with n dead letters.
func behind(t *testing.T, n int) (*archivetest.Store, *testkit.TCPProxy) {
	t.Helper()
	cfg, err := mysql.ParseDSN(archivetest.MariaDB(t).MySQLDSN)
	if err != nil {
		t.Fatal(err)
	}
	proxy := testkit.NewTCPProxy(t, cfg.Addr)
	cfg.Addr = proxy.Addr()
	s := archivetest.New(t, archive.Options{MySQLDSN: cfg.FormatDSN()})
	w := start(t, s.Archive, &redis{}, archive.WriterOptions{})
	for i := range n {
		record(t, w, discarded(i, i))
	}
	return s, proxy
}

// lost says whether an error leaves it open if the promise was made.
func lost(err error) bool {
	return errors.Is(err, job.ErrAmbiguous) && !errors.Is(err, job.ErrUnavailable)
}

// refused says whether an error says that no promise was made.
func refused(err error) bool {
	return errors.Is(err, job.ErrUnavailable) && !errors.Is(err, job.ErrAmbiguous)
}

// The promise is made and its answer lost: the same request asks again and hears of its own promise.
func TestPromiseAnswerLost(t *testing.T) {
	t.Attr("proves", "F40")
	t.Parallel()
	t.Run("mariadb", func(t *testing.T) {
		s, proxy := behind(t, 3)
		proxy.DropReply("request-1") // the id is not in the text that is prepared, only where it is executed
		if mine, err := s.PromiseRequeue(t.Context(), id(0), 1, job.Request{ID: "request-1"}); mine || !lost(err) ||
			proxy.Cuts() != 1 {
			t.Fatalf("%v, %v after %d cuts", mine, err, proxy.Cuts())
		}
		if row := s.Row(t, "failed_jobs WHERE job_id = ?", string(id(0))); row["requeue_request_id"] != "request-1" {
			t.Fatalf("the promise was not made: %v", row["requeue_request_id"])
		}
		if !promise(t, s.Archive, 0, 1, "request-1") {
			t.Error("asked again, the request is refused its own promise")
		}
		if promise(t, s.Archive, 0, 1, "request-2") {
			t.Error("another request got it too")
		}

		both := []job.DeadLetter{{Job: job.Job{ID: id(1), Generation: 1}}, {Job: job.Job{ID: id(2), Generation: 1}}}
		proxy.DropReply("request-3")
		if mine, err := s.PromiseRequeues(t.Context(), both, job.Request{ID: "request-3"}); mine != nil || !lost(err) ||
			proxy.Cuts() != 2 {
			t.Fatalf("%v, %v after %d cuts", mine, err, proxy.Cuts())
		}
		if mine, err := s.PromiseRequeues(t.Context(), both, job.Request{ID: "request-3"}); err != nil ||
			len(mine) != 2 ||
			!mine[0] ||
			!mine[1] {
			t.Errorf("asked again: %v, %v", mine, err)
		}
	})
}

// The promise was made before, and the answer to the look at it is lost.
func TestPromiseLookLost(t *testing.T) {
	t.Attr("proves", "F40")
	t.Parallel()
	t.Run("mariadb", func(t *testing.T) {
		s, proxy := behind(t, 1)
		promise(t, s.Archive, 0, 1, "request-1")
		proxy.DropReply("SELECT job_id, generation, requeue_request_id")
		if _, err := s.PromiseRequeue(t.Context(), id(0), 1, job.Request{ID: "request-1"}); !lost(err) || proxy.Cuts() != 1 {
			t.Fatalf("%v after %d cuts", err, proxy.Cuts())
		}
		if !promise(t, s.Archive, 0, 1, "request-1") {
			t.Error("asked again, the request is refused its own promise")
		}
	})
}

// Without a connection, and where the server does not let us in, no promise was made, and the error says so.
func TestPromiseNotMade(t *testing.T) {
	t.Attr("proves", "F14")
	t.Parallel()
	t.Run("mariadb", func(t *testing.T) {
		s, proxy := behind(t, 1)
		proxy.Refuse(true)
		proxy.Cut()
		if _, err := s.PromiseRequeue(t.Context(), id(0), 1, job.Request{ID: "request-1"}); !refused(err) {
			t.Errorf("nobody listens: %v", err)
		}
		proxy.Refuse(false)
		cfg, err := mysql.ParseDSN(s.Options.MySQLDSN)
		if err != nil {
			t.Fatal(err)
		}
		cfg.User, cfg.Passwd = "nobody", "wrong"
		stranger := archivetest.Open(t, archive.Options{MySQLDSN: cfg.FormatDSN()})
		if _, err := stranger.PromiseRequeue(t.Context(), id(0), 1, job.Request{ID: "request-1"}); !refused(err) ||
			!errors.Is(err, job.ErrDenied) {
			t.Errorf("a stranger: %v", err)
		}
		if !promise(t, s.Archive, 0, 1, "request-2") {
			t.Error("somebody has promised it")
		}
	})
	t.Run("sqlite", func(t *testing.T) {
		s := archivetest.New(t, archivetest.SQLite(t))
		w := start(t, s.Archive, &redis{}, archive.WriterOptions{})
		var batch []job.Outcome
		var letters []job.DeadLetter
		for n := range job.MaxBatch + 1 {
			batch = append(batch, discarded(n, n))
			letters = append(letters, job.DeadLetter{Job: batch[n].Job})
		}
		record(t, w, batch...)
		last := letters[job.MaxBatch].ID
		execute(t, s.DB, "CREATE TRIGGER closed BEFORE UPDATE ON failed_jobs WHEN OLD.job_id = '"+string(last)+"' BEGIN SELECT RAISE(ABORT, 'closed'); END")
		if _, err := s.PromiseRequeue(t.Context(), last, 1, job.Request{ID: "request-1"}); !refused(err) {
			t.Errorf("%v", err)
		}
		// One statement is carried out and the next one refused: some promises were made.
		if _, err := s.PromiseRequeues(t.Context(), letters, job.Request{ID: "request-1"}); !lost(err) {
			t.Errorf("half of many: %v", err)
		}
		if n := s.Count(t, "failed_jobs WHERE requeue_request_id = 'request-1'"); n != job.MaxBatch {
			t.Errorf("%d promises", n)
		}
	})
}
