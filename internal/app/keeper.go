package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/embedded"
	"github.com/tierq/tierq/internal/queue"
)

// keeper carries what an embedded Redis knows, and rows do not have, from one process to the next.
type keeper struct {
	redis *embedded.Redis
	sql   *archive.Archive
	dir   string
	log   *slog.Logger

	queue *queue.Queue  // since load
	last  embedded.Head // of the snapshot that was loaded; zero = none
}

// sealName is the name under which SQL keeps the key that seals leases and cursors.
const sealName = "seal"

// load gives Redis the snapshot of the last orderly stop, if there is one, and the key that seals leases.
func (k *keeper) load(ctx context.Context, q *queue.Queue) error {
	k.queue = q
	key, err := k.sql.Kept(ctx, sealName)
	if err == nil && key == "" {
		key = queue.NewSealKey()
		err = k.sql.Keep(ctx, sealName, key)
	}
	if err != nil {
		return fmt.Errorf("TIERQ_DATA_DIR: %w", err)
	}
	q.SealWith(key)
	k.last, err = k.redis.Load(ctx, k.dir, func(h embedded.Head) error { return k.suits(ctx, h) }, k.sql)
	switch {
	case errors.Is(err, embedded.ErrInvalid):
		k.log.Warn("Redis begins with the jobs of the journal alone: leases and limits that only it knew are forgotten "+
			"(docs/operations/DURABILITY.md)", "err", err)
		return nil
	case err != nil:
		return fmt.Errorf("TIERQ_DATA_DIR: %w", err)
	case k.last.ID != "":
		q.Continues(k.last.Incarnation)
	}
	return nil
}

// suits returns an error that says why a snapshot does not suit this server: the server's settings differ, or another
// process wrote rows after it.
func (k *keeper) suits(ctx context.Context, h embedded.Head) error {
	if layout := k.queue.Layout(); h.Layout != layout {
		return fmt.Errorf("it has %s, this server %s", h.Layout, layout)
	}
	runs, err := k.sql.Runs(ctx)
	if err != nil {
		return err
	}
	for _, run := range runs {
		if run == "" || run == h.Incarnation {
			continue
		}
		switch living, err := k.sql.Lost(ctx, run, 0, "", 1); {
		case err != nil:
			return err
		case len(living) > 0:
			return errors.New("the journal has newer rows")
		}
	}
	return nil
}

// resume makes the keys of the snapshot serve.
func (k *keeper) resume(ctx context.Context) error {
	if k.last.ID == "" {
		return nil
	}
	return k.queue.TakeOver(ctx, k.last.Process)
}

// forget makes the snapshot invalid, because from now on the server serves.
func (k *keeper) forget(ctx context.Context) error { return embedded.Forget(ctx, k.dir, k.sql) }

// save writes a snapshot, after everything else has stopped. Without one the next start has the jobs of the journal.
func (k *keeper) save() {
	k.redis.Close()
	head := embedded.Head{
		Incarnation: k.queue.KnownIncarnation(0), Process: k.queue.Name(), Layout: k.queue.Layout(),
	}
	keep := func(key string) bool { return !k.queue.OfProcess(key) }
	if err := k.redis.Save(context.Background(), k.dir, head, keep, k.sql); err != nil {
		k.log.Warn("what only Redis knew is forgotten; the journal has every job (docs/operations/DURABILITY.md)", "err", err)
	}
}
