package app

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/tierq/tierq/internal/access"
	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/config"
	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/embedded"
	"github.com/tierq/tierq/internal/queue"
)

// openEmbedded makes the stores of a process without configured stores: a Redis in memory, reached without a port,
// and a SQLite file in the data folder, which one process at a time may use.
func openEmbedded(c config.Config, log *slog.Logger) (*stores, error) {
	if err := os.MkdirAll(c.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("TIERQ_DATA_DIR: %w", err)
	}
	lock, err := lockFolder(c.DataDir)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(c.DataDir, "tierq.sqlite")
	db, err := database.Open(database.Options{SQLitePath: file, Log: log})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("TIERQ_DATA_DIR: %w", err), lock.Close())
	}
	server := embedded.New()
	clients := queue.ConnectInMemory(server.Dial)
	store := archive.New(db, archive.Options{Journal: true})
	return &stores{
		clients:  clients,
		database: db,
		archive:  store,
		access:   access.New(db),
		mode:     "embedded",
		where: []string{"everything    " + file,
			fmt.Sprintf("at most       %d waiting and %d scheduled jobs; for more, REDIS_URL and MYSQL_DSN", c.Capacity,
				c.ScheduledLimit)},
		survives: "every accepted job, result and dead letter, also if the process is killed",
		server:   server,
		embedded: &keeper{redis: server, sql: store, dir: c.DataDir, log: log},
		keep:     embeddedKeep,
		close: func() error {
			server.Close()
			return errors.Join(clients.Close(), db.Close(), lock.Close())
		},
	}, nil
}

// embeddedKeep is how long the embedded server keeps ended jobs. Each advance of its clock walks over every key,
// and SQL, in the same process, answers as well.
const embeddedKeep = time.Minute

// embeddedKeys is the longest time that the embedded server keeps an Idempotency-Key, for the same reason.
const embeddedKeys = 10 * time.Minute

var errInUse = errors.New("is in use by another tierq")

// lockFolder locks the folder against a second process for as long as the file stays open.
func lockFolder(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "tierq.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("TIERQ_DATA_DIR: %w", err)
	}
	if err := lockFile(f); err != nil {
		return nil, errors.Join(fmt.Errorf("TIERQ_DATA_DIR: %s %w; give this one a folder of its own", dir, errInUse),
			f.Close())
	}
	return f, nil
}
