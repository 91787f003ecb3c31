package chaos

import (
	"cmp"
	"regexp"
	"time"

	"github.com/tierq/tierq/internal/chaos/client"
)

// mutation is a seeded bug: a mistake that somebody could make, and the faults under which it breaks a promise.
type mutation struct {
	name    string
	want    string // invariants, of which at least one has to object: that a slow machine came late to its rest is no catch
	edits   []edit
	journal bool
	only    string // which faults are injected, of all servers and stores; "" = none
	mix     func(*client.Mix)
	sleep   time.Duration // the longest job
	over    time.Duration // how long faults come; 0 = 8 s
	inside  bool          // of an embedded server
	walk    walk          // where it shows; while that is known to be red, the bug is not looked for
}

// edit replaces a text that stands exactly once in a file of the tree.
type edit struct{ file, old, new string }

var mutations = []mutation{
	{name: control, only: "F10|F13|F14|F25|F27 replies of claim|F30|F36|F40|F56", sleep: 1000 * time.Millisecond},
	{
		name:  "no token check",
		want:  "S5 S14",
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
		want:  "S1 S6",
		edits: []edit{{"lua/complete.lua", "bulk('ZREM', beats, off)\n", ""}},
	},
	{
		name:  "outcome written before it is decided",
		want:  "S12 S16",
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
		want:  "S9",
		edits: []edit{{"lua/claim.lua", "if not m[5] then count(m.tier, 'fresh', -1) end", ""}},
	},
	{
		name:  "EXPIRE on a live job",
		want:  "S10",
		only:  "F01|F10",
		sleep: 500 * time.Millisecond,
		edits: []edit{{"lua/claim.lua", "    if m[3] then redis.call('HDEL', job .. id, 'ending') end\n",
			"    if m[3] then redis.call('HDEL', job .. id, 'ending') end\n    redis.call('PEXPIRE', job .. id, '2000')\n"}},
	},
	{
		name:  "two-look rule removed",
		want:  "S14",
		only:  "F13|F56|F25",
		sleep: 1000 * time.Millisecond,
		edits: []edit{{"lua/reclaim.lua", "  if looked < deadline then\n", "  if false then\n"}, {"lua/reclaim.lua", "now - looked >= patience", "true"}},
	},
	{
		name: "acknowledge before the SQL commit",
		want: "S2",
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
		want:  "S14",
		only:  "F27 replies of claim|F31 reset in the middle of a claim",
		sleep: 300 * time.Millisecond,
		edits: []edit{{"lua/claim.lua", "if last[1] == number then", "if false then"}},
	},
	{
		name:    "accepted without a row in the journal",
		want:    "S1",
		journal: true,
		only:    "F19|F17",
		edits:   []edit{{"internal/admission/journal.go", "lost = c.journal.Accept(ctx, k.rows)", "lost = nil"}},
	},
	{
		name:    "nothing is given back",
		want:    "S1",
		journal: true,
		only:    "F19|F17",
		edits:   []edit{{"internal/ledger/reconcile.go", `if run != "" && slices.Contains(present, run) {`, "if true {"}},
	},
	{
		name:    "given back although it is there",
		want:    "S2 S5 S6 S9",
		journal: true,
		only:    "F17",
		sleep:   500 * time.Millisecond,
		edits: []edit{
			{"internal/ledger/giveback.go", "older := r.CancelRequested", "older := true"},
			{"lua/restore.lua", "known(id, tonumber(generation)) or 'OK'", "'OK'"},
		},
	},
	{
		name:    "arrival lost when it is given back",
		want:    "S15",
		journal: true,
		only:    "F19|F17",
		sleep:   500 * time.Millisecond,
		edits:   []edit{{"lua/restore.lua", "if arrived == 0 then", "if true then"}},
	},
	{
		name:    "due time lost when it is given back",
		want:    "S15",
		journal: true,
		only:    "F19|F17",
		mix:     func(m *client.Mix) { m.Delay = 0.5 },
		edits:   []edit{{"lua/restore.lua", "elseif due > now then", "elseif false then"}},
	},
	{
		name:  "a job is anybody's",
		want:  "S17",
		edits: []edit{{"internal/httpapi/passage.go", "if err == nil && !callerOf(c).Sees(j.Owner) {", "if false {"}},
	},
	{
		name:  "nobody is called back",
		want:  "S21",
		edits: []edit{{"internal/archive/announce.go", "err = w.opts.Announce(ctx, outcomes)", "err = nil"}},
	},
	{
		name:  "a quota is not looked at",
		want:  "S9",
		sleep: 1500 * time.Millisecond, // more comes than can be run
		edits: []edit{{"lua/submit.lua", "elseif word == 'OK' and spent(about, kind.quota) then", "elseif false then"}},
	},
}

// mutationsOfWalks are bugs that show only where a walk leads.
var mutationsOfWalks = []mutation{
	{name: control + ", embedded", inside: true, only: "F0|F10|F46", sleep: 500 * time.Millisecond},
	{
		name:   "embedded: nothing is given back",
		want:   "S1",
		inside: true,
		only:   "F01",
		edits:  []edit{{"internal/ledger/reconcile.go", `if run != "" && slices.Contains(present, run) {`, "if true {"}},
	},
	{
		name:   "embedded: an attempt is not written before its handler begins",
		want:   "S5",
		inside: true,
		only:   "F01",
		sleep:  1500 * time.Millisecond,
		edits:  []edit{{"internal/app/journal.go", "err = j.journal.Claimed(ctx, reply.Leases)", "err = nil"}},
	},
	{
		name:   "embedded: the tried arrive after their first try",
		want:   "S15",
		inside: true,
		only:   "F01",
		over:   12 * time.Second,
		mix:    func(m *client.Mix) { m.Call = 0.9 },
		edits:  []edit{{"internal/queue/restore.go", "arrived = l.FirstTriedAt", "arrived = l.ArrivedAt"}},
	},
	{
		name:  "a cancel of a requeued job is forgotten",
		want:  "S12",
		sleep: 1500 * time.Millisecond,
		mix:   func(m *client.Mix) { m.Fail, m.Requeue, m.Undo = 0.5, 1, 1 },
		edits: []edit{{"lua/cancel.lua", "redis.call('HSET', key, 'cancel', '1')",
			"if generation == '1' then redis.call('HSET', key, 'cancel', '1') end"}},
	},
	{
		name:  "an Idempotency-Key expires too soon",
		want:  "S13",
		mix:   func(m *client.Mix) { m.Once, m.Reuse = 0.9, 0.5 },
		edits: []edit{{"lua/submit.lua", "id .. ' ' .. body, 'PX', keep)", "id .. ' ' .. body, 'PX', '1000')"}},
	},
	{
		name:  "an Idempotency-Key never expires",
		want:  "S13",
		over:  80 * time.Second,
		mix:   func(m *client.Mix) { m.Once, m.Reuse = 0.9, 0.5 },
		edits: []edit{{"lua/submit.lua", "id .. ' ' .. body, 'PX', keep)", "id .. ' ' .. body)"}},
	},
	{
		name: "a changed plan is not stored",
		want: "S22",
		only: "F52 a",
		edits: []edit{{"internal/queue/plans.go", "pipe.HSet(ctx, planKey(p.Tier), planFields(p))\n				if tiers",
			"if version == 0 {\n					pipe.HSet(ctx, planKey(p.Tier), planFields(p))\n				}\n				if tiers"}},
	},
	{
		name:  "a killed first start is not gone on with",
		want:  "L9",
		edits: []edit{{"internal/archive/migrate.go", "return store.Insert(ctx, db, database.InsertRequest{Version: 0})", "return nil"}},
	},
	{
		name:  "a full Redis does not drain",
		want:  "L8",
		walk:  standingLimit,
		only:  "F22 maxmemory reached, and it stays",
		over:  20 * time.Second,
		edits: []edit{{"lua/take_outbox.lua", "bulk('ZREM', outbox, taken) -- removing first: a full Redis must still drain\n", ""}},
	},
	{
		name:  "polls do not ask SQL",
		want:  "S16",
		walk:  noRetention,
		edits: []edit{{"internal/ledger/find.go", "		j, err := l.archived(ctx, id)\n		if errors", "		if errors"}},
	},
}

// control is no bug at all: the same runs over the tree as it is, and nobody may object.
const control = "none (the tree as it is)"

func (m *mutation) isControl() bool { return len(m.edits) == 0 }

// options are those of a run that looks for one bug.
func (m *mutation) options(seed uint64) Options {
	o := Options{Seed: seed, Servers: 3, Over: cmp.Or(m.over, 8*time.Second), Gap: 500 * time.Millisecond, Bound: 40 * time.Second, MaxSleep: m.sleep, Forget: true,
		Journal: m.journal, Embedded: m.inside, Partitions: 1, Capacity: roomy}
	if m.inside {
		o.Servers, o.Gap = 1, 2*time.Second
	}
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
