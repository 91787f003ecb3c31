package app

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/artifact"
	"github.com/tierq/tierq/internal/config"
	"github.com/tierq/tierq/internal/handlers"
	"github.com/tierq/tierq/internal/httpapi"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/mail"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/recovery"
)

// wireRetention makes the loop that deletes what is older than its retention: rows if this process has the
// recovery role, and in every process the files that it may have written itself.
func (v *server) wireRetention() {
	c, ages := v.config, v.config.SQLAges()
	o := recovery.RetentionOptions{
		Redis: v.queue, Partitions: c.Partitions, Changes: ages.Of(config.Changes),
		Callback: job.CallbackID, MakesFile: handlers.MakesFiles,
		DeleteFile: v.outgoing.files.Delete,
		Age:        func(k job.Kind) time.Duration { return ages.OfTier(string(k.Tier), wordOf(k.Status)) },
		Observe:    v.metrics, Log: v.log,
	}
	if c.Roles.Recovery {
		o.Rows, o.ChangeLog = v.stores.archive, v.stores.access
		o.Flows, o.FlowAge = v.stores.archive, ages.Of(config.Results)
		o.Batches, o.BatchAge = v.stores.archive, ages.Of(config.Results)
	}
	o.Files = v.oldFiles(ages)
	v.retention = recovery.NewRetention(o)
}

// oldFiles returns the kinds of files that a process may have written itself.
func (v *server) oldFiles(ages config.Ages) (files []recovery.OldFiles) {
	c := v.config
	if age := ages.Of(config.Mails); age > 0 {
		files = append(files, recovery.OldFiles{Kind: "mail", Delete: func(ctx context.Context) (int64, error) {
			return mail.DeleteOld(ctx, c.DataDir, time.Now().Add(-age))
		}})
	}
	// Embedded mode locks the folder. Any other folder may also belong to another cluster, whose files must stay.
	if age := ages.Shortest(); age > 0 && c.Embedded() && c.BlobURL == "" {
		left := leftFiles{
			dir: filepath.Join(c.DataDir, "artifacts"), age: age, archive: v.stores.archive, queue: v.queue,
			partitions: c.Partitions,
		}
		files = append(files, recovery.OldFiles{Kind: "artifact", Delete: left.delete})
	}
	return files
}

// wordOf returns the word of TIERQ_SQL_RETENTION for jobs with this outcome.
func wordOf(s job.Status) string {
	switch s.Shown() {
	case job.Completed:
		return config.Results
	case job.Failed:
		return config.Dead
	}
	return config.Cancelled
}

// retentionCheck says what the last run of this process' retention did.
func (v *server) retentionCheck() httpapi.AuditCheck {
	last, ran := v.retention.Last()
	return retentionCheck(last, ran, v.config.Roles.Recovery, time.Now())
}

func retentionCheck(last recovery.RetentionReport, ran, rows bool, now time.Time) httpapi.AuditCheck {
	const name = "retention"
	ago := max(now.Sub(last.At), 0).Round(time.Second)
	detail := fmt.Sprintf("%d old jobs deleted since the start, last run %s ago", last.Total, ago)
	switch {
	case !rows:
		return check(name, fine, "processes with the recovery role delete old jobs; this process does not", "")
	case !ran:
		return check(name, fine, "no run yet: the first run starts within ten minutes of the server's start", "")
	case last.Problem != "":
		return check(name, warning, detail+": "+last.Problem, "repair that: old jobs stay in SQL until then")
	case !last.Whole:
		return check(name, fine, detail+", more old jobs are left", "")
	}
	return check(name, fine, detail, "")
}

// leftFiles are the files in this process' own folder whose jobs neither store knows, because a crash lost the
// job.
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
			if err := artifact.Remove(ctx, l.dir, id); err != nil {
				return err
			}
			deleted++
		}
		return nil
	})
	return deleted, err
}
