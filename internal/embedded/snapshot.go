package embedded

import (
	"context"
	"crypto/rand"
	"encoding/gob"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// version is that of the files' layout.
const version = 1

// Head begins a snapshot.
type Head struct {
	Version     int
	ID          string // random
	Incarnation string // what the journal's rows call the Redis that has their jobs
	Process     string // the name of the process that wrote the file, in tokens
	Layout      string // what the keys depend on: a server with another one cannot use them
}

// Names keeps texts under a name in SQL, as the process' last transaction: "" = none.
type Names interface {
	Kept(ctx context.Context, name string) (string, error)
	Keep(ctx context.Context, name, text string) error
}

// snapshotName is the name under which SQL has the id of the snapshot that counts.
const snapshotName = "snapshot"

func snapshotPath(dir string) string { return filepath.Join(dir, "redis.snapshot") }

// Save writes the keys for which keep is true to a file in the folder, and then its id to SQL: from now on the file is
// the snapshot that counts. The server must be closed. After an error no snapshot counts.
func (r *Redis) Save(ctx context.Context, dir string, head Head, keep func(key string) bool, sql Names) error {
	head.Version, head.ID = version, rand.Text()
	r.age()
	err := writeFile(snapshotPath(dir), func(to *gob.Encoder) error {
		if err := to.Encode(head); err != nil {
			return err
		}
		for _, key := range r.server.Keys() {
			if !keep(key) {
				continue
			}
			e, err := r.read(key, r.aged)
			if err == nil {
				err = to.Encode(e)
			}
			if err != nil {
				return err
			}
		}
		return to.Encode(entry{})
	})
	if err == nil {
		err = sql.Keep(ctx, snapshotName, head.ID)
	}
	if err != nil {
		return fmt.Errorf("write the snapshot of Redis: %w", err)
	}
	return nil
}

// ErrStale means that a snapshot does not count. Its text says why.
var ErrStale = errors.New("the snapshot of Redis does not count")

// Load gives the server what the folder's snapshot has, if it is the one that counts, and returns its head. alike says
// whether the journal's rows and this process' settings suit the snapshot. Without a snapshot the head is zero; the
// error is ErrStale if there is one that does not count, and then the server is empty.
func (r *Redis) Load(ctx context.Context, dir string, alike func(Head) error, sql Names) (head Head, err error) {
	id, err := sql.Kept(ctx, snapshotName)
	if err != nil {
		return head, err
	}
	now := time.Now()
	err = readFile(snapshotPath(dir), func(from *gob.Decoder) error {
		if err := from.Decode(&head); err != nil {
			return err
		}
		switch {
		case head.Version != version:
			return fmt.Errorf("its layout is %d, not %d", head.Version, version)
		case head.ID != id && id == "":
			return errors.New("it was used before")
		case head.ID != id:
			return errors.New("it is not that of the last stop")
		}
		if err := alike(head); err != nil {
			return err
		}
		for {
			var e entry
			if err := from.Decode(&e); err != nil || e.Key == "" {
				return err
			}
			if err := r.write(&e, now); err != nil {
				return err
			}
		}
	})
	switch {
	case errors.Is(err, fs.ErrNotExist) && id == "":
		return Head{}, nil
	case err != nil:
		r.server.FlushAll()
		return Head{}, fmt.Errorf("%w: %w", ErrStale, err)
	}
	r.mu.Lock()
	r.aged = now
	r.mu.Unlock()
	return head, nil
}

// Forget ends the snapshot that counts: it is called before the server serves. The file goes too.
func Forget(ctx context.Context, dir string, sql Names) error {
	if err := sql.Keep(ctx, snapshotName, ""); err != nil {
		return err
	}
	if err := os.Remove(snapshotPath(dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("TIERQ_DATA_DIR: %w", err)
	}
	return nil
}
