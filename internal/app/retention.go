package app

import (
	"context"
	"path/filepath"
	"time"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/artifact"
	"github.com/tierq/tierq/internal/config"
	"github.com/tierq/tierq/internal/handlers"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/mail"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/recovery"
)

// wireRetention makes the loop that deletes what was kept for long enough: rows where this process has the recovery role, and in any process the
// files that it may have written itself.
func (v *server) wireRetention() {
	c, ages := v.config, v.config.SQLAges()
	o := recovery.RetentionOptions{
		Redis: v.queue, Partitions: c.Partitions, Changes: ages.Of(config.Changes), Callback: handlers.CallbackID, DeleteFile: v.deleteArtifact,
		Age: func(k job.Kind) time.Duration { return ages.OfTier(string(k.Tier), wordOf(k.Status)) }, Observe: v.metrics, Log: v.log,
	}
	if c.Roles.Recovery {
		o.Rows = v.stores.archive
	}
	if age := ages.Of(config.Mails); age > 0 {
		o.Files = append(o.Files, recovery.OldFiles{Kind: "mail", Delete: func(ctx context.Context) (int64, error) {
			return mail.DeleteOld(ctx, c.DataDir, time.Now().Add(-age))
		}})
	}
	if age := ages.Shortest(); age > 0 && c.BlobURL == "" { // a folder that the setting names may be another cluster's too
		left := leftFiles{dir: filepath.Join(c.DataDir, "artifacts"), age: age, archive: v.stores.archive, queue: v.queue, partitions: c.Partitions}
		o.Files = append(o.Files, recovery.OldFiles{Kind: "artifact", Delete: left.delete})
	}
	v.retention = recovery.NewRetention(o)
}

// wordOf is the word of TIERQ_SQL_RETENTION for jobs that ended so.
func wordOf(s job.Status) string {
	switch s.Shown() {
	case job.Completed:
		return config.Results
	case job.Failed:
		return config.Dead
	}
	return config.Cancelled
}

// deleteArtifact deletes the file of a job whose rows are about to go.
func (v *server) deleteArtifact(ctx context.Context, id job.ID, jobType string) error {
	if !handlers.MakesFiles(jobType) {
		return nil
	}
	return v.outgoing.files.Delete(ctx, id)
}

// leftFiles are the files in this machine's folder whose jobs neither store knows any more: another process deleted the rows, or a crash lost
// the job.
type leftFiles struct {
	dir        string
	age        time.Duration
	archive    *archive.Archive
	queue      *queue.Queue
	partitions int
}

func (l leftFiles) delete(ctx context.Context) (deleted int64, err error) {
	err = artifact.EachOld(ctx, l.dir, time.Now().Add(-l.age), func(ids []job.ID) error {
		known, err := l.archive.Known(ctx, ids)
		if err != nil {
			return err
		}
		var unknown []job.ID
		for i, id := range ids {
			if p := id.Partition(); !known[i] && p >= 0 && p < l.partitions {
				unknown = append(unknown, id)
			}
		}
		if len(unknown) > 0 {
			if unknown, err = l.queue.Missing(ctx, unknown); err != nil {
				return err
			}
		}
		for _, id := range unknown {
			if err := artifact.Remove(l.dir, id); err != nil {
				return err
			}
			deleted++
		}
		return nil
	})
	return deleted, err
}
