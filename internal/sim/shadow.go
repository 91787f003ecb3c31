package sim

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

// lease is a claim as the store gave it.
type lease struct {
	token           string
	attempt         int
	holder          *process
	beaten          int64  // ms: the claim, or the last heartbeat
	counts          string // as the claim answered them
	beatEnd, maxEnd int64
	begun           bool
	ctx             context.Context // of its handler; nil before it begins and after it returned
}

// known is a job as it must be, given every answer so far.
type known struct {
	id                   job.ID
	tier                 job.Plan
	owner                string
	generation           int
	status               job.Status
	arrived, due         int64
	wished               int64 // when it was due as its client wished, from its promotion on
	first                int64 // ms, of its first claim; 0 = none yet
	attempt, retries     int
	tried, cancel, acked bool
	ended                int64  // ms; 0 = it lives
	lease                *lease // the last claim's; its holder may be a zombie
	ending               string // the last ending accepted: kind, token, attempt, word
	saved                []byte
	save                 int
	costs                int // attempts of this generation that were not given back
	free                 int // how often this generation was later for nothing
	unknowns             int // how often in a row it met a worker that does not know its type
	unknownSince         int64
	size, weight         int // the bytes of its payload, and what it is counted with: those, and of its checkpoint
	starts               map[int]bool
	left                 time.Duration     // until Redis forgets it; 0 = it does not, or has
	forgotten            bool              // by Redis, in its time or because its memory was short
	laters               map[string]string // attempt -> what its history must say of a LATER: until when, and why
}

func (k *known) score() float64 { return float64(k.tier.Priority)*base + float64(k.arrived) }

func (k *known) String() string {
	return fmt.Sprintf("%s generation %d, %s, attempt %d, %d retries", k.id, k.generation, k.status, k.attempt, k.retries)
}

// shadow is the state machine once more. It hears of each call that was executed, and what was answered; what it would
// not have answered itself is a violation.
type shadow struct {
	w      *World
	jobs   map[job.ID]*known
	clock  map[int]int64       // the last arrival, by partition
	claims map[string]*claimed // by nonce and partition
	once   map[string]*kept    // by partition and key
	lost   map[job.ID]*known   // what Redis had and forgot, each as it was last, also of jobs that it has again
}

// kept is what an Idempotency-Key stands for; Key is the job's id here.
type kept struct {
	job.Idempotency
	left time.Duration
}

type claimed struct {
	number int64
	ids    []job.ID
}

func (s *shadow) wrong(check, format string, args ...any) { s.w.fail(check, format, args...) }

// heard is told of an executed script.
func (s *shadow) heard(c *call, reply any) {
	keys, argv := c.args[:c.keys], c.args[c.keys:]
	partition, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(keys[0][:strings.IndexByte(keys[0], '}')],
		"{tierq:"), "}"))
	texts := strs(reply)
	switch c.name {
	case "submit":
		s.submit(partition, argv, texts)
	case "claim":
		s.claim(c.proc, partition, argv, texts)
	case "heartbeat":
		s.heartbeat(argv, texts)
	case "complete", "fail":
		s.endings(c.name, argv, texts)
	case "reclaim":
		s.reclaim(job.Cause(argv[0]), texts)
	case "promote":
		s.promote(partition, len(texts))
	case "cancel":
		s.cancel(argv, texts)
	case "restore":
		s.requeue(partition, argv, texts)
	case "take_outbox":
		items, _ := reply.([]any)
		for _, item := range items {
			texts := strs(item)
			s.laters(s.mustBe("S1", job.ID(texts[0]), job.Completed, job.NeedDiscard, job.Cancelled), texts[13:])
		}
	case "acknowledge":
		s.acknowledge(argv, texts)
	case "forget":
		s.forgot(argv, texts)
	}
	s.noteEnds()
}

// laters: a line about a LATER says until when it was, and why.
func (s *shadow) laters(k *known, history []string) {
	for _, line := range history {
		f := strings.SplitN(line, " ", 6)
		if k == nil || len(f) != 6 || f[3] != "LATER" {
			continue
		}
		if want, noted := k.laters[f[0]]; !noted || f[5] != want {
			s.wrong("S2", "%s: its history says %q of attempt %s, not %q", k, f[5], f[0], want)
		}
	}
}

// mustBe returns the job if it is in one of the states, and otherwise complains.
func (s *shadow) mustBe(check string, id job.ID, states ...job.Status) *known {
	k := s.jobs[id]
	switch {
	case k == nil:
		s.wrong("S3", "%s: the store moves a job that nobody submitted", id)
	case !slices.Contains(states, k.status):
		s.wrong(check, "%s: the store moves it as if it were %v", k, states)
		return nil
	}
	return k
}

// waiting are a partition's jobs of one status, in the order they go.
func (s *shadow) waiting(partition int, status job.Status, rank func(k *known) float64) []*known {
	var all []*known
	for _, k := range s.jobs {
		if k.status == status && k.id.Partition() == partition {
			all = append(all, k)
		}
	}
	slices.SortFunc(all, func(a, b *known) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.id, b.id)) })
	return all
}

// running is a job that runs, the one given if it does or if none does.
func (s *shadow) running(id job.ID) job.ID {
	found := id
	for _, k := range s.jobs {
		if k.status == job.Processing && (k.id == id || found == id || k.id < found) {
			if found = k.id; found == id {
				return id
			}
		}
	}
	return found
}

// living is how many jobs of an owner a partition has that have not ended.
func (s *shadow) living(partition int, owner string) (n int) {
	for _, k := range s.jobs {
		if k.owner == owner && !k.status.Ended() && k.id.Partition() == partition {
			n++
		}
	}
	return n
}

// full is the limit that has no room for a job of a tier which is PENDING or SCHEDULED then; "" = none.
func (s *shadow) full(partition int, tier job.Plan, status job.Status) string {
	untried := func(k *known) bool { return k.status == status && !k.tried }
	alive := func(k *known) bool { return !k.status.Ended() }
	one, size := func(*known) int { return 1 }, func(k *known) int { return k.size }
	plan := &s.w.plan
	for _, l := range []struct {
		name   string
		limit  int
		is     func(*known) bool
		weight func(*known) int
	}{
		{map[job.Status]string{job.Pending: "fresh", job.Scheduled: "delayed"}[status], plan.capacity, untried, one},
		{"delayedbytes", plan.bytes / 2, func(k *known) bool { return status == job.Scheduled && untried(k) }, size},
		{"living", plan.living, alive, one},
		{"bytes", plan.bytes, alive, func(k *known) int { return k.weight }},
	} {
		if l.limit > 0 && s.filled(partition, l.limit, l.is, l.weight) >= s.share(tier, l.limit) {
			return l.name
		}
	}
	return ""
}

func (s *shadow) share(p job.Plan, limit int) int {
	return max(limit*p.Share/100/s.w.plan.partitions, 1)
}

// filled is how much of a partition's limit is taken by such jobs: the tiers fill it one after the other, the
// smallest share first, and each at
// most to its share.
func (s *shadow) filled(partition, limit int, is func(*known) bool, weight func(*known) int) (sum int) {
	n := map[job.Tier]int{}
	for _, k := range s.jobs {
		if is(k) && k.id.Partition() == partition {
			n[k.tier.Tier] += weight(k)
		}
	}
	plans := tiers()
	slices.SortStableFunc(plans, func(a, b job.Plan) int { return cmp.Compare(a.Share, b.Share) })
	for _, p := range plans {
		sum = max(sum, min(sum+n[p.Tier], s.share(p, limit)))
	}
	return sum
}

// begins is told of a handler that starts.
func (s *shadow) begins(ctx context.Context, p *process, run *handler.Run, of job.ID) error {
	k := s.jobs[run.ID]
	switch {
	case k == nil && s.lost[run.ID] != nil && of == run.ID: // its lease was lost on the way
	case k == nil || of != run.ID:
		s.wrong("S18", "%s runs with the payload of %q", run.ID, of)
	case k.starts[run.Attempt] && s.lost[run.ID] == nil:
		s.wrong("S14", "%s: attempt %d starts twice", k, run.Attempt)
	default:
		k.starts[run.Attempt] = true
		if k.lease != nil && k.lease.attempt == run.Attempt && k.lease.holder == p {
			k.lease.begun, k.lease.ctx = true, ctx
		}
	}
	return nil
}

// returns is told of one that is about to return.
func (s *shadow) returns(run *handler.Run) {
	if k := s.jobs[run.ID]; k != nil && k.lease != nil && k.lease.attempt == run.Attempt {
		k.lease.ctx = nil
	}
}

func (w *World) ms() int64 { return time.Now().UnixMilli() }
