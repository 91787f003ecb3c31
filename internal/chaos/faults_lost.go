package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Faults after which Redis does not know what it answered. They run only with the journal.

// rolledBack does to Redis what makes it forget, while no other fault is under way.
func rolledBack(do func(context.Context, *wound) (string, error)) func(context.Context, *wound) (string, error) {
	return func(ctx context.Context, w *wound) (string, error) {
		defer w.lockAll()()
		w.from = time.Now()
		return do(ctx, w)
	}
}

// rewritten lets Redis write its AOF anew, as DURABILITY.md asks for after a power loss: a cut in the middle of a
// script's last command leaves a MULTI without its EXEC in the file, which the next start would carry out in part.
func rewritten(do func(context.Context, *wound) (string, error)) func(context.Context, *wound) (string, error) {
	return func(ctx context.Context, w *wound) (string, error) {
		evidence, err := do(ctx, w)
		if err != nil {
			return evidence, err
		}
		calm := context.WithoutCancel(ctx)
		if err := w.rdb.BgRewriteAOF(calm).Err(); err != nil {
			return evidence, fmt.Errorf("rewrite the AOF: %w", err)
		}
		for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
			info, err := w.rdb.Info(calm, "persistence").Result()
			if err == nil && strings.Contains(info, "aof_rewrite_in_progress:0") &&
				strings.Contains(info, "aof_rewrite_scheduled:0") {
				return evidence + ", and it was written anew", nil
			}
			hold(calm, 50*time.Millisecond)
		}
		return evidence, errors.New("rewrite the AOF: not done after 20 s")
	}
}

// aofCut: power loss: the process is gone, and so are the last bytes of its file.
func aofCut(w *wound) (string, error) {
	files, err := filepath.Glob(filepath.Join(w.redis.Dir(), "appendonlydir", "*.incr.aof"))
	if err != nil || len(files) == 0 {
		return "", fmt.Errorf("find the AOF: %d files, %w", len(files), err)
	}
	slices.Sort(files)
	last := files[len(files)-1]
	stat, err := os.Stat(last)
	if err != nil {
		return "", fmt.Errorf("find the AOF: %w", err)
	}
	cut := min(1+w.rng.Int64N(256<<10), stat.Size())
	if err := os.Truncate(last, stat.Size()-cut); err != nil {
		return "", fmt.Errorf("cut the AOF: %w", err)
	}
	return fmt.Sprintf("%d of %d bytes of its AOF are lost", cut, stat.Size()), nil
}

// aofGone: it comes back empty.
func aofGone(w *wound) (string, error) {
	if err := os.RemoveAll(filepath.Join(w.redis.Dir(), "appendonlydir")); err != nil {
		return "", fmt.Errorf("remove the AOF: %w", err)
	}
	return "its AOF is removed", nil
}

// flushed: FLUSHALL. The process stays, and with it its run id.
func flushed(ctx context.Context, w *wound) (string, error) {
	calm := context.WithoutCancel(ctx)
	n, err := w.rdb.DBSize(calm).Result()
	if err != nil {
		return "", fmt.Errorf("count the keys: %w", err)
	}
	if err := w.rdb.FlushAll(calm).Err(); err != nil {
		return "", fmt.Errorf("flush: %w", err)
	}
	return counted(int(n), "keys flushed")
}
