package sim

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/lua"
)

// bug is a seeded bug of a script: its text old is changed.
type bug struct{ name, script, old, changed string }

// late has the seed from which a bug is hunted that hardly any earlier seed shows.
var late = map[string]uint64{
	"replace takes a requeued job": 500, "kill takes any generation": 500, "a found row stays its submit's": 600,
	"a replaced payload is not in the row": 4400,
}

// bugs are seeded bugs of the scripts: mistakes, or parts that are left out.
var bugs = []bug{
	{"complete asks no token nor attempt", "complete", "lease.attempt == attempt and lease.token == token", "true"},
	{"fail asks no token nor attempt", "fail", "lease.attempt == attempt and lease.token == token", "true"},
	{"heartbeat asks no token nor attempt", "heartbeat", "and lease.attempt == attempt and lease.token == token", ""},
	{"complete leaves the heartbeat deadline", "complete", "bulk('ZREM', heartbeat_deadlines, ended_ids)", ""},
	{"complete leaves the lease", "complete", "bulk('HDEL', leases, ended_ids)", ""},
	{"complete keeps no end", "complete", "write_ends(outbox, ended, unacked, tried, checkpoints, reserved)", ""},
	{"an end skips the outbox", "prelude", "bulk('ZADD', outbox, outbox_entries)", ""},
	{
		"an end counts for no slice", "prelude",
		"if redis.call('HINCRBY', unacked, slice_name, text(n)) == n then",
		"if true then",
	},
	{"an end leaves what was tried", "prelude", "drop_from_column(tried, ended_ids)", ""},
	{
		"claim leaves it queued", "claim",
		"for _, place in ipairs(places) do bulk('ZREM', key_of(place.name, queue, queues), place.taken) end", "",
	},
	{
		"claim counts down again", "claim",
		"text(run.attempt + 1), run.first_claim == '0'",
		"text(run.attempt + 1), true",
	},
	{
		"claim hands out what is paused", "claim",
		"return paused[number] and 0 or (own[number] or 0) + common",
		"return (own[number] or 0) + common",
	},
	{"claim has no limit of common slots", "claim", "common = common - (n - of_its_own)", ""},
	{"claim takes no own slots", "claim", "if of_its_own > 0 then own[number] = own[number] - of_its_own end", ""},
	{"claim hides what it passes over", "claim", "was_passed_over and '1' or ''", "''"},
	{"claim asked again claims again", "claim", "if is_repeat then", "if false then"},
	{"an old claim claims", "claim", "tonumber(number) < tonumber(known)", "false"},
	{"an old answer's token is good for ever", "claim", "lease and lease.token == last_token and", "lease and"},
	{"an earlier delivery claims", "claim", "was_answered and latest ~= delivery or", ""},
	{"an overtaken copy claims", "claim", "or is_overtaken", ""},
	{"a claim by id is never late", "claim", "if now > not_after then return {'LATE'} end", ""},
	{"an empty claim by id is kept", "claim", "if not claim_id or #ids > 0 then", "if true then"},
	{"asked again it keeps the old token", "claim", "bulk('HSET', leases, renewed_leases)", ""},
	{"asked again it renews no deadline", "claim", "bulk('ZADD', heartbeat_deadlines, renewed_deadlines)", ""},
	{
		"asked again it forgets its jobs", "claim",
		"string.sub(known, -400) .. ',' .. delivery .. last_ids",
		"string.sub(known, -400) .. ',' .. delivery",
	},
	{
		"asked again it forgets the deliveries", "claim",
		"string.sub(known, -400) .. ',' .. delivery .. last_ids",
		"delivery .. last_ids",
	},
	{"submit takes duplicates", "submit", "earlier_answer(id, idempotency_key, body) or 'OK'", "'OK'"},
	{
		"submit asks for no record", "submit",
		"if bulk_keys('EXISTS', job_keys) == 0 then return end",
		"if true then return end",
	},
	{"submit asks for no end", "submit", "pairs(read_column(ended .. slice_name, ids))", "pairs({})"},
	{"submit counts nobody", "submit", "count_waiting(class, is_ready, true, 1, bytes)", ""},
	{"submit has no quota", "submit", "and room.quota_spent(class)", "and false"},
	{
		"complete counts no owner", "complete",
		"count_living(lease.class, -1, bytes_of(head) + checkpoint_bytes(checkpoints, id) + lease.log_bytes)",
		"",
	},
	{"complete counts no bytes", "complete", "bytes_of(head) + checkpoint_bytes(checkpoints, id) +", "0 +"},
	{"complete counts no log", "complete", "+ lease.log_bytes)\n        add_outbox", ")\n        add_outbox"},
	{"log asks no token nor attempt", "log", "and log.lease.attempt == attempt and log.lease.token == token", ""},
	{"log adds a line twice", "log", "if number > log.last then", "if true then"},
	{"log tells of no gap", "log", "if gap > 0 then", "if false then"},
	{"an end forgets the log", "prelude", "t.log_bytes, t.progress = lease.log_bytes, lease.progress",
		"t.progress = lease.progress"},
	{"an end forgets how far the job was", "prelude", "t.log_bytes, t.progress = lease.log_bytes, lease.progress",
		"t.log_bytes = lease.log_bytes"},
	{"claim forgets the log", "claim", "extras.format(t.log_bytes, '')", "''"},
	{"acknowledge leaves the log", "acknowledge", "gone_keys[#gone_keys + 1] = logs .. id", ""},
	{
		"an end forgets the checkpoint's bytes", "prelude",
		"-1, bytes + checkpoint_bytes(checkpoints, id))",
		"-1, bytes)",
	},
	{
		"an end counts a dead letter as living", "prelude",
		"count_living(class, -1, bytes + checkpoint_bytes(checkpoints, id))",
		"",
	},
	{"submit has no limit of the living", "submit", "if of and is_full(limit, of[limit]) then return limit end", ""},
	{"heartbeat counts no checkpoint", "heartbeat", "write_counters(counters)", ""},
	{"later is free for ever", "fail", "t.laters = t.laters + 1", "t.laters = t.laters + 0"},
	{"later may be as old as it likes", "fail", "age > later_age", "false"},
	{"later beyond its bound spends nothing", "fail", "(report == 'fail' or exceeded)", "report == 'fail'"},
	{
		"later beyond its bound goes on", "fail",
		"retries >= class.max_retries",
		"report == 'fail' and retries >= class.max_retries",
	},
	{
		"unknown spends a retry", "fail",
		"(report == 'fail' or exceeded)",
		"(report ~= 'later' and report ~= 'release' or exceeded)",
	},
	{"unknown waits for ever", "fail", "now - t.since >= unknown_for", "false"},
	{"submit is never late", "submit", "now > not_after", "false"},
	{
		"submit gives a time to live", "submit",
		"write_entries(queue, queues, doorbell, job, lines)",
		"redis.call('EXPIRE', records[1], 3) write_entries(queue, queues, doorbell, job, lines)",
	},
	{"fail spends no retry", "fail", "retries = retries + 1", "retries = retries + 0"},
	{"fail counts no end", "fail", "end_run(lease, now)", ""},
	{"fail forgets that it answered", "fail", "format_tried(t, run, report, 'OK', at)", "format_tried(t, run)"},
	{"fail ignores the cancel", "fail", "if lease.cancel then\n      word", "if false then\n      word"},
	{"release forgets why", "fail", "text(now + delay) .. ' ' .. message", "text(now + delay) .. ' '"},
	{"reclaim looks once", "reclaim", "if first_look < deadline then", "if false then"},
	{"reclaim is impatient", "reclaim", "now - first_look >= patience", "true"},
	{"reclaim is too patient", "reclaim", "now - first_look >= patience", "now - first_look >= 3 * patience"},
	{"claim forgets the first", "claim", "is_first and started or run.first_claim", "started"},
	{"claim forgets the attempts", "claim", "if tried_texts[i] then", "if i < 0 then"},
	{"reclaim trusts an old look", "reclaim", "first_look < deadline", "first_look < 0"},
	{"reclaim forgets the tier", "reclaim", "return 'OK', tier", "return 'OK', ''"},
	{"cancel names no tier", "cancel", "ended_here and", "false and"},
	{"reclaim leaves the other set", "reclaim", "redis.call('ZREM', other, id)", ""},
	{"reclaim leaves the lease", "reclaim", "redis.call('HDEL', leases, id)", ""},
	{"reclaim spends no retry", "reclaim", "text(retries + spent)", "text(retries)"},
	{"a crash counts as both", "reclaim", "spent = cost == 'retry' and 1 or 0", "spent = 1"},
	{
		"no crash counts as a retry", "reclaim", "most and 'crash' or 'retry'",
		"most and 'crash' or is_crash and 'nothing' or 'retry'",
	},
	{
		"no limit is taken for 0", "reclaim", "tonumber(max_crashes[tier] or max_crashes['*'])",
		"tonumber(max_crashes[tier] or max_crashes['*']) or is_crash and 0",
	},
	{"a free lease counts", "reclaim", "is_free = lease.lease_for == 0 and", "is_free = false and"},
	{"a free lease counts as a crash", "reclaim", "is_crash and not is_free and 1", "is_crash and 1"},
	{"a lost lease of the pool is free", "reclaim", "string.sub(lease.token, -2) ~= ':0'", "true"},
	{"a restored lease ends at once", "restore", "text(now + lease_ms)", "at"},
	{"a crash is not counted", "reclaim", "t.crashes = t.crashes + crashes", ""},
	{"a crash dies with the retries", "reclaim", "cost == 'retry' and retries >=", "retries >="},
	{"claim tells no crashes", "claim", "        note_crashes(id, t)\n", ""},
	{
		"reclaim loses its place", "reclaim",
		"add_entry(class, score_of(head), id, head)",
		"add_entry(class, at, id, head)",
	},
	{"promote leaves it scheduled", "promote", "bulk('ZREM', scheduled, ids)", ""},
	{"promote forgets when it was due", "promote", "bulk('HSET', tried, tried_entries)", ""},
	{"claim hands out what has expired", "claim", "is_expired(class, tried_texts[i], now)", "false"},
	{"claim leaves it in expiries", "claim", "bulk('ZREM', expiries, claimed_in_time)", ""},
	{
		"claim keeps no end of what expired", "claim",
		"  write_ends(outbox, ended, unacked, tried, checkpoints, reserved)\n", "",
	},
	{
		"a claimed job expires", "prelude", "class.expires <= now and parse_tried(tried_text).run.first_claim == '0'",
		"class.expires <= now",
	},
	{"a job expires early", "prelude", "class.expires <= now", "true"},
	{"a cancel leaves the expiry", "prelude", "  if class.expires then redis.call('ZREM', expiries, id) end\n", ""},
	{"expire keeps no end", "expire", "write_ends(outbox, ended, unacked, tried, checkpoints, reserved)", ""},
	{"expire counts nothing", "expire", "write_counters(counters, owners)", ""},
	{"restore keeps no expiry", "restore", "bulk('ZADD', expiries, expiry_entries)", ""},
	{"submit keeps no expiry", "submit", "  bulk('ZADD', expiries, expiry_entries)\n", ""},
	{"kill counts nothing", "kill", "write_counters(counters, owners)", ""},
	{"kill takes the running", "kill", "if lease then\n      word = 'BUSY'", "if false then\n      word = 'BUSY'"},
	{"kill takes any generation", "kill", "generation == class.generation", "true"},
	{"kill does not say why", "kill", "t.cause, t.error = 'KILLED', reason", ""},
	{"kill names no tier", "kill", "'FAILED ' .. class.tier", "'FAILED'"},
	{"hasten leaves it scheduled", "hasten", "redis.call('ZREM', scheduled, id)", ""},
	{"hasten counts nothing", "hasten", "write_counters(counters)", ""},
	{"hasten queues nobody", "hasten", "write_entries(queue, queues, doorbell, job, lines)", ""},
	{"hasten keeps the due time", "hasten", "text(math.min(now, tonumber(due)))", "due"},
	{
		"cancel leaves it queued", "prelude", "redis.call('ZREM', ready_key(class, queue, queues, lines), id) == 1",
		"redis.call('ZSCORE', key_of(class.queue, queue, queues), id)",
	},
	{
		"cancel ends the running", "cancel",
		"if lease then\n      word = 'CANCEL'",
		"if false then\n      word = 'CANCEL'",
	},
	{"requeue twice", "restore", ">= generation then return 'DUPLICATE'", "> generation then return 'DUPLICATE'"},
	{
		"requeue keeps the end", "restore",
		"redis.call('HDEL', ended .. slice_of(id), id)",
		"redis.call('EXISTS', queue)",
	},
	{"requeue counts attempts anew", "restore", "text(math.max(tonumber(attempt), earlier_attempt))", "'0'"},
	{"take removes", "take_outbox", "bulk('ZADD', outbox, outbox_entries_kept)", ""},
	{"acknowledge the living", "acknowledge", "if outbox_scores[n] and not found[member]", "if not found[member]"},
	{"audit frets about the living", "audit", "if not places.queue and not places.scheduled then", "if true then"},
	{
		"cancel forgets later lives", "cancel",
		"redis.call('HSET', leases, id, lease.text .. ' cancel\\n' .. head)",
		"redis.call('HSET', leases, id, lease.text .. " +
			"(lease.class.generation == '1' and ' cancel' or '') .. '\\n' .. head)",
	},
	{"submit keeps a key for ever", "submit", "body, 'PX', key_ttl)", "body)"},
	{"submit keeps a key too short", "submit", "body, 'PX', key_ttl)", "body, 'PX', '1000')"},
	{
		"requeue trusts what Redis forgot", "restore",
		"local word, earlier_attempt = find_earlier(id, tonumber(generation))",
		"local word, earlier_attempt = find_earlier(id, tonumber(generation)) attempt = '0'",
	},
	{"claim knows no tier without a plan", "claim", "deadlines[class.tier] or deadlines['*']", "deadlines[class.tier]"},
	{"forget what ended a moment ago", "forget", "if now - last_end >= min_age then", "if true then"},
	{"forget what SQL does not have", "forget", "elseif ttl >= 0 then", "else"},
	{"acknowledge for ever", "acknowledge", "redis.call('PEXPIRE', ended .. slice_name, slice_ttl)", ""},
}

// scripts returns the scripts that have the bug.
func (b *bug) scripts(t *testing.T) map[string]string {
	t.Helper()
	broken := map[string]string{}
	for _, name := range lua.Names {
		prelude, own := lua.Prelude, lua.Own(name)
		switch b.script {
		case name:
			own = strings.ReplaceAll(own, b.old, b.changed)
		case "prelude":
			prelude = strings.ReplaceAll(prelude, b.old, b.changed)
		}
		if text := prelude + own; text != lua.Script(name) {
			broken[name] = text
		}
	}
	if len(broken) == 0 {
		t.Errorf("%s: %s.lua has no %q any more: mend the mutation", b.name, b.script, b.old)
	}
	return broken
}

// The simulation finds each seeded bug within 500 seeds. Most are found by the tenth seed, the rarest by about the
// hundredth.
func TestMutations(t *testing.T) {
	t.Parallel()
	for i, b := range slices.Concat(bugs, uniqueBugs, lineBugs) {
		broken := b.scripts(t)
		if i%hunted != 0 {
			continue
		}
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			hunt(t, late[b.name], Options{Mutate: broken})
		})
	}
	t.Run("acknowledged before SQL has it", func(t *testing.T) {
		t.Parallel()
		hunt(t, 0, Options{AckFirst: true})
	})
	t.Run("limits do not come back", func(t *testing.T) {
		t.Parallel()
		hunt(t, 0, Options{NoLimits: true})
	})
	t.Run("an acknowledge waits for a full Redis", func(t *testing.T) {
		t.Parallel()
		hunt(t, 0, Options{OwesFirst: true})
	})
}

// hunt plays up to 1500 seeds from one on, until one of them violates a rule. A bug of the journal is hunted in seeds
// with a journal only.
func hunt(t *testing.T, from uint64, o Options) {
	t.Helper()
	began := time.Now()
	for seed := from; seed < from+1500; seed++ {
		if p := newPlan(seed); p.calm || !p.journal && o.Journal != (JournalBugs{}) {
			continue
		}
		if r := play(t, seed, o); r.Violation != "" {
			t.Logf("caught by seed %d, call %d, after %s: %.220s", seed, r.Calls, time.Since(began).Round(time.Millisecond),
				r.Violation)
			return
		}
	}
	t.Error("nobody noticed")
}
