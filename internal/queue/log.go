package queue

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/job"
)

// Log adds lines to the logs of jobs of one partition. It returns a word per line: OK, also for a line that the log has
// already, or LOST (the lease is not the stored one any more; nothing is written). A full Redis takes no lines.
func (q *Queue) Log(ctx context.Context, partition int, batch []job.LogEntry) ([]job.Word, error) {
	args := make([]any, 0, 6*len(batch))
	for i := range batch {
		l := &batch[i]
		args = append(args, string(l.ID), l.Attempt, l.Token, l.Number, ms(max(l.Age, 0)), l.Rest())
	}
	return q.words(ctx, q.redis.Main, q.log, partition, len(batch), args)
}

// logStep is how many lines of the end of a log are read at first.
const logStep = 64

// LogLines reads the lines that Redis has of a job's log behind a line, the oldest first; after 0 = from the beginning.
// Redis has the lines of the job's present generation until SQL has them.
func (v *View) LogLines(ctx context.Context, id job.ID, after int64) ([]job.LogLine, error) {
	if p := id.Partition(); p < 0 || p >= v.opts.Partitions {
		return nil, nil
	}
	key := Key(id.Partition(), "logs") + string(id)
	for step := int64(logStep); ; step *= 8 {
		from := -step
		if after == 0 {
			from = 0
		}
		texts, err := v.redis.Read.LRange(ctx, key, from, -1).Result()
		if err != nil && err != redis.Nil { //nolint:errorlint // go-redis returns it as it is
			return nil, classify("log", err)
		}
		lines := readLog(texts)
		whole := from == 0 || int64(len(texts)) < step
		if !whole && len(lines) > 0 && lines[0].Seq() > after {
			continue // what is behind the line begins further up
		}
		return slices.DeleteFunc(lines, func(l job.LogLine) bool { return l.Seq() <= after }), nil
	}
}

// readLog reads the lines of a log. It leaves out what is no line.
func readLog(texts []string) []job.LogLine {
	lines := make([]job.LogLine, 0, len(texts))
	for _, text := range texts {
		if l, ok := job.ReadLogLine(text); ok {
			lines = append(lines, l)
		}
	}
	return lines
}
