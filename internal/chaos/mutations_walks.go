package chaos

import (
	"time"

	"github.com/tierq/tierq/internal/chaos/client"
)

// mutationsOfWalks are bugs that only a certain walk or load reveals.
var mutationsOfWalks = []mutation{
	{name: control, inside: true, only: "F0|F10|F46", sleep: 500 * time.Millisecond},
	{
		name:   "embedded: nothing restored",
		want:   "S1",
		inside: true,
		only:   "F01",
		edits: []edit{{
			"internal/ledger/reconcile.go", `return run != "" && slices.Contains(present, run) })`, "return true })",
		}},
	},
	{
		name:   "embedded: an attempt is not written before its handler begins",
		want:   "S5",
		inside: true,
		only:   "F01",
		sleep:  1500 * time.Millisecond,
		edits:  []edit{{"internal/worker/claim_journal.go", "err = j.journal.Claimed(ctx, reply.Leases)", "err = nil"}},
	},
	{
		name:   "embedded: a callback gets a new arrival after its first try",
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
		edits: []edit{{"lua/cancel.lua", "if not lease.cancel then",
			"if not lease.cancel and lease.class.generation == '1' then"}},
	},
	{
		name:  "an Idempotency-Key expires too soon",
		want:  "S13",
		mix:   func(m *client.Mix) { m.Once, m.Reuse = 0.9, 0.5 },
		edits: []edit{{"lua/submit.lua", "id .. ' ' .. body, 'PX', key_ttl)", "id .. ' ' .. body, 'PX', '1000')"}},
	},
	{
		name:  "an Idempotency-Key never expires",
		want:  "S13",
		over:  80 * time.Second,
		mix:   func(m *client.Mix) { m.Once, m.Reuse = 0.9, 0.5 },
		edits: []edit{{"lua/submit.lua", "id .. ' ' .. body, 'PX', key_ttl)", "id .. ' ' .. body)"}},
	},
	{
		name:  "a claim frees the unique key of a living job",
		want:  "S25",
		sleep: 1000 * time.Millisecond,
		mix:   func(m *client.Mix) { m.Unique, m.Batch = 0.8, 0 },
		edits: []edit{{"lua/claim.lua", "if class.unique_while == 'w' then free_unique", "if class.unique then free_unique"}},
	},
	{
		name:  "a replaced payload stays the old one",
		want:  "S25",
		mix:   func(m *client.Mix) { m.Unique, m.Batch = 0.8, 0 },
		edits: []edit{{"lua/submit.lua", "redis.call('SET', job .. id, class.class_line .. head .. '\\n' .. payload)\n", ""}},
	},
	{
		name:  "a pause of a tier holds nothing",
		want:  "S24",
		only:  "a tier paused",
		over:  30 * time.Second,
		edits: []edit{{"internal/queue/claim.go", "paused[plan.Priority] = true\n", "continue\n"}},
	},
	{
		name:  "running is no limit of a key",
		want:  "S27",
		sleep: 1000 * time.Millisecond,
		mix:   func(m *client.Mix) { m.Line, m.Unique = 1, 0 },
		edits: []edit{{"lua/lines.lua", "s.running >= l.running then", "false then"}},
	},
	{
		name:  "a strict key does not wait for a retry",
		want:  "S27",
		mix:   func(m *client.Mix) { m.Line, m.Unique, m.Fail = 1, 0, 0.5 },
		edits: []edit{{"lua/lines.lua", "(s.running > 0 or s.behind ~= '-')", "s.running > 0"}},
	},
	{
		name:  "an end frees the attempts of a whole key",
		want:  "S27",
		sleep: 1000 * time.Millisecond,
		mix:   func(m *client.Mix) { m.Line, m.Unique = 1, 0 },
		edits: []edit{{"lua/lines_write.lua", "math.max(s.running - n, 0), true", "0, true"}},
	},
	{
		name:  "a rate is no limit of a key",
		want:  "S27",
		mix:   func(m *client.Mix) { m.Line, m.Unique = 1, 0 },
		edits: []edit{{"lua/lines.lua", "if l.interval > 0 then return", "if false then return"}},
	},
	{
		name:  "a paused key runs",
		want:  "S27",
		mix:   func(m *client.Mix) { m.Line, m.Unique = 1, 0 },
		only:  "limits of keys changed",
		over:  30 * time.Second,
		edits: []edit{{"lua/lines.lua", "if l.paused_until > now then return l.paused_until end", ""}},
	},
	{
		name: "a late end of another program's worker counts",
		want: "S23",
		over: 14 * time.Second,
		mix:  func(m *client.Mix) { m.Elsewhere = 0.5 },
		edits: []edit{
			{"lua/complete.lua", "elseif lease.attempt == attempt and lease.token == token then", "else"},
			{"lua/fail.lua", "elseif lease.attempt == attempt and lease.token == token then", "else"},
		},
	},
	{
		name:  "an ACK ends the attempt of whoever has the job",
		want:  "S5 S18",
		over:  20 * time.Second,
		sleep: 1500 * time.Millisecond,
		mix:   func(m *client.Mix) { m.Elsewhere = 0.5 },
		edits: []edit{
			{"internal/faktory/end.go", "for _, h := range w.lookup(jid) {\n			if tried", `var all []*held
		for _, other := range s.workers.list() {
			if other.key == w.key {
				all = append(all, other.lookup(jid)...)
			}
		}
		slices.SortFunc(all, newer)
		for _, h := range all {
			if tried`},
			{"internal/faktory/end.go", "	\"strings\"\n", "	\"slices\"\n	\"strings\"\n"},
		},
	},
	{
		name: "a lease is every worker's",
		want: "S17",
		mix:  func(m *client.Mix) { m.Elsewhere = 0.5 },
		edits: []edit{
			{"internal/leasing/lease.go", "r.Sealer.Seal(ctx, text, key)", `r.Sealer.Seal(ctx, text, "")`},
			{"internal/leasing/lease.go", "r.Sealer.Open(ctx, sealed, key)", `r.Sealer.Open(ctx, sealed, "")`},
		},
	},
	{
		name: "a changed plan is not stored",
		want: "S22",
		only: "F52 a",
		edits: []edit{{"internal/queue/plans.go", "pipe.HSet(ctx, planKey(p.Tier), planFields(p))\n				if tiers",
			"if version == 0 {\n					pipe.HSet(ctx, planKey(p.Tier), planFields(p))\n				}\n				if tiers"}},
	},
	{
		name: "a broken first start is not continued",
		want: "L9",
		edits: []edit{
			{
				"internal/database/migrate.go", "return store.Insert(ctx, db, database.InsertRequest{Version: 0})",
				"return nil",
			},
		},
	},
	{
		name: "a full Redis does not drain",
		want: "L8",
		only: "F22 maxmemory reached, and it stays",
		over: 20 * time.Second,
		edits: []edit{
			{
				"lua/take_outbox.lua", "bulk('ZREM', outbox, taken) -- the first write removes: a full Redis must still drain\n",
				"",
			},
		},
	},
	{
		name:  "polls do not ask SQL",
		want:  "S16",
		walk:  noRetention,
		edits: []edit{{"internal/ledger/find.go", "		j, err := l.archived(ctx, id)\n		if errors", "		if errors"}},
	},
}
