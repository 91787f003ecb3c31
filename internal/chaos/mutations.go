package chaos

import (
	"cmp"
	"regexp"
	"slices"
	"time"

	"github.com/tierq/tierq/internal/chaos/client"
)

// mutation is a seeded bug: a mistake that a developer could make, and the faults under which it breaks a promise.
type mutation struct {
	name string
	// want has the invariants of which at least one has to object. A late rest (L1) is not among them: it may come
	// from a slow machine.
	want    string
	edits   []edit
	journal bool
	only    string // a regular expression for the faults of all servers and stores; "" = none
	mix     func(*client.Mix)
	sleep   time.Duration // the longest job
	over    time.Duration // how long faults come; 0 = 8 s
	inside  bool          // an embedded server has the bug
	walk    walk          // the walk that shows the bug; a walk of knownRed leaves the bug out
	red     *regexp.Regexp
}

// edit replaces a text that a file of the tree has exactly once.
type edit struct{ file, old, new string }

var mutations = slices.Concat(mutationsOfFaults, mutationsOfWalks, mutationsOfBatches, mutationsOfSchedules)

// mutationsOfFaults are bugs that faults reveal, or the load alone.
var mutationsOfFaults = []mutation{
	{name: control, only: "F10|F13|F14|F25|F27 replies of claim|F30|F36|F40|F56", sleep: 1000 * time.Millisecond},
	{
		name:  "no token check",
		want:  "S5 S14",
		only:  "F10|F30 everything",
		sleep: 1500 * time.Millisecond,
		over:  14 * time.Second,
		edits: []edit{
			{"lua/complete.lua", "elseif lease.attempt == attempt and lease.token == token then", "else"},
			{"lua/fail.lua", "elseif lease.attempt == attempt and lease.token == token then", "else"},
		},
	},
	{
		name:  "skipped ZREM",
		want:  "S1 S6",
		edits: []edit{{"lua/complete.lua", "bulk('ZREM', heartbeat_deadlines, ended_ids)\n", ""}},
	},
	{
		name:  "outcome written before it is decided",
		want:  "S12 S16",
		only:  "F30 everything|F10|F21",
		sleep: 500 * time.Millisecond,
		mix:   func(m *client.Mix) { m.Cancel = 0.3 },
		edits: []edit{{
			"internal/worker/send.go", "	case job.Completes:\n		s.completions = s.completions[:0]\n",
			`	case job.Completes:
		for _, h := range s.batch {
			s.pool.offer(h, job.EndReply{At: time.Now()})
		}
		s.completions = s.completions[:0]
`,
		}, {"internal/worker/send.go", "\"fmt\"\n", "\"fmt\"\n	\"time\"\n"}},
	},
	{
		name: "counter decrement dropped",
		want: "S9",
		edits: []edit{{
			"lua/claim.lua", "count_waiting(class, true, is_first, -1, 0)", "count_waiting(class, true, false, -1, 0)",
		}},
	},
	{
		name:  "EXPIRE on a living job",
		want:  "S10",
		only:  "F01|F10",
		sleep: 500 * time.Millisecond,
		edits: []edit{{"lua/claim.lua", "      add_job(id, lease, record)\n",
			"      add_job(id, lease, record)\n      redis.call('PEXPIRE', job .. id, '2000')\n"}},
	},
	{
		name:  "two-look rule removed",
		want:  "S14",
		only:  "F13|F56|F25",
		sleep: 1000 * time.Millisecond,
		edits: []edit{{"lua/reclaim.lua", "  if first_look < deadline then\n", "  if false then\n"},
			{"lua/reclaim.lua", "now - first_look >= patience", "true"}},
	},
	{
		name: "acknowledge before the SQL commit",
		want: "S2",
		only: "F01|F14|F36|F40",
		edits: []edit{{"internal/archive/write.go", "	once, cancel := context.WithTimeout(ctx, " +
			"transactionTimeout)\n", `	id := func(e **entry) job.ID { return (*e).ID }
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
		edits: []edit{{"lua/claim.lua", "known == number", "false"}},
	},
	{
		name:    "accepted without a row in the journal",
		want:    "S1",
		journal: true,
		only:    "F19|F17",
		edits: []edit{{
			"internal/admission/journal.go", "held, err := f.a.journal.Submit(ctx, rows)",
			"held, err := make([]job.KeyHolder, len(rows)), error(nil)",
		}},
	},
	{
		name:    "nothing restored to a Redis that lost jobs",
		want:    "S1",
		journal: true,
		only:    "F19|F17",
		edits: []edit{{
			"internal/ledger/reconcile.go", `return run != "" && slices.Contains(present, run) })`, "return true })",
		}},
	},
	{
		name:    "restored although Redis has it",
		want:    "S2 S5 S6 S9",
		journal: true,
		only:    "F17",
		sleep:   500 * time.Millisecond,
		edits: []edit{
			{"internal/ledger/give.go", "older := r.CancelRequested", "older := true"},
			{"lua/restore.lua", "word = word or now > not_after", "word = now > not_after"},
		},
	},
	{
		name:    "arrival lost when a job is restored",
		want:    "S15",
		journal: true,
		only:    "F19|F17",
		sleep:   500 * time.Millisecond,
		edits:   []edit{{"lua/restore.lua", "if arrived == 0 then", "if true then"}},
	},
	{
		name:    "due time lost when a job is restored",
		want:    "S15",
		journal: true,
		only:    "F19|F17",
		mix:     func(m *client.Mix) { m.Delay = 0.5 },
		edits:   []edit{{"lua/restore.lua", "if due > now then", "if false then"}},
	},
	{
		name:  "a job belongs to every key",
		want:  "S17",
		edits: []edit{{"internal/httpapi/passage.go", "if err == nil && !callerOf(c).Sees(j.Owner) {", "if false {"}},
	},
	{
		name: "no callback is sent",
		want: "S21",
		edits: []edit{{
			"internal/app/outgoing.go", `if o.CallbackURL == "" || o.Status == job.Cancelled {`, "if true {",
		}},
	},
	{
		name:  "a job of a flow waits for no other",
		want:  "S29",
		mix:   func(m *client.Mix) { m.Flow = 0.3 },
		edits: []edit{{"internal/job/flowgraph.go", "			open = true\n", "			open = false\n"}},
	},
	{
		name: "a released job gets no row",
		want: "S1",
		mix:  func(m *client.Mix) { m.Flow = 0.3 },
		only: "F01|F05",
		edits: []edit{{
			"internal/archive/flowlock.go", "insertChunks(ctx, conn, a.inserts, acceptedTable, rows, sizeOfRow)",
			"error(nil)",
		}},
	},
	{
		name:  "a quota is not checked",
		want:  "S9",
		sleep: 1500 * time.Millisecond, // more jobs come than the workers can run
		edits: []edit{{"lua/submit.lua", "if word == 'OK' and room.quota_spent(class) then", "if false then"}},
	},
}

// control is no bug: the same runs over the unchanged tree, in which no invariant may object.
const control = "none (the tree as it is)"

// options returns the options of a run that looks for the bug.
func (m *mutation) options(seed uint64) Options {
	o := Options{Seed: seed, Servers: 3, Over: cmp.Or(m.over, 8*time.Second), Gap: 500 * time.Millisecond,
		Bound: 40 * time.Second, MaxSleep: m.sleep, Forget: true,
		Journal: m.journal, Embedded: m.inside, KnownRed: m.red,
		KeepNone: m.walk == noRetention, Partitions: 1, Capacity: roomy}
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
