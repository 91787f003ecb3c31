package queue_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
	"github.com/tierq/tierq/lua"
)

type mutation struct {
	name, script, old, changed string
	audit                      bool // the audit alone must notice the fault, whatever the replies are
}

// mutations are faults that a later change could put into a script. The test's sequence of calls must give another
// result with each of them.
var mutations = []mutation{
	{"submit counts nobody", "submit", "count_waiting(class, is_ready, true, 1, bytes)", "", true},
	{"submit forgets the queue", "submit", "write_entries(queue, queues, doorbell, job, lines)", "", true},
	{"submit takes duplicates", "submit", "earlier_answer(id, idempotency_key, body) or 'OK'", "'OK'", false},
	{
		"submit forgets the key", "submit",
		"redis.call('SET', idempotency .. idempotency_key, id .. ' ' .. body, 'PX', key_ttl)",
		"redis.call('EXISTS', queue)", false,
	},
	{"submit keeps the key for ever", "submit", ", 'PX', key_ttl)", ")", true},
	{"submit compares no body", "submit", "string.sub(stored, 38) == body", "true", false},
	{
		"submit has no limit", "submit",
		"if is_full(count_limit, is_held and class.held_limit or class.limit) then return count_limit end", "", false,
	},
	{
		"submit gives a time to live", "submit",
		"write_entries(queue, queues, doorbell, job, lines)",
		"redis.call('EXPIRE', records[1], 60) write_entries(queue, queues, doorbell, job, lines)", true,
	},
	{"submit's score is the arrival", "submit", "priority * base + arrived", "arrived", false},
	{
		"submit asks for no record", "submit",
		"if bulk_keys('EXISTS', job_keys) == 0 then return end",
		"if true then return end", false,
	},
	{"submit asks for no end", "submit", "pairs(read_column(ended .. slice_name, ids))", "pairs({})", false},
	{
		"submit forgets what the call took in", "submit",
		"known_heads[id], is_written = (holder and 'HELD ' or 'OK ') .. at, head, true",
		"is_written = (holder and 'HELD ' or 'OK ') .. at, true", true,
	},
	{
		"submit takes all for the first kind", "submit",
		"submit_classes[submit_class] = class",
		"setmetatable(submit_classes, {__index = function() return class end})", false,
	},
	{"submit counts no owner", "submit", "count_living(class, 1, bytes)", "", true},
	{"submit has no quota", "submit", "and room.quota_spent(class)", "and false", false},
	{"submit forgets what the call added", "submit", "+ (owner_changes[owner] or 0)", "", false},
	{"submit forgets what lived before", "submit", "tonumber(redis.call('HGET', owners, owner) or 0)", "0", false},
	{
		"claim leaves it queued", "claim",
		"for _, place in ipairs(places) do bulk('ZREM', key_of(place.name, queue, queues), place.taken) end", "", true,
	},
	{"claim starts no run deadline", "claim", "bulk('ZADD', run_deadlines, run_entries)", "", true},
	{"claim starts no heartbeat", "claim", "bulk('ZADD', heartbeat_deadlines, heartbeat_entries)", "", true},
	{"claim keeps no lease", "claim", "bulk('HSET', leases, lease_entries)", "", true},
	{
		"claim counts down again", "claim",
		"text(run.attempt + 1), run.first_claim == '0'",
		"text(run.attempt + 1), true", true,
	},
	{"claim forgets the attempts", "claim", "if tried_texts[i] then", "if false then", false},
	{
		"claim asked again claims again", "claim",
		"if is_repeat then", "if false then", false,
	},
	{"an old claim claims", "claim", "tonumber(number) < tonumber(known)", "false", false},
	{"claim is kept for ever", "claim", "table.concat(ids, ' '), 'PX', '60000')", "table.concat(ids, ' '))", true},
	{"heartbeat asks no token", "heartbeat", " and lease.token == token", "", false},
	{"heartbeat asks no attempt", "heartbeat", "lease.attempt == attempt and ", "", false},
	{"heartbeat hides the cancel", "heartbeat", "lease.cancel and 'CANCEL' or 'OK'", "'OK'", false},
	{
		"heartbeat forgets the checkpoint", "heartbeat",
		"if checkpoint_number > before.number and",
		"if false and", false,
	},
	{"heartbeat takes an old checkpoint", "heartbeat", "tonumber(stored_number) < checkpoint_number", "true", false},
	{"claim hides the checkpoint", "claim", "if stored then saved", "if stored == 0 then saved", false},
	{"heartbeat does not extend", "heartbeat", "bulk('ZADD', heartbeat_deadlines, deadline_entries)", "", true},
	{
		"complete asks no token", "complete",
		"lease.attempt == attempt and lease.token == token",
		"lease.attempt == attempt", false,
	},
	{
		"complete asks no attempt", "complete",
		"lease.attempt == attempt and lease.token == token",
		"lease.token == token", false,
	},
	{"complete leaves the heartbeat deadline", "complete", "bulk('ZREM', heartbeat_deadlines, ended_ids)", "", true},
	{"complete twice in a call", "complete", "if not answers[id] then", "if true then", true},
	{"complete leaves the run deadline", "complete", "bulk('ZREM', run_deadlines, ended_ids)", "", true},
	{"complete leaves the lease", "complete", "bulk('HDEL', leases, ended_ids)", "", true},
	{"complete keeps no end", "complete", "write_ends(outbox, ended, unacked, tried, checkpoints, reserved)", "", true},
	{"complete counts no end", "complete", "end_run(lease, now)", "", true},
	{
		"complete counts no owner", "complete",
		"count_living(lease.class, -1, bytes_of(head) + checkpoint_bytes(checkpoints, id) + lease.log_bytes)",
		"", true,
	},
	{"complete ignores the cancel", "complete", "(lease.cancel and 'CANCELLED ' or 'OK ')", "'OK '", false},
	{"complete forgets the bytes", "complete", "add_outbox_bytes(#result + lease.log_bytes)", "", true},
	{"complete keeps the payload", "complete", "bulk_keys('DEL', record_keys)", "", true},
	{
		"complete drops the payload", "complete",
		"local line = end_line_of(lease, 'CANCELLED')",
		"local line = end_line_of(lease, 'CANCELLED') record_keys[#record_keys + 1] = job .. id", true,
	},
	{"any ending after any", "complete", "e.report ~= 'complete' or ", "", false},
	{
		"a repeat of another attempt", "complete",
		"e.run.attempt ~= attempt or e.run.token ~= token",
		"e.run.token ~= token", false,
	},
	{
		"a repeat of another token", "complete",
		"e.run.attempt ~= attempt or e.run.token ~= token",
		"e.run.attempt ~= attempt", false,
	},
	{
		"fail asks no token", "fail",
		"lease.attempt == attempt and lease.token == token",
		"lease.attempt == attempt", false,
	},
	{
		"fail loses its place", "fail",
		"add_entry(class, score_of(head), id, head)",
		"add_entry(class, at, id, head)", true,
	},
	{"fail spends no retry", "fail", "retries = retries + 1", "retries = retries + 0", false},
	{"fail never ends", "fail", "spends_retry and (final == '1' or retries >= class.max_retries)", "false", true},
	{
		"fail counts as fresh", "fail",
		"count_job(class, 'ready', 1)",
		"count_job(class, 'ready', 1) change_counter(tier, 'fresh', 1)", true,
	},
	{"fail leaves the run deadline", "fail", "redis.call('ZREM', run_deadlines, id)", "", true},
	{"fail leaves the lease", "fail", "redis.call('HDEL', leases, id)", "", true},
	{
		"fail asks no attempt", "fail",
		"lease.attempt == attempt and lease.token == token",
		"lease.token == token", false,
	},
	{"fail ignores the cancel", "fail", "if lease.cancel then\n      word", "if false then\n      word", false},
	{"fail counts no end", "fail", "end_run(lease, now)", "", true},
	{"fail forgets that it answered", "fail", "format_tried(t, run, report, 'OK', at)", "format_tried(t, run)", false},
	{"fail forgets what the call answered", "fail", "if word ~= 'LOST' then answers", "if false then answers", false},
	{"fail answers another report", "fail", "t.report ~= report or ", "", false},
	{"fail answers another attempt", "fail", "t.run.attempt ~= attempt or ", "", false},
	{"fail answers another token", "fail", " or t.run.token ~= token", "", false},
	{"release costs a retry", "fail", "(report == 'fail' or exceeded)", "true", false},
	{
		"fail finishes no dead letter", "fail",
		"local line = end_line('NEED_DISCARD', at, report, class, run)\n" +
			"      end_with_record(checkpoints, id, class, attempt, line, at, head, t)",
		"", true,
	},
	{
		"fail finishes nobody cancelled", "fail",
		"local line = end_line('CANCELLED', at, report, class, run)\n" +
			"      end_with_record(checkpoints, id, class, attempt, line, at, head, t)",
		"", true,
	},
	{
		"reclaim finishes nobody", "reclaim",
		"end_with_record(checkpoints, id, class, attempt, line, at, head, t)",
		"", true,
	},
	{
		"cancel finishes nobody", "cancel",
		"end_waiting(checkpoints, id, class, head, 'CANCELLED', at, t)",
		"", true,
	},
	{
		"an end counts no owner", "prelude",
		"count_living(class, -1, bytes + checkpoint_bytes(checkpoints, id))",
		"", true,
	},
	{"an end skips the outbox", "prelude", "bulk('ZADD', outbox, outbox_entries)", "", true},
	{"an end weighs nothing", "prelude", "  add_outbox_bytes(bytes)\n", "\n", true},
	{"an end counts no bytes", "prelude", "-1, bytes + checkpoint_bytes(checkpoints, id))", "-1, 0)", true},
	{"an end counts no checkpoint", "prelude", "-1, bytes + checkpoint_bytes(checkpoints, id))", "-1, bytes)", true},
	{
		"an end counts for no slice", "prelude",
		"if redis.call('HINCRBY', unacked, slice_name, text(n)) == n then",
		"if true then", true,
	},
	{
		"a slice goes before its last end", "prelude",
		"redis.call('PERSIST', ended .. slice_name)",
		"redis.call('EXISTS', ended .. slice_name)", true,
	},
	{"an end leaves what was tried", "prelude", "drop_from_column(tried, ended_ids)", "", true},
	{"an end leaves the checkpoint", "prelude", "drop_from_column(checkpoints, ended_ids)", "", true},
	{
		"all leases are the first", "prelude",
		"parsed.leases[lease_text] = lease",
		"setmetatable(parsed.leases, {__index = function() return lease end})", false,
	},
	{
		"all ends are the first", "prelude",
		"parsed.end_lines[line] = ended_by",
		"setmetatable(parsed.end_lines, {__index = function() return ended_by end})", false,
	},
	{"release says not until when", "fail", "text(now + delay) .. ' ' .. message", "'0 ' .. message", false},
	{"release forgets why", "fail", "text(now + delay) .. ' ' .. message", "text(now + delay) .. ' '", false},
	{"reclaim looks once", "reclaim", "if first_look < deadline then", "if false then", false},
	{"reclaim is impatient", "reclaim", "now - first_look >= patience", "true", false},
	{"reclaim trusts an old look", "reclaim", "first_look < deadline", "first_look < 0", false},
	{"reclaim forgets the tier", "reclaim", "return 'OK', tier", "return 'OK', ''", false},
	{"reclaim leaves the other set", "reclaim", "redis.call('ZREM', other, id)", "", true},
	{"reclaim leaves the lease", "reclaim", "redis.call('HDEL', leases, id)", "", true},
	{
		"reclaim loses its place", "reclaim",
		"add_entry(class, score_of(head), id, head)",
		"add_entry(class, at, id, head)", true,
	},
	{"reclaim ignores the cancel", "reclaim", "if lease.cancel or", "if", false},
	{"promote leaves it scheduled", "promote", "bulk('ZREM', scheduled, ids)", "", true},
	{
		"promote counts no fresh", "prelude",
		"count_waiting(class, true, is_first, 1, 0)",
		"count_waiting(class, true, false, 1, 0)", true,
	},
	{"promote forgets when it was due", "promote", "bulk('HSET', tried, tried_entries)", "", false},
	{
		"cancel leaves it queued", "prelude",
		"redis.call('ZREM', ready_key(class, queue, queues, lines), id) == 1",
		"redis.call('ZSCORE', ready_key(class, queue, queues, lines), id) ~= false", true,
	},
	{"cancel counts nothing", "cancel", "write_counters(counters, owners)", "", true},
	{
		"cancel ends the running", "cancel",
		"if lease then\n      word = 'CANCEL'",
		"if false then\n      word = 'CANCEL'", true,
	},
	{
		"cancel takes any generation", "cancel",
		"wanted_generation == '' or wanted_generation == class.generation",
		"true", false,
	},
	{"kill counts nothing", "kill", "write_counters(counters, owners)", "", true},
	{"kill finishes nobody", "kill", "end_waiting(checkpoints, id, class, head, 'NEED_DISCARD', at, t)", "", true},
	{"kill takes the running", "kill", "if lease then\n      word = 'BUSY'", "if false then\n      word = 'BUSY'", true},
	{"kill takes any generation", "kill", "generation == class.generation", "true", false},
	{"kill kills again", "kill", "killed[id] or ", "", true},
	{"kill knows no earlier kill", "kill", " or e and cause_of(detail) == 'KILLED'", "", false},
	{"kill takes every end for its own", "kill", "e and cause_of(detail) == 'KILLED'", "e", false},
	{"kill does not say why", "kill", "t.cause, t.error = 'KILLED', reason", "", false},
	{"kill names no tier", "kill", "'FAILED ' .. class.tier", "'FAILED'", false},
	{"a killed job stays scheduled", "prelude", "redis.call('ZREM', scheduled, id)\n  if class.exp", "if class.exp",
		true},
	{"hasten leaves it scheduled", "hasten", "redis.call('ZREM', scheduled, id)", "", true},
	{"hasten counts nothing", "hasten", "write_counters(counters)", "", true},
	{"hasten queues nobody", "hasten", "write_entries(queue, queues, doorbell, job, lines)", "", true},
	{
		"hasten takes what is ready", "hasten",
		"local due = redis.call('ZSCORE', scheduled, id)", "local due = redis.call('ZSCORE', scheduled, id) or '0'", true,
	},
	{"hasten takes the running", "hasten", "parse_lease(redis.call('HGET', leases, id))", "false", false},
	{"hasten takes the ended", "hasten", "read_ended(ended, id)", "false", false},
	{"hasten forgets since when it waits", "hasten", "bulk('HSET', tried, tried_entries)", "", false},
	{"hasten keeps the due time", "hasten", "text(math.min(now, tonumber(due)))", "due", false},
	{
		"restore forgets that it was cancelled", "restore",
		"local is_cancelled = end_state ~= '' and not is_killed",
		"local is_cancelled = false", false,
	},
	{"restore takes a kill for a cancel", "restore", "end_state == 'NEED_DISCARD', ARGV", "false, ARGV", false},
	{"restore runs what was killed", "restore", "token ~= '' and not is_killed", "token ~= ''", false},
	{"restore does not say why it was killed", "restore", "error = is_killed and reason or ''", "error = ''", false},
	{"restore runs on what was cancelled", "restore", "(is_cancelled and ' cancel' or '')", "''", false},
	{"restore keeps no end", "restore", "write_ends(outbox, ended, unacked, tried, checkpoints, reserved)", "", true},
	{"restore weighs nothing", "restore", "add_outbox_bytes(bytes)", "", true},
	{
		"restore counts the cancelled as its owner's", "restore",
		"      add_outbox_bytes(bytes)",
		"      count_living(class, 1, bytes) add_outbox_bytes(bytes)", true,
	},
	{"restore counts no owner", "restore", "count_living(class, 1, bytes)", "", true},
	{
		"restore counts nobody", "restore",
		"count_waiting(class, state == 'PENDING', is_fresh, 1, bytes)",
		"count_waiting(class, state == 'PENDING', false, 1, bytes)", true,
	},
	{"restore runs nobody", "restore", "begin_run(class)", "", true},
	{"restore makes it twice", "restore", "word = word or now", "word = now", false},
	{"restore arrives anew", "restore", "if arrived == 0 then", "if true then", false},
	{"restore forgets the schedule", "restore", "bulk('ZADD', scheduled, scheduled_entries)", "", true},
	{
		"restore spends no retry", "restore",
		"format_run(attempt, retries, first_claim",
		"format_run(attempt, '0', first_claim", false,
	},
	{
		"requeue keeps the end", "restore",
		"redis.call('HDEL', ended .. slice_of(id), id)",
		"redis.call('EXISTS', queue)", true,
	},
	{"requeue of the living", "restore", "if not e then return 'BUSY' end", "if not e then return nil, 0 end", true},
	{
		"requeue of what SQL lacks", "restore",
		"e.run.attempt)) then return 'BUSY' end",
		"e.run.attempt)) then return nil, 0 end", true,
	},
	{
		"requeue twice", "restore",
		">= generation then return 'DUPLICATE'",
		"> generation then return 'DUPLICATE'", false,
	},
	{"requeue counts attempts anew", "restore", "text(math.max(tonumber(attempt), earlier_attempt))", "'0'", false},
	{"take removes", "take_outbox", "bulk('ZADD', outbox, outbox_entries_kept)", "", true},
	{"take lends to all", "take_outbox", "text(now + keep)", "text(now)", false},
	{
		"acknowledge any generation", "acknowledge",
		"outbox_member(id, ack_info.generation, ack_info.attempt)",
		"outbox_member(id, '1', ack_info.attempt)", false,
	},
	{
		"acknowledge any attempt", "acknowledge",
		"outbox_member(id, ack_info.generation, ack_info.attempt)",
		"outbox_member(id, ack_info.generation, '1')", false,
	},
	{
		"acknowledge the living", "acknowledge",
		"if outbox_scores[n] and not found[member]",
		"if not found[member]", true,
	},
	{"acknowledge leaves it in the outbox", "acknowledge", "bulk('ZREM', outbox, members)", "", true},
	{"acknowledge twice in a call", "acknowledge", "and not found[member]", "", true},
	{
		"acknowledge takes all for the first", "acknowledge",
		"ack_infos[ack_info] = {",
		"ack_infos[ack_info] = next(ack_infos) and ack_infos[next(ack_infos)] or {", false,
	},
	{"acknowledge for ever", "acknowledge", "redis.call('PEXPIRE', ended .. slice_name, slice_ttl)", "", true},
	{
		"acknowledge counts for no slice", "acknowledge",
		"redis.call('HINCRBY', unacked, slice_name, text(-#of.ids)) <= 0",
		"false", true,
	},
	{"acknowledge keeps the payload", "acknowledge", "gone_keys[#gone_keys + 1] = job .. id", "", true},
	{"acknowledge keeps the history", "acknowledge", "gone_keys[#gone_keys + 1] = attempts .. id", "", true},
	{"acknowledge counts no bytes", "acknowledge", "add_outbox_bytes(-#result - log_bytes)", "", true},
	{"acknowledge counts no payload", "acknowledge", "add_outbox_bytes(-bytes_of(head))", "", true},
	{"forget the young", "forget", "if now - last_end >= min_age then", "if true then", false},
	{"forget what SQL does not have", "forget", "elseif ttl >= 0 then", "else", false},
	{"forget whatever was asked for", "forget", "last_end <= before", "true", false},
	{"forget nothing", "forget", "redis.call('UNLINK', ended .. slice_name)", "redis.call('EXISTS', ended)", false},
	{"submit counts no bytes", "submit", "count_living(class, 1, bytes)", "count_living(class, 1, 0)", true},
	{
		"submit counts no delayed bytes", "submit",
		"count_waiting(class, is_ready, true, 1, bytes)",
		"count_waiting(class, is_ready, true, 1, 0)", true,
	},
	{
		"submit has no limit of the living", "submit",
		"if of and is_full(limit, of[limit]) then return limit end",
		"", false,
	},
	{"submit weighs nothing within a call", "submit", "    add('bytes', class.tier, bytes)\n", "", false},
	{"submit counts nobody within a call", "submit", "    add('living', class.tier, 1)\n", "", false},
	{"heartbeat counts no checkpoint", "heartbeat", "write_counters(counters)", "", true},
	{"heartbeat counts an overwritten checkpoint", "heartbeat", "#checkpoint - bytes_before", "#checkpoint", true},
	{"complete counts no bytes", "complete", "bytes_of(head) + checkpoint_bytes(checkpoints, id) +", "0 +", true},
	{
		"cancel counts no delayed bytes", "prelude",
		"t.run.first_claim == '0', -1, bytes_of(head))",
		"t.run.first_claim == '0', -1, 0)", true,
	},
	{
		"promote counts no bytes", "prelude",
		"count_waiting(class, false, is_first, -1, bytes_of(head))",
		"count_waiting(class, false, is_first, -1, 0)", true,
	},
	{"restore counts no bytes", "restore", "count_living(class, 1, bytes)", "count_living(class, 1, 0)", true},
	{"restore counts no delayed bytes", "restore", "is_fresh, 1, bytes)", "is_fresh, 1, 0)", true},
	{"later is free for ever", "fail", "t.laters = t.laters + 1", "t.laters = t.laters + 0", false},
	{"later beyond its bound spends nothing", "fail", "(report == 'fail' or exceeded)", "report == 'fail'", false},
	{
		"later beyond its bound goes on", "fail",
		"retries >= class.max_retries",
		"report == 'fail' and retries >= class.max_retries", true,
	},
	{"later may be as old as it likes", "fail", "age > later_age", "false", false},
	{
		"unknown spends a retry", "fail",
		"(report == 'fail' or exceeded)",
		"(report ~= 'later' and report ~= 'release' or exceeded)", false,
	},
	{"a returned job never waits", "fail", "t.in_row < 5 and 0 or", "t.in_row > 0 and 0 or", false},
	{"a returned job waits at once", "fail", "t.in_row < 5 and 0 or", "", false},
	{"returns and unknowns are one row", "fail", "t.report == report and (", "(", false},
	{"unknown waits for ever", "fail", "now - t.since >= unknown_for", "false", false},
	{"unknown always waits as long", "fail", "2000 * 2 ^ (t.in_row - 1)", "2000", false},
	{"a known type leaves the cause", "fail", "t.cause, t.error = '-', ''", "", false},
	{"a known type does not end the unknowns", "fail", "else t.in_row = 0 end", "end", false},
	{
		"reclaim does not end the unknowns", "reclaim",
		"t.cause, t.error, t.in_row = cause, why, 0",
		"t.cause, t.error = cause, why", false,
	},
}

// Every mutation of a script changes the result of the sequence, and every mutation still finds the text that it
// replaces. The short suite runs one in mutated of them, the long suite each.
func TestMutationsAreCaught(t *testing.T) {
	t.Parallel()
	caught(t, mutations, tellWith)
}

// The same for the faults that only claims by id show.
func TestMutationsOfClaimsByIDAreCaught(t *testing.T) {
	t.Parallel()
	caught(t, elsewhereMutations, tellElsewhereWith)
}

// The same for the faults that only jobs in declared queues show.
func TestMutationsOfQueuesAreCaught(t *testing.T) {
	t.Parallel()
	caught(t, queueMutations, tellQueuesWith)
}

// The same for the faults that only claims show that may not have all jobs.
func TestMutationsOfLimitsAreCaught(t *testing.T) {
	t.Parallel()
	caught(t, limitMutations, tellLimitsWith)
}

// The same for the faults that only lines show.
func TestMutationsOfLinesAreCaught(t *testing.T) {
	t.Parallel()
	caught(t, lineMutations, tellLinesWith)
}

func caught(t *testing.T, mutations []mutation, tell func(*testing.T, []job.ID, func(*queue.Queue)) []string) {
	t.Helper()
	for _, m := range mutations {
		source := lua.Prelude
		if m.script != "prelude" {
			source = lua.Own(m.script)
		}
		if !strings.Contains(source, m.old) {
			t.Errorf("%s: %s.lua has no %q any more: mend the mutation", m.name, m.script, m.old)
		}
	}
	ids := make([]job.ID, 44)
	for i := range ids { // two ids share a slice
		if ids[i] = queuetest.NewID(0); i%2 == 1 {
			ids[i] = queuetest.MateOf(ids[i-1])
		}
	}
	right := tell(t, ids, func(*queue.Queue) {})
	if again := tell(t, ids, func(*queue.Queue) {}); !slices.Equal(right, again) {
		t.Fatalf("the story differs from telling to telling: %q", queuetest.Diff(right, again))
	}
	for _, line := range right {
		if strings.HasPrefix(line, "audit") || strings.HasPrefix(line, "error") {
			t.Fatal(line)
		}
	}
	for i, m := range mutations {
		if i%mutated != 0 {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			wrong := tell(t, ids, func(q *queue.Queue) { q.Mutate(m.script, m.old, m.changed) })
			diff := queuetest.Diff(right, wrong)
			if len(diff) == 0 {
				t.Error("nobody noticed")
			}
			if audited := slices.ContainsFunc(wrong, func(l string) bool { return strings.HasPrefix(l, "audit") }); m.audit &&
				!audited {
				t.Errorf("the audit did not notice, others did: %q", diff)
			}
		})
	}
}
