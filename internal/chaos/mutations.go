package chaos

import (
	"cmp"
	"regexp"
	"time"

	"github.com/tierq/tierq/internal/chaos/client"
)

// mutation is a seeded bug: a mistake that somebody could make, and the faults under which it breaks a promise.
type mutation struct {
	name  string
	edits []edit
	only  string // which faults are injected, of all servers and stores; "" = none
	mix   func(*client.Mix)
	sleep time.Duration // the longest job
	over  time.Duration // how long faults come; 0 = 8 s
}

// edit replaces a text that stands exactly once in a file of the tree.
type edit struct{ file, old, new string }

var mutations = []mutation{
	{name: control, only: "F10|F13|F14|F25|F27 replies of claim|F30|F36|F40|F56", sleep: 1000 * time.Millisecond},
	{
		name:  "no token check",
		only:  "F10|F30 everything",
		sleep: 1500 * time.Millisecond,
		over:  14 * time.Second,
		edits: []edit{
			{"lua/complete.lua", "if m[2] == attempt and m[3] == token then", "if m[6] then"},
			{"lua/fail.lua", "if m[2] == attempt and m[3] == token then", "if m[6] then"},
			{"lua/release.lua", "if m[2] == attempt and m[3] == token then", "if m[6] then"},
		},
	},
	{
		name:  "skipped ZREM",
		edits: []edit{{"lua/complete.lua", "bulk('ZREM', beats, off)\n", ""}},
	},
	{
		name:  "outcome written before it is decided",
		only:  "F30 everything|F10|F21",
		sleep: 500 * time.Millisecond,
		mix:   func(m *client.Mix) { m.Cancel = 0.3 },
		edits: []edit{{
			"internal/worker/send.go", "	case complete:\n		s.completions = s.completions[:0]\n",
			`	case complete:
		for _, h := range s.batch {
			s.pool.offer(h, job.EndReply{At: time.Now()})
		}
		s.completions = s.completions[:0]
`,
		}, {"internal/worker/send.go", "\"fmt\"\n", "\"fmt\"\n	\"time\"\n"}},
	},
	{
		name:  "counter decrement dropped",
		edits: []edit{{"lua/claim.lua", "if not m[5] then count(m.tier, 'fresh', -1) end", ""}},
	},
	{
		name:  "EXPIRE on a live job",
		only:  "F01|F10",
		sleep: 500 * time.Millisecond,
		edits: []edit{{"lua/claim.lua", "    if m[3] then redis.call('HDEL', job .. id, 'ending') end\n",
			"    if m[3] then redis.call('HDEL', job .. id, 'ending') end\n    redis.call('PEXPIRE', job .. id, '2000')\n"}},
	},
	{
		name:  "two-look rule removed",
		only:  "F13|F56|F25",
		sleep: 1000 * time.Millisecond,
		edits: []edit{{"lua/reclaim.lua", "  if looked < deadline then\n", "  if false then\n"}, {"lua/reclaim.lua", "now - looked >= patience", "true"}},
	},
	{
		name: "acknowledge before the SQL commit",
		only: "F01|F14|F36|F40",
		edits: []edit{{"internal/archive/write.go", "	once, cancel := context.WithTimeout(ctx, transactionTimeout)\n", `	id := func(e **entry) job.ID { return (*e).ID }
	for partition, part := range job.Batches(batch, id, func(**entry) int { return 0 }) {
		acks := make([]job.Ack, len(part))
		for i, e := range part {
			acks[i] = job.Ack{ID: e.ID, Generation: e.Generation, Attempt: e.Attempt, Status: e.Status.Shown()}
		}
		_, _ = w.acks.Acknowledge(ctx, partition, acks)
	}
	once, cancel := context.WithTimeout(ctx, transactionTimeout)
`}},
	},
	{
		name:  "a claim's number is not remembered",
		only:  "F27 replies of claim|F31 reset in the middle of a claim",
		sleep: 300 * time.Millisecond,
		edits: []edit{{"lua/claim.lua", "if last[1] == number then", "if false then"}},
	},
}

// control is no bug at all: the same runs over the tree as it is, and nobody may object.
const control = "none (the tree as it is)"

// options are those of a run that looks for one bug.
func (m *mutation) options(seed uint64) Options {
	o := Options{Seed: seed, Servers: 3, Over: cmp.Or(m.over, 8*time.Second), Gap: 500 * time.Millisecond, Bound: 40 * time.Second, MaxSleep: m.sleep, Forget: true}
	o.Jobs = int(70 * o.Over.Seconds())
	o.Only = regexp.MustCompile(`^$`)
	if m.only != "" {
		o.Only = regexp.MustCompile(m.only)
	}
	mix := client.DefaultMix()
	if m.mix != nil {
		m.mix(&mix)
	}
	o.Mix = &mix
	return o
}
