package sim

import (
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/lua"
)

// bugs are seeded bugs of the scripts: mistakes, or parts that are left out.
var bugs = []struct{ name, script, old, changed string }{
	{"complete asks no token nor attempt", "complete", "stored_attempt == attempt and stored_token == token", "true"},
	{"fail asks no token nor attempt", "fail", "stored_attempt == attempt and stored_token == token", "true"},
	{"heartbeat asks no token nor attempt", "heartbeat", "and stored_attempt == attempt and stored_token == token", ""},
	{"complete leaves the heartbeat deadline", "complete", "bulk('ZREM', heartbeat_deadlines, ended_ids)", ""},
	{"complete skips the outbox", "complete", "bulk('ZADD', outbox, outbox_entries)", ""},
	{"claim leaves it queued", "claim", "  bulk('ZREM', queue, ids)\n", ""},
	{
		"claim counts down again", "claim",
		"if not earlier_claim then change_counter(tier, 'fresh', -1) end",
		"change_counter(tier, 'fresh', -1)",
	},
	{"claim asked again claims again", "claim", "if last_number == number then", "if false then"},
	{"an old claim claims", "claim", "tonumber(number) < tonumber(last_number)", "false"},
	{"claim keeps the last ending", "claim", "redis.call('HDEL', job .. id, 'ending')", "redis.call('EXISTS', queue)"},
	{"submit takes duplicates", "submit", "earlier_answer(id, idempotency_key, body) or 'OK'", "'OK'"},
	{"submit counts nobody", "submit", "change_counter(tier, 'fresh', 1)", "change_counter(tier, 'fresh', 0)"},
	{"submit has no quota", "submit", "quota_spent(descriptor, class.quota)", "false"},
	{"complete counts no owner", "complete", "count_living(tier, head, -1, living_bytes(job .. id, saved))", ""},
	{"complete counts no bytes", "complete", "living_bytes(job .. id, saved)", "0"},
	{"finish forgets the checkpoint's bytes", "prelude", "-1, living_bytes(key, has_checkpoint))",
		"-1, payload_bytes(key))"},
	{"finish counts a dead letter as living", "prelude", "count_living(tier, head, -1, living_bytes(key, has_checkpoint))",
		""},
	{"submit has no limit of the living", "submit", "if fill and is_full(limit, fill.share) then return limit end", ""},
	{"heartbeat counts no checkpoint", "heartbeat", "write_counters(counters)", ""},
	{"later is free for ever", "fail", "'laters', text(laters + 1)", "'laters', text(laters)"},
	{"later may be as old as it likes", "fail", "age > later_age", "false"},
	{"later beyond its bound spends nothing", "fail", "(report == 'fail' or exceeded)", "report == 'fail'"},
	{
		"later beyond its bound goes on", "fail", "retries >= tonumber(max_retries)",
		"report == 'fail' and retries >= tonumber(max_retries)",
	},
	{
		"unknown spends a retry", "fail", "(report == 'fail' or exceeded)",
		"(report ~= 'later' and report ~= 'release' or exceeded)",
	},
	{"unknown waits for ever", "fail", "now - unknown_since >= unknown_for", "false"},
	{"submit is never late", "submit", "now > not_after", "false"},
	{
		"submit gives a time to live", "submit", "      add_to_fill('fresh', tier, 1)",
		"      redis.call('EXPIRE', job .. id, 3) add_to_fill('fresh', tier, 1)",
	},
	{"fail spends no retry", "fail", "text(retries + 1)", "text(retries)"},
	{"fail counts no end", "fail", "change_counter(tier, 'running', -1)", ""},
	{"fail forgets that it answered", "fail", "redis.call('HSET', key, 'ending', report .. ' ' .. word)", ""},
	{"fail ignores the cancel", "fail", "if cancel then\n        word", "if false then\n        word"},
	{"release forgets why", "fail", "text(now + delay) .. ' ' .. message", "text(now + delay) .. ' '"},
	{"reclaim looks once", "reclaim", "if first_look < deadline then", "if false then"},
	{"reclaim is impatient", "reclaim", "now - first_look >= patience", "true"},
	{"reclaim is too patient", "reclaim", "now - first_look >= patience", "now - first_look >= 3 * patience"},
	{"claim forgets the first", "claim", "local first_claim = earlier_claim or started", "local first_claim = started"},
	{"reclaim trusts an old look", "reclaim", "first_look < deadline", "first_look < 0"},
	{"reclaim forgets the tier", "reclaim", "return 'OK', tier", "return 'OK', ''"},
	{"cancel names no tier", "cancel", "ended_here and", "false and"},
	{"reclaim leaves the other set", "reclaim", "redis.call('ZREM', other, id)", ""},
	{"reclaim spends no retry", "reclaim", "text(retries + 1)", "text(retries)"},
	{"reclaim loses its place", "reclaim", "redis.call('ZADD', queue, score, id)", "redis.call('ZADD', queue, at, id)"},
	{"promote leaves it scheduled", "promote", "redis.call('ZREM', scheduled, id)", ""},
	{"cancel leaves it queued", "cancel", "redis.call('ZREM', queue, id)", ""},
	{"cancel ends the running", "cancel", "state == 'PROCESSING' then", "false then"},
	{"requeue twice", "restore", ">= generation then return 'DUPLICATE'", "> generation then return 'DUPLICATE'"},
	{"requeue counts attempts anew", "restore", "text(math.max(tonumber(attempt), earlier_attempt))", "'0'"},
	{"take removes", "take_outbox", "bulk('ZADD', outbox, outbox_entries)", ""},
	{"acknowledge the living", "acknowledge", "and outbox_scores[id]", ""},
	{"audit frets about the living", "audit", "if not has_ended and hash.ended then", "if not has_ended then"},
	{"cancel forgets later lives", "cancel", "redis.call('HSET', key, 'cancel', '1')",
		"if generation == '1' then redis.call('HSET', key, 'cancel', '1') end"},
	{"submit keeps a key for ever", "submit", "body, 'PX', key_ttl)", "body)"},
	{"submit keeps a key too short", "submit", "body, 'PX', key_ttl)", "body, 'PX', '1000')"},
	{
		"requeue trusts what Redis forgot", "restore", "local word, earlier_attempt = find_earlier(id, tonumber(generation))",
		"local word, earlier_attempt = find_earlier(id, tonumber(generation)) attempt = '0'",
	},
	{"claim knows no tier without a plan", "claim", "deadlines[tier] or deadlines['*']", "deadlines[tier]"},
	{"forget what ended a moment ago", "forget", "and now - ended >= min_age", ""},
	{"forget what SQL does not have", "forget", "elseif ttl >= 0 and not outbox_scores[id] then", "else"},
	{"acknowledge for ever", "acknowledge", "redis.call('PEXPIRE', key, ttl)", ""},
}

// The simulation finds each seeded bug within 500 seeds. Most are found by the tenth seed, the rarest by about the
// hundredth.
func TestMutations(t *testing.T) {
	t.Parallel()
	for i, b := range bugs {
		if !strings.Contains(lua.Source(b.script), b.old) {
			t.Errorf("%s: %s.lua has no %q any more: mend the mutation", b.name, b.script, b.old)
		}
		if i%hunted != 0 {
			continue
		}
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			broken := map[string]string{}
			for _, name := range lua.Names {
				switch b.script {
				case name:
					broken[name] = lua.Prelude + strings.ReplaceAll(lua.Source(name), b.old, b.changed)
				case "prelude":
					broken[name] = strings.ReplaceAll(lua.Prelude, b.old, b.changed) + lua.Source(name)
				}
			}
			hunt(t, Options{Mutate: broken})
		})
	}
	t.Run("acknowledged before SQL has it", func(t *testing.T) {
		t.Parallel()
		hunt(t, Options{AckFirst: true})
	})
	t.Run("an acknowledge waits for a full Redis", func(t *testing.T) {
		t.Parallel()
		hunt(t, Options{OwesFirst: true})
	})
}

func hunt(t *testing.T, o Options) {
	t.Helper()
	began := time.Now()
	for seed := range uint64(500) {
		if newPlan(seed).calm {
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
