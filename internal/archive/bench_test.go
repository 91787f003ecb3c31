package archive_test

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/archive/archivetest"
	"github.com/tierq/tierq/internal/job"
)

// uuid is a time-ordered id as the server mints them: n-th of its kind, the rest is noise, partition 0.
func uuid(n int) job.ID {
	noise := binary.BigEndian.Uint64(binary.BigEndian.AppendUint64(nil, uint64(n)*0x9E3779B97F4A7C15))
	return job.ID(fmt.Sprintf("%08x-%04x-7%03x-a%03x-%010x00", 0x019a0000+n>>28, n>>12&0xffff, n&0xfff, noise&0xfff, noise>>20&0xffffffffff))
}

// BenchmarkRecord: COMPLETED outcomes with 100 bytes of result, two rows each. "record" waits for each batch; "offer" lets the
// writer run free, as completions do. The figure to look at is outcomes/s.
func BenchmarkRecord(b *testing.B) {
	result := []byte(fmt.Sprintf("%q", make([]byte, 16)))
	backends := map[string]func(testing.TB) archive.Options{"sqlite": archivetest.SQLite, "mariadb": archivetest.MariaDB}
	for _, backend := range []string{"sqlite", "mariadb"} {
		for _, batch := range []int{1, 100, 500} {
			run := func(name string, body func(b *testing.B, w *archive.Writer, next func() []job.Outcome)) {
				b.Run(fmt.Sprintf("%s/%s-%d", backend, name, batch), func(b *testing.B) {
					w := start(b, archivetest.New(b, backends[backend](b)).Archive, &nobody{}, archive.WriterOptions{})
					n := 0
					next := func() []job.Outcome {
						out := make([]job.Outcome, batch)
						for i := range out {
							n++
							out[i] = completed(1)
							out[i].ID, out[i].Result = uuid(n), result
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
