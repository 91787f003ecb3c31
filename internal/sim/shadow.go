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

// lease is a claim as the store answered it.
type lease struct {
	token           string
	attempt         int
	holder          *process // nil = an outsider
	since           int64    // ms: when it was claimed
	beaten          int64    // ms: when it was claimed, or got its last heartbeat
	text            string   // the lease in the claim's answer
	beatEnd, maxEnd int64
	begun           bool
	ctx             context.Context // of its handler; nil before the handler begins and after it has returned
}

// length returns how long a lease lives without a heartbeat, in ms; 0 for one that restore wrote.
func (l *lease) length() int64 {
	_, after, _ := strings.Cut(l.text, " for=")
	digits, _, _ := strings.Cut(after, " ")
	return number(cmp.Or(digits, "0"))
}

// known is a job in the state that all answers so far demand.
type known struct {
	id                   job.ID
	tier                 job.Plan
	owner, queue, line   string // line is the name of the key of its line; "" = none
	unique               string // its unique key, and while what it holds the key; "" = none
	input                job.ID // the submit whose payload it has
	generation           int
	status               job.Status
	arrived, due         int64
	expires              int64 // ms; 0 = it may wait for ever
	there                int64 // ms, since when Redis has the job
	wished               int64 // when its client wanted it to be due; set when it is promoted
	first                int64 // ms, of its first claim; 0 = no claim yet
	attempt, retries     int
	crashes              int // of this generation
	tried, cancel, acked bool
	ended                int64  // ms; 0 = it has not ended
	lease                *lease // the last claim's; its holder may have lost it
	ending               string // the last report that was accepted: kind, token, attempt, word
	tale
	saved        []byte
	save         int
	costs        int   // attempts of this generation that cost it a retry, or its end
	free         int   // how often this generation reported later without cost
	inRow        int   // how many reports of the kind rowOf, unknown or return, came in a row
	rowSince     int64 // ms, when the first of them came
	rowOf        string
	size, weight int // the payload's bytes; and those with the checkpoint's and the log's, which the limits count
	starts       map[int]bool
	left         time.Duration     // until its time to live in Redis ends; 0 = it has none, or it has ended
	killed       bool              // it ended because an operator killed it
	forgotten    bool              // Redis forgot it, because its time was over or its memory short
	laters       map[string]string // by attempt: what its history must say of a LATER, until when and why
}

func (k *known) score() float64 { return float64(k.tier.Priority)*base + float64(k.arrived) }

func (k *known) String() string {
	return fmt.Sprintf("%s generation %d, %s, attempt %d, %d retries, %d crashes", k.id, k.generation, k.status, k.attempt,
		k.retries, k.crashes)
}

// shadow is a second state machine. The scheduler reports each executed call and its answer to it. An answer that
// the shadow would not have given is a violation.
type shadow struct {
	w      *World
	jobs   map[job.ID]*known
	clock  map[int]int64       // the last arrival, by partition
	claims map[string]*claimed // by nonce and partition
	// claims of outsiders, by worker, id and partition
	elsewhere map[string]*byID
	once      map[string]*kept // by partition and key
	unique    map[string]*holding
	freed     []*known               // jobs that let go of their unique keys in this call
	overtaken map[job.ID]bool        // last inputs that an earlier submit's payload replaced in SQL, see overtakes
	lastInput map[string]job.ID      // by unique key: the submit whose input was accepted last with on after or replace
	inputOver map[job.ID]bool        // by submit: a job with its input was claimed since, or was cancelled or killed
	lines     map[string]*keyOfLines // by name of the key
	spent     spent
	spentNow  [][2]string       // what the attempts that this call ended changed of spent
	promoted  map[int]int64     // ms, of the last promotion, by partition
	places    map[job.ID]*place // reserved ones
	lost      map[job.ID]*known // what Redis had and lost, each in its last state; also what Redis has again
}

// kept is the job that an Idempotency-Key stands for; Key has the job's id here.
type kept struct {
	job.Idempotency
	left time.Duration
}

type claimed struct {
	number int64
	ids    []job.ID
}

func (s *shadow) wrong(check, format string, args ...any) { s.w.fail(check, format, args...) }

// heard handles an executed script and its reply.
func (s *shadow) heard(c *call, reply any) {
	keys, argv := c.args[:c.keys], c.args[c.keys:]
	partition, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(keys[0][:strings.IndexByte(keys[0], '}')],
		"{tierq:"), "}"))
	texts := strs(reply)
	switch c.name {
	case "submit":
		s.submit(partition, argv, texts)
	case "claim":
		if c.elsewhere() {
			s.claimElsewhere(partition, argv, reply)
		} else {
			s.claim(c.proc, partition, argv, reply)
		}
	case "heartbeat":
		s.heartbeat(argv, texts)
	case "log":
		s.log(argv, texts)
	case "complete", "fail":
		s.endings(c.name, argv, texts)
	case "reclaim":
		s.reclaim(job.Cause(argv[0]), argv[4:], texts)
	case "promote":
		s.promote(partition, len(texts))
	case "expire":
		s.expire(partition, texts)
	case "cancel":
		s.cancel(argv, texts)
	case "kill":
		s.kill(argv, texts)
	case "hasten":
		s.hasten(argv, texts)
	case "restore":
		s.requeue(partition, argv, texts)
	case "take_outbox":
		items, _ := reply.([]any)
		for _, item := range items {
			texts := strs(item)
			k := s.mustBe("S1", job.ID(texts[0]), job.Completed, job.NeedDiscard, job.Cancelled, job.Expired)
			s.laters(k, s.taken(k, texts))
		}
	case "acknowledge":
		s.acknowledge(argv, texts)
	case "reserve":
		s.reserve(partition, argv, texts)
	case "unreserve":
		s.unreserve(argv, texts)
	case "limit_keys":
		s.limitKeys(argv)
	case "forget":
		s.forgot(argv, texts)
	}
	s.freeKeys()
	s.checkSpent()
	s.noteRetries()
	s.noteEnds()
}

// laters checks that each LATER of a history says until when it was, and why.
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

// mustBe returns the job if it is in one of the states. Otherwise it reports a violation and returns nil.
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

// waiting returns a partition's jobs of one status in the order of rank.
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

// running returns the given job if it runs, or else another running job, or else the given one.
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

// living returns how many jobs of an owner a partition has that have not ended.
func (s *shadow) living(partition int, owner string) (n int) {
	for _, k := range s.jobs {
		if k.owner == owner && !k.status.Ended() && k.id.Partition() == partition {
			n++
		}
	}
	for _, p := range s.places {
		if p.owner == owner && p.partition == partition {
			n++
		}
	}
	return n
}

// full returns the name of the limit that has no room for another job of the tier in this status; "" = none.
func (s *shadow) full(partition int, tier job.Plan, status job.Status) string {
	untried := func(k *known) bool {
		return (k.status == status || k.status == job.Held && status == job.Scheduled) && !k.tried
	}
	alive := func(k *known) bool { return !k.status.Ended() }
	one, size := func(*known) int { return 1 }, func(k *known) int { return k.size }
	delayed := map[job.Status]string{job.Scheduled: "d"}[status]
	each, bytes := func(*place) int { return 1 }, func(p *place) int { return p.size }
	as := func(countsAs string, weight func(*place) int) func(*place) int {
		return func(p *place) int {
			if p.countsAs != countsAs {
				return 0
			}
			return weight(p)
		}
	}
	plan := &s.w.plan
	for _, l := range []struct {
		name   string
		limit  int
		is     func(*known) bool
		weight func(*known) int
		place  func(*place) int
	}{
		{map[job.Status]string{job.Pending: "fresh", job.Scheduled: "delayed"}[status], plan.capacity, untried, one,
			as(cmp.Or(delayed, "f"), each)},
		{"delayedbytes", plan.bytes / 2, func(k *known) bool { return status == job.Scheduled && untried(k) }, size,
			as(delayed, bytes)},
		{"living", plan.living, alive, one, each},
		{"bytes", plan.bytes, alive, func(k *known) int { return k.weight }, bytes},
	} {
		if l.limit > 0 && s.filled(partition, l.limit, l.is, l.weight, l.place) >= s.share(tier, l.limit) {
			return l.name
		}
	}
	return ""
}

func (s *shadow) share(p job.Plan, limit int) int {
	return max(limit*p.Share/100/s.w.plan.partitions, 1)
}

// filled returns how much of a partition's limit such jobs have filled. The tiers fill it one after the other, the
// smallest share first, and each at most to its own share.
func (s *shadow) filled(partition, limit int, is func(*known) bool, weight func(*known) int,
	ofPlace func(*place) int) (sum int) {
	n := map[job.Tier]int{}
	for _, k := range s.jobs {
		if is(k) && k.id.Partition() == partition {
			n[k.tier.Tier] += weight(k)
		}
	}
	for _, p := range s.places {
		if p.partition == partition {
			n[p.tier] += ofPlace(p)
		}
	}
	plans := tiers()
	slices.SortStableFunc(plans, func(a, b job.Plan) int { return cmp.Compare(a.Share, b.Share) })
	for _, p := range plans {
		sum = max(sum, min(sum+n[p.Tier], s.share(p, limit)))
	}
	return sum
}

// begins handles a handler that starts.
func (s *shadow) begins(ctx context.Context, p *process, run *handler.Run, of job.ID) error {
	k := s.jobs[run.ID]
	switch {
	case k == nil && s.lost[run.ID] != nil && of == s.lost[run.ID].input: // Redis lost its lease meanwhile
	case k == nil || of != k.input:
		s.wrong("S18", "%s runs with the payload of %q", run.ID, of)
	case k.starts[run.Attempt] && s.lost[run.ID] == nil:
		s.wrong("S14", "%s: attempt %d starts twice", k, run.Attempt)
	default:
		k.starts[run.Attempt] = true
		if k.lease != nil && k.lease.attempt == run.Attempt && k.lease.holder == p {
			k.lease.begun, k.lease.ctx = true, ctx
			s.slotsOf(p, k)
		}
	}
	return nil
}

// returns handles a handler that is about to return.
func (s *shadow) returns(run *handler.Run) {
	if k := s.jobs[run.ID]; k != nil && k.lease != nil && k.lease.attempt == run.Attempt {
		k.lease.ctx = nil
	}
}

func (w *World) ms() int64 { return time.Now().UnixMilli() }
