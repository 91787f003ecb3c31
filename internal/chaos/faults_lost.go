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

// After the faults of this file Redis has forgotten jobs that it answered for. They run only with the journal.

// rolledBack makes a fault that makes Redis forget. Meanwhile it holds the locks of all servers, so that no fault
// of a server is under way.
func rolledBack(do func(context.Context, *wound) (string, error)) func(context.Context, *wound) (string, error) {
	return func(ctx context.Context, w *wound) (string, error) {
		defer w.lockAll()()
		w.from = time.Now()
		return do(ctx, w)
	}
}

// rewritten makes Redis rewrite its AOF after the fault do, as DURABILITY.md demands after a power loss. A cut in
// the middle of a script's last command leaves a MULTI without its EXEC in the file. The next start would execute
// that MULTI in part.
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

// aofCut stands for a power loss: after the kill of Redis, it cuts up to 256 KiB from the end of the newest AOF.
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

// aofGone removes the AOF, so that Redis starts empty.
func aofGone(w *wound) (string, error) {
	if err := os.RemoveAll(filepath.Join(w.redis.Dir(), "appendonlydir")); err != nil {
		return "", fmt.Errorf("remove the AOF: %w", err)
	}
	return "its AOF is removed", nil
}

// flushed is a fault: FLUSHALL. The process goes on, and Redis keeps its run_id.
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
