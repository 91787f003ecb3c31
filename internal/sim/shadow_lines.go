package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
)

// takeLine takes the name of the line out of the words of a submit_class.
func takeLine(kind []string) (line string, rest []string) {
	if len(kind) > 10 && strings.HasPrefix(kind[10], "line=") {
		return strings.TrimPrefix(kind[10], "line="), slices.Delete(kind, 10, 11)
	}
	return "", kind
}

// lineIn returns the name of the line that the rest of a class has.
func lineIn(rest string) string {
	for _, word := range strings.Fields(rest) {
		if line, is := strings.CutPrefix(word, "line="); is {
			return line
		}
	}
	return ""
}

// lineOption is what the job's class has of its line.
func (k *known) lineOption() string {
	if k.line == "" {
		return ""
	}
	return " line=" + k.line
}

// lineName is the name of the job's line in Redis.
func (k *known) lineName() string { return fmt.Sprint(k.tier.Tier, ":", k.line, ":", k.queue) }

// lineNames returns the names of all lines that Redis may have.
func (s *shadow) lineNames() map[string]bool {
	names := map[string]bool{}
	for _, k := range s.jobs {
		if k.line != "" {
			names[k.lineName()] = true
		}
	}
	return names
}

// charge returns the end of a lease of a job with a line: what the line was charged, which depends on how long the
// attempts of the key ran.
func (s *shadow) charge(k *known, lease string) string {
	at := strings.LastIndex(lease, " charge=")
	if k.line == "" || at < 0 {
		return ""
	}
	if n, err := strconv.Atoi(lease[at+len(" charge="):]); err != nil || n < 0 {
		return " charge=<a number>"
	}
	return lease[at:]
}

// startsOf counts an attempt for the key of its line, which must not have more than its limit now.
func (s *shadow) startsOf(k *known) {
	if k.line == "" {
		return
	}
	of := s.lineKey(k.line)
	of.start(float64(s.w.ms()))
	s.w.fault("claimed from a line")
	if n := s.runningOf(k.line); of.most > 0 && n > of.most || of.strict && n > 1 {
		s.wrong("S27", "%s: %d attempts of the key %s run, its limits are %+v", k, n, k.line, *of)
	}
}

// meetsLines says whether ready jobs of a claim's queues are in lines.
func (s *shadow) meetsLines(partition int, queues []string) bool {
	for _, k := range s.jobs {
		if k.line != "" && k.status == job.Pending && k.id.Partition() == partition && slices.Contains(queues, k.queue) {
			return true
		}
	}
	return false
}

// claimLines checks what a claim takes where jobs are in lines. The order between the lines of a tier is not checked:
// it depends on the worker time that they had.
func (s *shadow) claimLines(partition int, queues []string, most int, limits *limits, ids []job.ID, reply any) {
	var ready []*known
	for _, k := range s.waiting(partition, job.Pending, (*known).score) {
		if slices.Contains(queues, k.queue) {
			ready = append(ready, k)
		}
	}
	taken, last := map[*known]bool{}, 0
	for _, id := range ids {
		k := s.jobs[id]
		if k == nil {
			continue // claimedOne complains
		}
		if taken[k] = true; k.tier.Priority < last || !slices.Contains(queues, k.queue) {
			s.wrong("S7 S27", "%s comes in its claim after a job of the priority %d", k, last)
		}
		last = k.tier.Priority
	}
	s.expiredInLines(ready, taken, reply)
	keys, left := map[string]*keyOfLines{}, most
	for len(ready) > 0 {
		n := 1
		for n < len(ready) && ready[n].tier.Priority == ready[0].tier.Priority {
			n++
		}
		left -= s.claimTier(partition, ready[:n], taken, min(left, limits.room(ready[0].tier.Priority)), keys)
		for _, k := range ready[:n] {
			if taken[k] {
				limits.take(k.tier.Priority)
			}
		}
		ready = ready[n:]
	}
}

// claimTier checks which of the ready jobs of a tier a claim has taken, of at most so many, and returns how many. keys
// are the keys with the attempts that this claim started before.
func (s *shadow) claimTier(partition int, ready []*known, taken map[*known]bool, most int,
	keys map[string]*keyOfLines) (took int) {
	now, least, atMost := float64(s.w.ms()), 0, 0
	first, left := map[string]*known{}, map[string]*keyOfLines{} // by place: the first job that was left; by key
	for _, k := range ready {
		place := k.lineName()
		switch {
		case taken[k] && first[place] != nil:
			s.wrong("S7 S27", "%s is claimed before %s", k, first[place])
		case !taken[k] && first[place] == nil:
			first[place] = k
		}
		if k.line == "" {
			least, atMost = least+1, atMost+1
			continue
		}
		if keys[k.line] == nil {
			keys[k.line] = s.stateOf(k.line)
		}
		if left[k.line] == nil {
			may := *keys[k.line]
			left[k.line] = &may
		}
		if of := left[k.line]; of.from(now) <= now {
			of.start(now)
			atMost++
			// Where a time was in the way, the line may be parked until the next promotion.
			if keys[k.line].timed() <= float64(s.promoted[partition]) {
				least++
			}
		}
	}
	for _, k := range ready {
		if !taken[k] {
			continue
		}
		if took++; k.line != "" {
			if keys[k.line].from(now) > now {
				s.wrong("S27", "%s is claimed, and its key may not run: %+v", k, *keys[k.line])
			}
			keys[k.line].start(now)
		}
	}
	if took < min(least, most) || took > min(atMost, most) {
		s.wrong("S7 S27", "a claim takes %d jobs of %s; %d to %d may run, and it has room for %d", took,
			ready[0].tier.Tier, least, atMost, most)
	}
	return took
}

// expiredInLines finds the overdue jobs that a claim ended, and counts them as taken. The claim says only their tiers.
func (s *shadow) expiredInLines(ready []*known, taken map[*known]bool, reply any) {
	var want []string
	for _, k := range ready {
		if !k.overdue(s.w.ms()) {
			continue
		}
		if taken[k] {
			s.wrong("S26", "%s is claimed after its time", k)
		}
		place := queue.QueueKey(k.id.Partition(), k.queue)
		if k.line != "" {
			place = queue.LineKey(k.id.Partition(), k.lineName())
		}
		if score, _ := s.w.store.do("ZSCORE", place, string(k.id)); score == nil {
			k.status, taken[k] = job.Expired, true
			want = append(want, string(k.tier.Tier))
			s.w.fault("expired by a claim")
		}
	}
	list, _ := reply.([]any)
	got := strs(list[7])
	slices.Sort(want)
	if slices.Sort(got); !slices.Equal(got, want) {
		s.wrong("S26", "a claim says that it ends jobs of %v, and ends jobs of %v", got, want)
	}
}
