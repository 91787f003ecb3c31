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

// mutations are faults that someone may put into a script one day. A story told with each of them must not read as without it.
var mutations = []struct {
	name, script, old, changed string
	audit                      bool // the audit alone must see it, whatever was answered
}{
	{"submit counts nobody", "submit", "count(tier, 'fresh', 1)", "count(tier, 'fresh', 0)", true},
	{"submit forgets the queue", "submit", "bulk('ZADD', queue, ready)", "", true},
	{"submit takes duplicates", "submit", "known(id, once, body) or 'OK'", "'OK'", false},
	{
		"submit forgets the key", "submit",
		"redis.call('SET', idempotency .. once, id .. ' ' .. body, 'PX', keep)",
		"redis.call('EXISTS', queue)", false,
	},
	{"submit keeps the key for ever", "submit", ", 'PX', keep)", ")", true},
	{"submit compares no body", "submit", "string.sub(first, 38) == body", "true", false},
	{"submit has no limit", "submit", "if full(first, kind.limit) then return first end", "", false},
	{
		"submit gives a time to live", "submit", "      fill('fresh', tier, 1)",
		"      redis.call('EXPIRE', job .. id, 60) fill('fresh', tier, 1)", true,
	},
	{"submit's score is the arrival", "submit", "priority * base + arrived", "arrived", false},
	{"submit asks nobody whether it is there", "submit", "local repeated = any(keys)", "local repeated = false", false},
	{
		"submit forgets what the call took in", "submit",
		"word, taken[id] = 'OK ' .. at, true",
		"word = 'OK ' .. at", true,
	},
	{
		"submit takes all for the first kind", "submit",
		"kinds[said] = kind",
		"setmetatable(kinds, {__index = function() return kind end})", false,
	},
	{"submit counts no owner", "submit", "live(tier, head, 1, #payload)", "", true},
	{"submit has no quota", "submit", "spent(about, kind.quota)", "false", false},
	{"submit forgets what the call added", "submit", "+ (owned[owner] or 0)", "", false},
	{"submit forgets what lived before", "submit", "tonumber(redis.call('HGET', owners, owner) or 0)", "0", false},
	{"claim leaves it queued", "claim", "  bulk('ZREM', queue, ids)\n", "", true},
	{"claim starts no maxtime", "claim", "bulk('ZADD', maxtimes, maxtime)", "", true},
	{"claim starts no heartbeat", "claim", "bulk('ZADD', beats, beat)", "", true},
	{
		"claim counts down again", "claim",
		"if not m[5] then count(m.tier, 'fresh', -1) end",
		"count(m.tier, 'fresh', -1)", true,
	},
	{"claim asked again claims again", "claim", "if last[1] == number then", "if false then", false},
	{"an old claim claims", "claim", "tonumber(number) < tonumber(last[1])", "false", false},
	{
		"claim keeps the last ending", "claim",
		"redis.call('HDEL', job .. id, 'ending')",
		"redis.call('EXISTS', queue)", false,
	},
	{"claim is kept for ever", "claim", "redis.call('PEXPIRE', claims, 60000)", "", true},
	{"heartbeat asks no token", "heartbeat", "and m[3] == token", "", false},
	{"heartbeat asks no attempt", "heartbeat", "and m[2] == attempt", "", false},
	{"heartbeat hides the cancel", "heartbeat", "m[4] and 'CANCEL' or 'OK'", "'OK'", false},
	{"heartbeat forgets the checkpoint", "heartbeat", "if tonumber(ARGV[i + 4]) > 0 and", "if false and", false},
	{"heartbeat takes an old checkpoint", "heartbeat", "tonumber(save) < tonumber(ARGV[i + 4])", "true", false},
	{"claim hides the checkpoint", "claim", "m[4], first, started, m[7], due)", "m[4], first, started)", false},
	{"heartbeat does not extend", "heartbeat", "bulk('ZADD', beats, on)", "", true},
	{"complete asks no token", "complete", "m[2] == attempt and m[3] == token", "m[2] == attempt", false},
	{"complete asks no attempt", "complete", "m[2] == attempt and m[3] == token", "m[3] == token", false},
	{"complete leaves beats", "complete", "bulk('ZREM', beats, off)", "", true},
	{"complete twice in a call", "complete", "elseif ending[id] then", "elseif false then", true},
	{"complete leaves maxtimes", "complete", "bulk('ZREM', maxtimes, off)", "", true},
	{"complete skips the outbox", "complete", "bulk('ZADD', outbox, out)", "", true},
	{"complete counts no end", "complete", "count(tier, 'running', -1)", "", true},
	{"complete counts no owner", "complete", "live(tier, m[6], -1, bytes_of(job .. id, m[7]))", "", true},
	{"complete ignores the cancel", "complete", "(m[5] and 'CANCELLED ' or 'OK ')", "'OK '", false},
	{"complete forgets the bytes", "complete", "weigh(#result)", "", true},
	{"complete keeps the payload", "complete", ", 'payload', '')", ")", true},
	{
		"complete drops the payload", "complete",
		"    weigh(#result)",
		"    redis.call('HDEL', job .. id, 'payload') weigh(#result)", true,
	},
	{"any ending after any", "complete", "string.match(m[4], '^complete (.+)$') or 'LOST'", "'OK ' .. ended", false},
	{"fail asks no token", "fail", "m[2] == attempt and m[3] == token", "m[2] == attempt", false},
	{"fail loses its place", "fail", "redis.call('ZADD', queue, score, id)", "redis.call('ZADD', queue, at, id)", true},
	{"fail spends no retry", "fail", "text(retries + 1)", "text(retries)", false},
	{"fail never ends", "fail", "costs and (final == '1' or retries >= tonumber(max_retries))", "false", true},
	{
		"fail counts as fresh", "fail",
		"count(tier, 'ready', 1)",
		"count(tier, 'ready', 1) count(tier, 'fresh', 1)", true,
	},
	{"fail leaves maxtimes", "fail", "redis.call('ZREM', maxtimes, id)", "", true},
	{"fail asks no attempt", "fail", "m[2] == attempt and m[3] == token", "m[3] == token", false},
	{"fail ignores the cancel", "fail", "if m[5] then\n        word", "if false then\n        word", false},
	{"fail counts no end", "fail", "count(tier, 'running', -1)", "", true},
	{"release costs a retry", "fail", "(kind == 'fail' or beyond)", "true", false},
	{"fail finishes no dead letter", "fail", "finish(outbox, key, id, tier, m[6], m[9], 'NEED_DISCARD', at)", "", true},
	{"fail finishes nobody cancelled", "fail", "finish(outbox, key, id, tier, m[6], m[9], 'CANCELLED', at)", "", true},
	{
		"reclaim finishes nobody", "reclaim",
		"finish(outbox, key, id, tier, m[1], m[8], m[7] and 'CANCELLED' or 'NEED_DISCARD', at)",
		"", true,
	},
	{"cancel finishes nobody", "cancel", "finish(outbox, key, id, tier, m[1], m[5], 'CANCELLED', at)", "", true},
	{"finish counts no owner", "prelude", "live(tier, head, -1, bytes_of(key, saved))", "", true},
	{"finish skips the outbox", "prelude", "redis.call('ZADD', outbox, at, id)", "", true},
	{"finish weighs nothing", "prelude", "  weigh(payload_of(key))", "", true},
	{
		"finish counts no bytes", "prelude",
		"live(tier, head, -1, bytes_of(key, saved))",
		"live(tier, head, -1, 0)", true,
	},
	{"finish counts no checkpoint", "prelude", "-1, bytes_of(key, saved))", "-1, payload_of(key))", true},
	{
		"release says not until when",
		"fail",
		"text(now + delay) .. ' ' .. why",
		"'0 ' .. why",
		false,
	},
	{
		"release forgets why",
		"fail",
		"text(now + delay) .. ' ' .. why",
		"text(now + delay) .. ' '",
		false,
	},
	{"reclaim looks once", "reclaim", "if looked < deadline then", "if false then", false},
	{"reclaim is impatient", "reclaim", "now - looked >= patience", "true", false},
	{"reclaim trusts an old look", "reclaim", "looked < deadline", "looked < 0", false},
	{"reclaim forgets the tier", "reclaim", "return 'OK', tier", "return 'OK', ''", false},
	{"reclaim leaves the other set", "reclaim", "redis.call('ZREM', other, id)", "", true},
	{"reclaim keeps the token", "reclaim", "redis.call('HDEL', key, 'token', 'error')", "", false},
	{"reclaim spends no retry", "reclaim", "text(retries + 1)", "text(retries)", false},
	{
		"reclaim loses its place", "reclaim",
		"redis.call('ZADD', queue, score, id)",
		"redis.call('ZADD', queue, at, id)", true,
	},
	{"reclaim ignores the cancel", "reclaim", "if m[7] or", "if", false},
	{"promote leaves it scheduled", "promote", "redis.call('ZREM', scheduled, id)", "", true},
	{"promote counts no fresh", "promote", "count(tier, 'fresh', 1)", "", true},
	{"cancel leaves it queued", "cancel", "redis.call('ZREM', queue, id)", "", true},
	{"cancel counts nothing", "cancel", "settle(counters, owners)", "", true},
	{"cancel ends the running", "cancel", "state == 'PROCESSING' then", "false then", true},
	{"cancel takes any generation", "cancel", "wanted == '' or wanted == generation", "true", false},
	{
		"restore forgets that it was cancelled", "restore",
		"local cancelled = ending ~= ''",
		"local cancelled = false", false,
	},
	{
		"restore runs on what was cancelled", "restore",
		"if cancelled then redis.call('HSET', job .. id, 'cancel', '1') end",
		"", false,
	},
	{"restore skips the outbox", "restore", "redis.call('ZADD', outbox, text(now), id)", "", true},
	{"restore weighs nothing", "restore", "weigh(payload_of(job .. id))", "", true},
	{"restore counts the cancelled as its owner's", "restore", "holder ~= '' or not cancelled", "true", true},
	{"restore counts no owner", "restore", "live(tier, head, 1, #ARGV[i + 7])", "", true},
	{"restore counts nobody", "restore", "if first == '0' then count(tier, 'fresh', 1) end", "", true},
	{"restore runs nobody", "restore", "count(tier, 'running', 1)", "", true},
	{"restore makes it twice", "restore", "word = word or now", "word = now", false},
	{"restore arrives anew", "restore", "if arrived == 0 then", "if true then", false},
	{"restore forgets the schedule", "restore", "bulk('ZADD', scheduled, later)", "", true},
	{
		"restore spends no retry", "restore",
		"redis.call('HSET', job .. id, 'retries', retries)",
		"redis.call('EXISTS', queue)", false,
	},
	{"requeue keeps the time to live", "restore", "redis.call('DEL', job .. id, attempts .. id)", "", true},
	{"requeue of the living", "restore", "not ended[m[2]] or", "", true},
	{
		"requeue twice", "restore",
		">= generation then return 'DUPLICATE'",
		"> generation then return 'DUPLICATE'", false,
	},
	{"requeue counts attempts anew", "restore", "text(math.max(tonumber(attempt), earlier))", "'0'", false},
	{"take removes", "take_outbox", "bulk('ZADD', outbox, again)", "", true},
	{"take lends to all", "take_outbox", "text(now + lease), id", "text(now), id", false},
	{"acknowledge any generation", "acknowledge", "string.match(m[1], '^%S+ (%d+)') == generation and", "", false},
	{"acknowledge any attempt", "acknowledge", "(m[2] or '0') == attempt", "true", false},
	{"acknowledge the living", "acknowledge", "and waits[id]", "", true},
	{"acknowledge leaves it in the outbox", "acknowledge", "bulk('ZREM', outbox, off)", "", true},
	{"acknowledge twice in a call", "acknowledge", ", waits[id] = id, nil", " = id", true},
	{
		"acknowledge takes all for the first", "acknowledge",
		"sayings[said] = {",
		"sayings[said] = next(sayings) and sayings[next(sayings)] or {", false,
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
	{"acknowledge counts no bytes", "acknowledge", "weigh(-#(m[4] or ''))", "", true},
	{"acknowledge counts no payload", "acknowledge", "weigh(-payload_of(key))", "", true},
	{"forget the young", "forget", "and now - ended >= young", "", false},
	{"forget what SQL does not have", "forget", "elseif ttl >= 0 and not waits[id] then", "else", false},
	{"forget whatever was asked for", "forget", "ended <= before", "true", false},
	{"forget nothing", "forget", "redis.call('DEL', key)", "redis.call('EXISTS', key)", false},
	{"submit counts no bytes", "submit", "live(tier, head, 1, #payload)", "live(tier, head, 1, 0)", true},
	{"submit counts no delayed bytes", "submit", "count(tier, 'delayedbytes', #payload)", "", true},
	{
		"submit has no limit of the living", "submit", "if f and full(what, f.share) then return what end",
		"", false,
	},
	{"submit weighs nothing within a call", "submit", "fill('bytes', tier, #payload)", "", false},
	{"submit counts nobody within a call", "submit", "fill('living', tier, 1)", "", false},
	{"heartbeat counts no checkpoint", "heartbeat", "settle(counters)", "", true},
	{
		"heartbeat counts an overwritten checkpoint", "heartbeat",
		" - redis.call('HSTRLEN', job .. id, 'checkpoint')", "", true,
	},
	{"complete counts no bytes", "complete", "bytes_of(job .. id, m[7])", "0", true},
	{"cancel counts no delayed bytes", "cancel", "count(tier, 'delayedbytes', -payload_of(key))", "", true},
	{"promote counts no bytes", "promote", "count(tier, 'delayedbytes', -payload_of(job .. id))", "", true},
	{
		"restore counts no bytes", "restore", "live(tier, head, 1, #ARGV[i + 7])",
		"live(tier, head, 1, 0)", true,
	},
	{"restore counts no delayed bytes", "restore", "count(tier, 'delayedbytes', #ARGV[i + 7])", "", true},
	{"later is free for ever", "fail", "'laters', text(laters + 1)", "'laters', text(laters)", false},
	{"later beyond its bound spends nothing", "fail", "(kind == 'fail' or beyond)", "kind == 'fail'", false},
	{
		"later beyond its bound goes on", "fail",
		"retries >= tonumber(max_retries)", "kind == 'fail' and retries >= tonumber(max_retries)", true,
	},
	{"later may be as old as it likes", "fail", "age > longest", "false", false},
}

// The story notices every mutation of a script. All of them still find what they change; the short suite tells the
// story for one in mutated, the long suite for each.
func TestMutationsAreCaught(t *testing.T) {
	t.Parallel()
	for _, m := range mutations {
		if !strings.Contains(lua.Source(m.script), m.old) {
			t.Errorf("%s: %s.lua has no %q any more: mend the mutation", m.name, m.script, m.old)
		}
	}
	ids := make([]job.ID, 25)
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
			if audited := slices.ContainsFunc(wrong, func(l string) bool { return strings.HasPrefix(l, "audit") }); m.audit && !audited {
				t.Errorf("the audit did not notice, others did: %q", diff)
			}
		})
	}
}
