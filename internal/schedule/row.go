package schedule

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// asked is an occurrence that is to become a job. request is that of an operator; "" = it is the schedule's own.
type asked struct {
	at      time.Time
	request string
	now     time.Time // Redis' time
}

// rowOf returns the journal row of an occurrence's job. Two processes make the same row of the same occurrence.
func rowOf(s *job.Schedule, a asked, plan job.Plan, queue job.Queue, partitions int) job.JournalRow {
	o := job.Options{CallbackURL: s.Job.Callback, Everybody: s.Job.Everybody, Schedule: s.Name}
	if queue.Name != job.MainQueue {
		o.Queue, o.MaxRunMs = queue.Name, queue.MaxRun.Milliseconds()
	}
	if longest := o.MaxRun(plan); s.Job.MaxRun > 0 && s.Job.MaxRun < longest {
		o.MaxRunMs = s.Job.MaxRun.Milliseconds()
	}
	if s.Job.ExpiresIn > 0 {
		o.ExpiresMs = a.now.Add(s.Job.ExpiresIn).UnixMilli()
	}
	o.ExpiresMs = plan.Expiry(o.ExpiresMs, a.now)
	if plan.Lines.On() {
		o.Line = plan.LineFor(s.Job.Line, s.Owner)
	}
	home := (&job.Submission{Options: o}).Home() // of its line
	if s.Overlap == job.OverlapOne || s.Overlap == job.OverlapReplace {
		hash := hashOf("unique", s.Name, s.Incarnation)
		if home != "" { // both are in the same partition
			hash = home[:job.HomeDigits] + hash[job.HomeDigits:]
		}
		o.Unique, home = job.Unique(hash, job.WhileLiving), hash
	}
	sum := sha256.Sum256([]byte("occurrence\x00" + s.Name + "\x00" + s.Incarnation + "\x00" +
		a.at.UTC().Format(time.RFC3339Nano) + "\x00" + a.request))
	if home == "" {
		home = hex.EncodeToString(sum[16:])
	}
	retries := plan.MaxRetries
	if s.Job.MaxRetries >= 0 {
		retries = min(retries, s.Job.MaxRetries)
	}
	return job.JournalRow{
		Job: job.Job{
			ID: idOf(a.at, sum, job.Home(home, partitions)), Generation: 1, Tier: plan.Tier, Type: s.Job.Type,
			Owner: s.Owner, TraceID: hex.EncodeToString(sum[16:]), Payload: s.Job.Payload, MaxRetries: retries,
			ArrivedAt: a.now, Options: o,
		},
		Priority: plan.Priority,
	}
}

func hashOf(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(p + "\x00"))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// idOf returns a UUIDv7 of a time, a hash and a partition.
func idOf(at time.Time, sum [32]byte, partition int) job.ID {
	var u [16]byte
	binary.BigEndian.PutUint64(u[:], uint64(at.UnixMilli())<<16)
	copy(u[6:], sum[:10])
	u[6], u[8], u[15] = u[6]&0x0f|0x70, u[8]&0x3f|0x80, byte(partition)
	text := hex.EncodeToString(u[:])
	return job.ID(text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:])
}
