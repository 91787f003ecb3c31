package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/tierq/tierq/internal/access"
	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/config"
	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/queue"
)

// openExternal connects to a Redis and a MySQL, which several processes may share.
func openExternal(c config.Config, log *slog.Logger) (*stores, error) {
	roots, err := authorities(c.CAFile)
	if err != nil {
		return nil, err
	}
	clients, err := queue.ConnectTrusting(c.RedisURL, roots)
	if err != nil {
		return nil, err
	}
	db, err := database.Open(database.Options{MySQLDSN: c.MySQLDSN, Roots: roots, Log: log})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("MYSQL_DSN: %w", err), clients.Close())
	}
	waiting, survives := "Redis (REDIS_URL)", "everything that Redis and MySQL keep"
	if c.Journal {
		waiting, survives = "Redis (REDIS_URL), journaled in MySQL", "everything that MySQL keeps"
	}
	return &stores{
		clients:  clients,
		database: db,
		archive:  archive.New(db, archive.Options{Journal: c.Journal}),
		access:   access.New(db),
		mode:     "external",
		where:    []string{"waiting jobs  " + waiting, "results       MySQL (MYSQL_DSN)"},
		survives: survives,
		close:    func() error { return errors.Join(db.Close(), clients.Close()) },
	}, nil
}

// checkDurability logs what Redis keeps through a crash. It returns an error for a server that would evict jobs to
// free memory.
func checkDurability(ctx context.Context, v *queue.View, log *slog.Logger) error {
	d, err := v.ReadDurability(ctx)
	switch {
	case err != nil || d.Eviction == "":
		log.Warn("Redis does not tell how it persists and evicts; set maxmemory-policy noeviction", "err", err)
		return nil
	case d.Eviction != "noeviction":
		if d.Server != "" {
			d.Server = " on " + d.Server
		}
		return fmt.Errorf("redis would evict jobs to make room: set maxmemory-policy noeviction (it is %q%s)", d.Eviction,
			d.Server)
	case d.AOF:
		log.Info("Redis persists", "appendfsync", d.Fsync, "redis", d.Version)
	case !d.Known:
		log.Warn("Redis has no append-only file: a crash of Redis loses the latest changes; set appendonly yes", "redis",
			d.Version)
	case d.Save:
		log.Warn("Redis only takes snapshots: a crash of Redis loses the changes since the last one; set appendonly yes",
			"redis", d.Version)
	default:
		log.Warn("Redis does not persist: a restart of Redis loses its jobs; set appendonly yes", "redis", d.Version)
	}
	return nil
}
