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

// mutations are faults that a later change could put into a script. The test's sequence of calls must give another
// result with each of them.
var mutations = []struct {
	name, script, old, changed string
	audit                      bool // the audit alone must notice the fault, whatever the replies are
}{
	{"submit counts nobody", "submit", "change_counter(tier, 'fresh', 1)", "change_counter(tier, 'fresh', 0)", true},
	{"submit forgets the queue", "submit", "bulk('ZADD', queue, queue_entries)", "", true},
	{"submit takes duplicates", "submit", "earlier_answer(id, idempotency_key, body) or 'OK'", "'OK'", false},
	{
		"submit forgets the key", "submit",
		"redis.call('SET', idempotency .. idempotency_key, id .. ' ' .. body, 'PX', key_ttl)",
		"redis.call('EXISTS', queue)", false,
	},
	{"submit keeps the key for ever", "submit", ", 'PX', key_ttl)", ")", true},
	{"submit compares no body", "submit", "string.sub(stored, 38) == body", "true", false},
	{"submit has no limit", "submit", "if is_full(count_limit, class.limit) then return count_limit end", "", false},
	{
		"submit gives a time to live", "submit", "      add_to_fill('fresh', tier, 1)",
		"      redis.call('EXPIRE', job .. id, 60) add_to_fill('fresh', tier, 1)", true,
	},
	{"submit's score is the arrival", "submit", "priority * base + arrived", "arrived", false},
	{"submit asks nobody whether it is there", "submit", "local any_known = any_exists(job_keys)",
		"local any_known = false", false},
	{
		"submit forgets what the call took in", "submit",
		"word, accepted[id] = 'OK ' .. at, true",
		"word = 'OK ' .. at", true,
	},
	{
		"submit takes all for the first kind", "submit",
		"submit_classes[submit_class] = class",
		"setmetatable(submit_classes, {__index = function() return class end})", false,
	},
	{"submit counts no owner", "submit", "count_living(tier, head, 1, #payload)", "", true},
	{"submit has no quota", "submit", "quota_spent(descriptor, class.quota)", "false", false},
	{"submit forgets what the call added", "submit", "+ (owner_changes[owner] or 0)", "", false},
	{"submit forgets what lived before", "submit", "tonumber(redis.call('HGET', owners, owner) or 0)", "0", false},
	{"claim leaves it queued", "claim", "  bulk('ZREM', queue, ids)\n", "", true},
	{"claim starts no run deadline", "claim", "bulk('ZADD', run_deadlines, run_entries)", "", true},
	{"claim starts no heartbeat", "claim", "bulk('ZADD', heartbeat_deadlines, heartbeat_entries)", "", true},
	{
		"claim counts down again", "claim",
		"if not earlier_claim then change_counter(tier, 'fresh', -1) end",
		"change_counter(tier, 'fresh', -1)", true,
	},
	{"claim asked again claims again", "claim", "if last_number == number then", "if false then", false},
	{"an old claim claims", "claim", "tonumber(number) < tonumber(last_number)", "false", false},
	{
		"claim keeps the last ending", "claim",
		"redis.call('HDEL', job .. id, 'ending')",
		"redis.call('EXISTS', queue)", false,
	},
	{"claim is kept for ever", "claim", "redis.call('PEXPIRE', claims, 60000)", "", true},
	{"heartbeat asks no token", "heartbeat", "and stored_token == token", "", false},
	{"heartbeat asks no attempt", "heartbeat", "and stored_attempt == attempt", "", false},
	{"heartbeat hides the cancel", "heartbeat", "cancel and 'CANCEL' or 'OK'", "'OK'", false},
	{"heartbeat forgets the checkpoint", "heartbeat", "if tonumber(checkpoint_number) > 0 and", "if false and", false},
	{"heartbeat takes an old checkpoint", "heartbeat", "tonumber(saved_number) < tonumber(checkpoint_number)", "true",
		false},
	{"claim hides the checkpoint", "claim", "retries, first_claim, started, checkpoint, due)",
		"retries, first_claim, started)", false},
	{"heartbeat does not extend", "heartbeat", "bulk('ZADD', heartbeat_deadlines, deadline_entries)", "", true},
	{"complete asks no token", "complete", "stored_attempt == attempt and stored_token == token",
		"stored_attempt == attempt", false},
	{"complete asks no attempt", "complete", "stored_attempt == attempt and stored_token == token",
		"stored_token == token", false},
	{"complete leaves the heartbeat deadline", "complete", "bulk('ZREM', heartbeat_deadlines, ended_ids)", "", true},
	{"complete twice in a call", "complete", "elseif answers[id] then", "elseif false then", true},
	{"complete leaves the run deadline", "complete", "bulk('ZREM', run_deadlines, ended_ids)", "", true},
	{"complete skips the outbox", "complete", "bulk('ZADD', outbox, outbox_entries)", "", true},
	{"complete counts no end", "complete", "change_counter(tier, 'running', -1)", "", true},
	{"complete counts no owner", "complete", "count_living(tier, head, -1, living_bytes(job .. id, saved))", "", true},
	{"complete ignores the cancel", "complete", "(cancel and 'CANCELLED ' or 'OK ')", "'OK '", false},
	{"complete forgets the bytes", "complete", "add_outbox_bytes(#result)", "", true},
	{"complete keeps the payload", "complete", ",\n      'payload', '')", ")", true},
	{
		"complete drops the payload", "complete",
		"    add_outbox_bytes(#result)",
		"    redis.call('HDEL', job .. id, 'payload') add_outbox_bytes(#result)", true,
	},
	{"any ending after any", "complete", "string.match(ending, '^complete (.+)$') or 'LOST'", "'OK ' .. ended", false},
	{"fail asks no token", "fail", "stored_attempt == attempt and stored_token == token", "stored_attempt == attempt",
		false},
	{"fail loses its place", "fail", "redis.call('ZADD', queue, score, id)", "redis.call('ZADD', queue, at, id)", true},
	{"fail spends no retry", "fail", "text(retries + 1)", "text(retries)", false},
	{"fail never ends", "fail", "spends_retry and (final == '1' or retries >= tonumber(max_retries))", "false", true},
	{
		"fail counts as fresh", "fail",
		"change_counter(tier, 'ready', 1)",
		"change_counter(tier, 'ready', 1) change_counter(tier, 'fresh', 1)", true,
	},
	{"fail leaves the run deadline", "fail", "redis.call('ZREM', run_deadlines, id)", "", true},
	{"fail asks no attempt", "fail", "stored_attempt == attempt and stored_token == token", "stored_token == token",
		false},
	{"fail ignores the cancel", "fail", "if cancel then\n        word", "if false then\n        word", false},
	{"fail counts no end", "fail", "change_counter(tier, 'running', -1)", "", true},
	{"release costs a retry", "fail", "(report == 'fail' or exceeded)", "true", false},
	{"fail finishes no dead letter", "fail", "finish(outbox, key, id, tier, head, saved, 'NEED_DISCARD', at)", "", true},
	{"fail finishes nobody cancelled", "fail", "finish(outbox, key, id, tier, head, saved, 'CANCELLED', at)", "", true},
	{
		"reclaim finishes nobody", "reclaim",
		"finish(outbox, key, id, tier, head, saved, cancel and 'CANCELLED' or 'NEED_DISCARD', at)",
		"", true,
	},
	{"cancel finishes nobody", "cancel", "finish(outbox, key, id, tier, head, saved, 'CANCELLED', at)", "", true},
	{"finish counts no owner", "prelude", "count_living(tier, head, -1, living_bytes(key, has_checkpoint))", "", true},
	{"finish skips the outbox", "prelude", "redis.call('ZADD', outbox, at, id)", "", true},
	{"finish weighs nothing", "prelude", "  add_outbox_bytes(payload_bytes(key))", "", true},
	{
		"finish counts no bytes", "prelude",
		"count_living(tier, head, -1, living_bytes(key, has_checkpoint))",
		"count_living(tier, head, -1, 0)", true,
	},
	{"finish counts no checkpoint", "prelude", "-1, living_bytes(key, has_checkpoint))", "-1, payload_bytes(key))", true},
	{
		"release says not until when",
		"fail",
		"text(now + delay) .. ' ' .. message",
		"'0 ' .. message",
		false,
	},
	{
		"release forgets why",
		"fail",
		"text(now + delay) .. ' ' .. message",
		"text(now + delay) .. ' '",
		false,
	},
	{"reclaim looks once", "reclaim", "if first_look < deadline then", "if false then", false},
	{"reclaim is impatient", "reclaim", "now - first_look >= patience", "true", false},
	{"reclaim trusts an old look", "reclaim", "first_look < deadline", "first_look < 0", false},
	{"reclaim forgets the tier", "reclaim", "return 'OK', tier", "return 'OK', ''", false},
	{"reclaim leaves the other set", "reclaim", "redis.call('ZREM', other, id)", "", true},
	{"reclaim keeps the token", "reclaim", "redis.call('HDEL', key, 'token', 'error', 'unknowns')", "", false},
	{"reclaim spends no retry", "reclaim", "text(retries + 1)", "text(retries)", false},
	{
		"reclaim loses its place", "reclaim",
		"redis.call('ZADD', queue, score, id)",
		"redis.call('ZADD', queue, at, id)", true,
	},
	{"reclaim ignores the cancel", "reclaim", "if cancel or", "if", false},
	{"promote leaves it scheduled", "promote", "redis.call('ZREM', scheduled, id)", "", true},
	{"promote counts no fresh", "promote", "change_counter(tier, 'fresh', 1)", "", true},
	{"cancel leaves it queued", "cancel", "redis.call('ZREM', queue, id)", "", true},
	{"cancel counts nothing", "cancel", "write_counters(counters, owners)", "", true},
	{"cancel ends the running", "cancel", "state == 'PROCESSING' then", "false then", true},
	{"cancel takes any generation", "cancel", "wanted_generation == '' or wanted_generation == generation", "true", false},
	{
		"restore forgets that it was cancelled", "restore",
		"local is_cancelled = end_state ~= ''",
		"local is_cancelled = false", false,
	},
	{
		"restore runs on what was cancelled", "restore",
		"if is_cancelled then redis.call('HSET', job .. id, 'cancel', '1') end",
		"", false,
	},
	{"restore skips the outbox", "restore", "redis.call('ZADD', outbox, text(now), id)", "", true},
	{"restore weighs nothing", "restore", "add_outbox_bytes(payload_bytes(job .. id))", "", true},
	{"restore counts the cancelled as its owner's", "restore", "holder ~= '' or not is_cancelled", "true", true},
	{"restore counts no owner", "restore", "count_living(tier, head, 1, #payload)", "", true},
	{"restore counts nobody", "restore", "if first_claim == '0' then change_counter(tier, 'fresh', 1) end", "", true},
	{"restore runs nobody", "restore", "change_counter(tier, 'running', 1)", "", true},
	{"restore makes it twice", "restore", "word = word or now", "word = now", false},
	{"restore arrives anew", "restore", "if arrived == 0 then", "if true then", false},
	{"restore forgets the schedule", "restore", "bulk('ZADD', scheduled, scheduled_entries)", "", true},
	{
		"restore spends no retry", "restore",
		"redis.call('HSET', job .. id, 'retries', retries)",
		"redis.call('EXISTS', queue)", false,
	},
	{"requeue keeps the time to live", "restore", "redis.call('DEL', job .. id, attempts .. id)", "", true},
	{"requeue of the living", "restore", "not ended_states[state] or", "", true},
	{
		"requeue twice", "restore",
		">= generation then return 'DUPLICATE'",
		"> generation then return 'DUPLICATE'", false,
	},
	{"requeue counts attempts anew", "restore", "text(math.max(tonumber(attempt), earlier_attempt))", "'0'", false},
	{"take removes", "take_outbox", "bulk('ZADD', outbox, outbox_entries)", "", true},
	{"take lends to all", "take_outbox", "text(now + keep), id", "text(now), id", false},
	{"acknowledge any generation", "acknowledge", "string.match(head, '^%S+ (%d+)') == generation and", "", false},
	{"acknowledge any attempt", "acknowledge", "stored_attempt == attempt", "true", false},
	{"acknowledge the living", "acknowledge", "and outbox_scores[id]", "", true},
	{"acknowledge leaves it in the outbox", "acknowledge", "bulk('ZREM', outbox, acknowledged)", "", true},
	{"acknowledge twice in a call", "acknowledge", ", outbox_scores[id] = id, nil", " = id", true},
	{
		"acknowledge takes all for the first", "acknowledge",
		"ack_infos[ack_info] = {",
		"ack_infos[ack_info] = next(ack_infos) and ack_infos[next(ack_infos)] or {", false,
	},
	{"acknowledge for ever", "acknowledge", "redis.call('PEXPIRE', key, ttl)", "", true},
	{
		"acknowledge keeps the payload", "acknowledge",
		"redis.call('HDEL', key, 'payload', 'saved', 'checkpoint')",
		"", true,
	},
	{
		"acknowledge keeps the history", "acknowledge",
		"redis.call('DEL', attempts .. id)",
		"redis.call('EXISTS', outbox)", true,
	},
	{"acknowledge counts no bytes", "acknowledge", "add_outbox_bytes(-#(result or ''))", "", true},
	{"acknowledge counts no payload", "acknowledge", "add_outbox_bytes(-payload_bytes(key))", "", true},
	{"forget the young", "forget", "and now - ended >= min_age", "", false},
	{"forget what SQL does not have", "forget", "elseif ttl >= 0 and not outbox_scores[id] then", "else", false},
	{"forget whatever was asked for", "forget", "ended <= before", "true", false},
	{"forget nothing", "forget", "redis.call('DEL', key)", "redis.call('EXISTS', key)", false},
	{"submit counts no bytes", "submit", "count_living(tier, head, 1, #payload)", "count_living(tier, head, 1, 0)", true},
	{"submit counts no delayed bytes", "submit", "change_counter(tier, 'delayedbytes', #payload)", "", true},
	{
		"submit has no limit of the living", "submit", "if fill and is_full(limit, fill.share) then return limit end",
		"", false,
	},
	{"submit weighs nothing within a call", "submit", "add_to_fill('bytes', tier, #payload)", "", false},
	{"submit counts nobody within a call", "submit", "add_to_fill('living', tier, 1)", "", false},
	{"heartbeat counts no checkpoint", "heartbeat", "write_counters(counters)", "", true},
	{
		"heartbeat counts an overwritten checkpoint", "heartbeat",
		" - redis.call('HSTRLEN', job .. id, 'checkpoint')", "", true,
	},
	{"complete counts no bytes", "complete", "living_bytes(job .. id, saved)", "0", true},
	{"cancel counts no delayed bytes", "cancel", "change_counter(tier, 'delayedbytes', -payload_bytes(key))", "", true},
	{"promote counts no bytes", "promote", "change_counter(tier, 'delayedbytes', -payload_bytes(job .. id))", "", true},
	{
		"restore counts no bytes", "restore", "count_living(tier, head, 1, #payload)",
		"count_living(tier, head, 1, 0)", true,
	},
	{"restore counts no delayed bytes", "restore", "change_counter(tier, 'delayedbytes', #payload)", "", true},
	{"later is free for ever", "fail", "'laters', text(laters + 1)", "'laters', text(laters)", false},
	{"later beyond its bound spends nothing", "fail", "(report == 'fail' or exceeded)", "report == 'fail'", false},
	{
		"later beyond its bound goes on", "fail",
		"retries >= tonumber(max_retries)", "report == 'fail' and retries >= tonumber(max_retries)", true,
	},
	{"later may be as old as it likes", "fail", "age > later_age", "false", false},
	{
		"unknown spends a retry", "fail",
		"(report == 'fail' or exceeded)", "(report ~= 'later' and report ~= 'release' or exceeded)", false,
	},
	{"unknown waits for ever", "fail", "now - unknown_since >= unknown_for", "false", false},
	{"unknown always waits as long", "fail", "2000 * 2 ^ unknowns", "2000", false},
	{"a known type leaves the cause", "fail", "redis.call('HDEL', key, 'cause', 'error')", "", false},
	{"a known type does not end the unknowns", "fail", "redis.call('HDEL', key, 'unknowns')", "", false},
	{"reclaim does not end the unknowns", "reclaim", "'token', 'error', 'unknowns')", "'token', 'error')", false},
}

// Every mutation of a script changes the result of the sequence, and every mutation still finds the text that it
// replaces. The short suite runs one in mutated of them, the long suite each.
func TestMutationsAreCaught(t *testing.T) {
	t.Parallel()
	for _, m := range mutations {
		if !strings.Contains(lua.Source(m.script), m.old) {
			t.Errorf("%s: %s.lua has no %q any more: mend the mutation", m.name, m.script, m.old)
		}
	}
	ids := make([]job.ID, 26)
	for i := range ids {
		ids[i] = queuetest.NewID(0)
	}
	right := tellWith(t, ids, func(*queue.Queue) {})
	if again := tellWith(t, ids, func(*queue.Queue) {}); !slices.Equal(right, again) {
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
			wrong := tellWith(t, ids, func(q *queue.Queue) { q.Mutate(m.script, m.old, m.changed) })
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
