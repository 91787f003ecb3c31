package archive_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/archive/archivetest"
	"github.com/tierq/tierq/internal/database/databasetest"
	"github.com/tierq/tierq/internal/job"
)

// uuid returns the n-th time-ordered id as the server makes them, with noise behind the time, in partition 0.
func uuid(n int) job.ID {
	noise := binary.BigEndian.Uint64(binary.BigEndian.AppendUint64(nil, uint64(n)*0x9E3779B97F4A7C15))
	return job.ID(fmt.Sprintf("%08x-%04x-7%03x-a%03x-%010x00", 0x019a0000+n>>28, n>>12&0xffff, n&0xfff, noise&0xfff,
		noise>>20&0xffffffffff))
}

// BenchmarkRecord records COMPLETED outcomes with 100 bytes of result, one row each. "record" waits for each
// batch; "offer" does not wait, as completes do not. The figure to compare is outcomes/s.
func BenchmarkRecord(b *testing.B) {
	result := []byte(fmt.Sprintf("%q", make([]byte, 16)))
	for _, backend := range []string{"sqlite", "mariadb"} {
		for _, batch := range []int{1, 100, 500} {
			run := func(name string, body func(b *testing.B, w *archive.Writer, next func() []job.Outcome)) {
				b.Run(fmt.Sprintf("%s/%s-%d", backend, name, batch), func(b *testing.B) {
					w := start(b, archivetest.New(b, databasetest.Backends[backend](b)).Archive, &nobody{}, archive.WriterOptions{})
					n := 0
					next := func() []job.Outcome {
						out := make([]job.Outcome, batch)
						for i := range out {
							n++
							out[i] = completed(1)
							out[i].ID, out[i].Result = uuid(n), result
							out[i].TraceID = fmt.Sprintf("%032x", uint64(n)*0x9E3779B97F4A7C15) // in no order, as real ones
						}
						return out
					}
					record(b, w, next()...)
					b.ResetTimer()
					begin := time.Now()
					body(b, w, next)
					b.ReportMetric(float64(b.N*batch)/time.Since(begin).Seconds(), "outcomes/s")
				})
			}
			run("record", func(b *testing.B, w *archive.Writer, next func() []job.Outcome) {
				for range b.N {
					record(b, w, next()...)
				}
			})
			run("offer", func(b *testing.B, w *archive.Writer, next func() []job.Outcome) {
				for range b.N {
					for _, o := range next() {
						if !w.Offer(o) {
							record(b, w, o) // full: wait behind the others
						}
					}
				}
				record(b, w, next()...)
			})
		}
	}
}

// BenchmarkJournal journals living jobs with 100 bytes of payload. "accept" has many concurrent callers with one
// row each; "batch" has one caller with 100 rows; "whole" is the submit and the record of 100 jobs, which writes
// and deletes each row; "off" is the same record without the journal.
func BenchmarkJournal(b *testing.B) {
	for _, backend := range []string{"sqlite", "mariadb"} {
		run := func(name string, on bool, rows int,
			body func(b *testing.B, j *archive.Journal, w *archive.Writer, next func() int)) {
			b.Run(backend+"/"+name, func(b *testing.B) {
				fresh := archivetest.New
				if on {
					fresh = archivetest.NewJournal
				}
				s := fresh(b, databasetest.Backends[backend](b))
				j, w := journal(b, s.Archive, archive.JournalOptions{Limit: 1 << 20}),
					start(b, s.Archive, &nobody{}, archive.WriterOptions{})
				var n atomic.Int64
				b.ResetTimer()
				begin := time.Now()
				body(b, j, w, func() int { return int(n.Add(1)) })
				b.ReportMetric(float64(b.N*rows)/time.Since(begin).Seconds(), "rows/s")
			})
		}
		row := func(n int) job.JournalRow {
			l := living(1)
			l.ID, l.Payload, l.Idempotency = uuid(n), make([]byte, 100), job.Idempotency{}
			return l
		}
		hundred := func(next func() int) (rows []job.JournalRow, outcomes []job.Outcome) {
			for range 100 {
				l := row(next())
				o := completed(1)
				o.ID = l.ID
				rows, outcomes = append(rows, l), append(outcomes, o)
			}
			return rows, outcomes
		}
		run("accept", true, 1, func(b *testing.B, j *archive.Journal, _ *archive.Writer, next func() int) {
			b.SetParallelism(64)
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					if err := submit(context.Background(), j, row(next())); err != nil {
						b.Error(err)
					}
				}
			})
		})
		run("batch", true, 100, func(b *testing.B, j *archive.Journal, _ *archive.Writer, next func() int) {
			for range b.N {
				rows, _ := hundred(next)
				done(b, submit(context.Background(), j, rows...))
			}
		})
		run("whole", true, 100, func(b *testing.B, j *archive.Journal, w *archive.Writer, next func() int) {
			for range b.N {
				rows, outcomes := hundred(next)
				done(b, submit(context.Background(), j, rows...))
				record(b, w, outcomes...)
			}
		})
		run("off", false, 100, func(b *testing.B, _ *archive.Journal, w *archive.Writer, next func() int) {
			for range b.N {
				_, outcomes := hundred(next)
				record(b, w, outcomes...)
			}
		})
	}
}
