package archive

import (
	"bytes"
	"compress/flate"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/job"
)

// The table job_logs has a row for each ended generation whose handlers told anything beside the result.

var logTable = table[*job.Outcome]{"job_logs", []column[*job.Outcome]{
	{"job_id", func(o *job.Outcome) any { return string(o.ID) }},
	{"generation", func(o *job.Outcome) any { return o.Generation }},
	{"progress", func(o *job.Outcome) any { return progressText(o.Progress) }},
	{"log", func(o *job.Outcome) any { return database.BytesOrNull(packLog(o.Log)) }},
}}

// told says whether an outcome has a row in job_logs.
func told(o *job.Outcome) bool { return o.Progress != nil || len(o.Log) > 0 }

func progressText(p *job.Progress) string {
	if p == nil {
		return ""
	}
	return p.StoredText()
}

// packLog compresses the lines of a log; nil for a log without lines.
func packLog(lines []string) []byte {
	if len(lines) == 0 {
		return nil
	}
	text, err := json.Marshal(lines)
	if err != nil {
		panic("archive: a list of texts cannot be encoded: " + err.Error())
	}
	var packed bytes.Buffer
	w, err := flate.NewWriter(&packed, flate.BestSpeed)
	if err == nil {
		_, err = w.Write(text)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic("archive: a text cannot be compressed: " + err.Error())
	}
	return packed.Bytes()
}

// mostLogBytes bounds an unpacked log: JSON escapes a control character with six.
const mostLogBytes = 8 * job.MaxLogBytes

// unpackLog is the reverse of packLog. It leaves out what is no line.
func unpackLog(packed []byte) ([]job.LogLine, error) {
	if len(packed) == 0 {
		return nil, nil
	}
	text, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(packed)), mostLogBytes))
	var texts []string
	if err == nil {
		err = json.Unmarshal(text, &texts)
	}
	if err != nil {
		return nil, fmt.Errorf("unpack a log: %w", err)
	}
	lines := make([]job.LogLine, 0, len(texts))
	for _, text := range texts {
		if l, ok := job.ReadLogLine(text); ok {
			lines = append(lines, l)
		}
	}
	return lines, nil
}

const logsOf = "SELECT generation, log FROM job_logs WHERE job_id = ? AND log IS NOT NULL ORDER BY generation"

// Logs reads the logs of the ended generations of a job, in their order; nothing for an unknown job. It leaves out a
// log that cannot be read.
func (a *Archive) Logs(ctx context.Context, id job.ID) ([]job.LogLine, error) {
	var rows []logRow
	if err := a.db.Read.WithContext(ctx).Raw(logsOf, string(id)).Scan(&rows).Error; err != nil {
		return nil, database.Unavailable("read logs", err)
	}
	var all []job.LogLine
	for _, r := range rows {
		lines, err := unpackLog(r.Log)
		if err != nil {
			a.db.Log.Error("a job's log cannot be read", "job_id", id, "generation", r.Generation, "err", err)
		}
		all = append(all, lines...)
	}
	return all, nil
}
