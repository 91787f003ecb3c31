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

// Names are texts in SQL by their names; "" = there is none. Keep commits before it returns.
type Names interface {
	Kept(ctx context.Context, name string) (string, error)
	Keep(ctx context.Context, name, text string) error
}

// snapshotName is the name under which SQL has the id of the valid snapshot.
const snapshotName = "snapshot"

// idBound is how long SQL may take for the id of a snapshot.
const idBound = 5 * time.Second

func snapshotPath(dir string) string { return filepath.Join(dir, "redis.snapshot") }

// Save writes the keys for which keep is true to the snapshot file in the folder, and then the file's id to SQL. From
// then on the snapshot is valid. The server must be closed. After an error no snapshot is valid.
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
		call, cancel := context.WithTimeout(ctx, idBound)
		defer cancel()
		err = sql.Keep(call, snapshotName, head.ID)
	}
	if err != nil {
		return fmt.Errorf("write the snapshot of Redis: %w", err)
	}
	return nil
}

// ErrInvalid means that a snapshot must not be loaded. Its text says why.
var ErrInvalid = errors.New("the snapshot of Redis is not valid")

// Load reads the snapshot file in the folder into the server, and returns the file's head. A snapshot is valid if SQL
// has its id and suits returns nil for its head. Load returns a zero head if there is no snapshot. It returns
// ErrInvalid, and leaves the server empty, if the snapshot is not valid.
func (r *Redis) Load(ctx context.Context, dir string, suits func(Head) error, sql Names) (head Head, err error) {
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
		if err := suits(head); err != nil {
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
		return Head{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	r.mu.Lock()
	r.aged = now
	r.mu.Unlock()
	return head, nil
}

// Forget makes the snapshot invalid and deletes its file. It is called before the server serves.
func Forget(ctx context.Context, dir string, sql Names) error {
	if err := sql.Keep(ctx, snapshotName, ""); err != nil {
		return err
	}
	if err := os.Remove(snapshotPath(dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("TIERQ_DATA_DIR: %w", err)
	}
	return nil
}
