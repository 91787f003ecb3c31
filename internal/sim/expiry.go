package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// This file has the jobs that must be claimed by a time, and what the shadow knows of them: none starts after its time,
// none ends before it or after a claim, and a process that has no trouble ends each in time.

// expiries gives some of the jobs of half of the seeds a time by which they must be claimed.
func (p *plan) expiries(r *rand.Rand) {
	if r.IntN(2) == 0 {
		return
	}
	for i := range p.orders {
		if o := &p.orders[i]; o.what == "submit" && r.IntN(2) == 0 {
			o.expires = o.delay + ticks(r, 1, 40)
		}
	}
}

// expiryOf reads the time of a class's options, or of a submit_class; 0 = none.
func expiryOf(words []string) int64 {
	for _, w := range words {
		if text, is := strings.CutPrefix(w, "exp="); is {
			return number(text)
		}
	}
	return 0
}

// option returns the option of the job's class.
func (k *known) option() string {
	if k.expires == 0 {
		return ""
	}
	return " exp=" + strconv.FormatInt(k.expires, 10)
}

// overdue says whether nobody has claimed a waiting job by its time.
func (k *known) overdue(now int64) bool {
	return k.expires > 0 && k.expires <= now && !k.tried && (k.status == job.Pending || k.status == job.Scheduled)
}

// expire checks that exactly the jobs end that are overdue.
func (s *shadow) expire(partition int, texts []string) {
	var want []string
	for _, k := range s.jobs {
		if k.id.Partition() == partition && k.overdue(s.w.ms()) {
			k.status = job.Expired
			want = append(want, string(job.WasExpired)+" "+string(k.tier.Tier))
		}
	}
	if slices.Sort(want); !slices.Equal(slices.Sorted(slices.Values(texts)), want) {
		s.wrong("S26", "expire answers %v, and overdue are %v", texts, want)
	}
	if len(want) > 0 {
		s.w.fault("expired")
	}
}

// inTimeOnly takes the overdue jobs out of those that a claim finds, and checks that the claim ended them.
func (s *shadow) inTimeOnly(best []job.ID, reply any) (claimed []job.ID) {
	var want []string
	for _, id := range best {
		if k := s.jobs[id]; k.overdue(s.w.ms()) {
			k.status = job.Expired
			want = append(want, string(k.tier.Tier))
			s.w.fault("expired by a claim")
			continue
		}
		claimed = append(claimed, id)
	}
	list, _ := reply.([]any)
	if got := strs(list[7]); !slices.Equal(got, want) {
		s.wrong("S26", "a claim ends jobs of %v, and overdue are jobs of %v", got, want)
	}
	return claimed
}

// expiredRightly checks an outcome EXPIRED: its job was never claimed, and its time has passed.
func (s *shadow) expiredRightly(o *job.Outcome) {
	if o.Status == job.Expired && (o.Attempt > 0 || o.ExpiresMs == 0 || o.EndedAt.UnixMilli() < o.ExpiresMs) {
		s.wrong("S26", "%s ended EXPIRED at %d with attempt %d, its time is %d", o.ID, o.EndedAt.UnixMilli(), o.Attempt,
			o.ExpiresMs)
	}
}

// endsInTime checks that an overdue job has not been left for long. promoting is since when a process runs whose
// promoter had no trouble; zero = there is none.
func (w *World) endsInTime(k *known, now, promoting time.Time) {
	if promoting.IsZero() || !k.overdue(w.ms()) {
		return
	}
	late := min(now.Sub(time.UnixMilli(max(k.expires, k.there))), now.Sub(promoting))
	if late > time.Second+slack {
		w.shadow.wrong("S26", "%s: nobody has ended it, %s after its time", k, fmt.Sprint(late))
	}
}
