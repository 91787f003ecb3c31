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
	name, script, source, old, changed string
	audit                              bool // the audit alone must see it, whatever was answered
}{
	{"submit counts nobody", "submit", lua.Submit, "count(tier, 'fresh', 1)", "count(tier, 'fresh', 0)", true},
	{"submit forgets the queue", "submit", lua.Submit, "bulk('ZADD', queue, ready)", "", true},
	{"submit takes duplicates", "submit", lua.Submit, "known(id, once, body) or 'OK'", "'OK'", false},
	{"submit forgets the key", "submit", lua.Submit, "redis.call('SET', idempotency .. once, id .. ' ' .. body, 'PX', keep)", "redis.call('EXISTS', queue)", false},
	{"submit keeps the key for ever", "submit", lua.Submit, ", 'PX', keep)", ")", true},
	{"submit adopts nobody", "submit", lua.Submit, "adopt(by)", "", false},
	{"submit compares no body", "submit", lua.Submit, "string.sub(first, 38) == body", "true", false},
	{"submit has no limit", "submit", lua.Submit, "if full(first, kind.limit) then return first end", "", false},
	{
		"submit gives a time to live", "submit", lua.Submit, "      fill('fresh', tier, 1)",
		"      redis.call('EXPIRE', job .. id, 60) fill('fresh', tier, 1)", true,
	},
	{"submit's score is the arrival", "submit", lua.Submit, "priority * base + arrived", "arrived", false},
	{"submit asks nobody whether it is there", "submit", lua.Submit, "local repeated = any(keys)", "local repeated = false", false},
	{"submit forgets what the call took in", "submit", lua.Submit, "word, taken[id] = 'OK ' .. at, true", "word = 'OK ' .. at", true},
	{"submit takes all for the first kind", "submit", lua.Submit, "kinds[said] = kind", "setmetatable(kinds, {__index = function() return kind end})", false},
	{"submit counts no owner", "submit", lua.Submit, "live(tier, head, 1, #payload)", "", true},
	{"submit has no quota", "submit", lua.Submit, "spent(about, kind.quota)", "false", false},
	{"submit forgets what the call added", "submit", lua.Submit, "+ (owned[owner] or 0)", "", false},
	{"submit forgets what lived before", "submit", lua.Submit, "tonumber(redis.call('HGET', owners, owner) or 0)", "0", false},
	{"claim leaves it queued", "claim", lua.Claim, "  bulk('ZREM', queue, ids)\n", "", true},
	{"claim starts no maxtime", "claim", lua.Claim, "bulk('ZADD', maxtimes, maxtime)", "", true},
	{"claim starts no heartbeat", "claim", lua.Claim, "bulk('ZADD', beats, beat)", "", true},
	{"claim counts down again", "claim", lua.Claim, "if not m[5] then count(m.tier, 'fresh', -1) end", "count(m.tier, 'fresh', -1)", true},
	{"claim asked again claims again", "claim", lua.Claim, "if last[1] == number then", "if false then", false},
	{"an old claim claims", "claim", lua.Claim, "tonumber(number) < tonumber(last[1])", "false", false},
	{"claim keeps the last ending", "claim", lua.Claim, "redis.call('HDEL', job .. id, 'ending')", "redis.call('EXISTS', queue)", false},
	{"claim is kept for ever", "claim", lua.Claim, "redis.call('PEXPIRE', claims, 60000)", "", true},
	{"heartbeat asks no token", "heartbeat", lua.Heartbeat, "and m[3] == token", "", false},
	{"heartbeat asks no attempt", "heartbeat", lua.Heartbeat, "and m[2] == attempt", "", false},
	{"heartbeat hides the cancel", "heartbeat", lua.Heartbeat, "m[4] and 'CANCEL' or 'OK'", "'OK'", false},
	{"heartbeat forgets the checkpoint", "heartbeat", lua.Heartbeat, "if tonumber(ARGV[i + 4]) > 0 and", "if false and", false},
	{"heartbeat takes an old checkpoint", "heartbeat", lua.Heartbeat, "tonumber(save) < tonumber(ARGV[i + 4])", "true", false},
	{"claim hides the checkpoint", "claim", lua.Claim, "m[4], first, started, m[7], due)", "m[4], first, started)", false},
	{"heartbeat does not extend", "heartbeat", lua.Heartbeat, "bulk('ZADD', beats, on)", "", true},
	{"complete asks no token", "complete", lua.Complete, "m[2] == attempt and m[3] == token", "m[2] == attempt", false},
	{"complete asks no attempt", "complete", lua.Complete, "m[2] == attempt and m[3] == token", "m[3] == token", false},
	{"complete leaves beats", "complete", lua.Complete, "bulk('ZREM', beats, off)", "", true},
	{"complete twice in a call", "complete", lua.Complete, "elseif ending[id] then", "elseif false then", true},
	{"complete leaves maxtimes", "complete", lua.Complete, "bulk('ZREM', maxtimes, off)", "", true},
	{"complete skips the outbox", "complete", lua.Complete, "bulk('ZADD', outbox, out)", "", true},
	{"complete counts no end", "complete", lua.Complete, "count(tier, 'running', -1)", "", true},
	{"complete counts no owner", "complete", lua.Complete, "live(tier, m[6], -1, bytes_of(job .. id, m[7]))", "", true},
	{"complete ignores the cancel", "complete", lua.Complete, "(m[5] and 'CANCELLED ' or 'OK ')", "'OK '", false},
	{"complete forgets the bytes", "complete", lua.Complete, "weigh(#result)", "", true},
	{"complete keeps the payload", "complete", lua.Complete, ", 'payload', '')", ")", true},
	{"complete drops the payload", "complete", lua.Complete, "    weigh(#result)", "    redis.call('HDEL', job .. id, 'payload') weigh(#result)", true},
	{"any ending after any", "complete", lua.Complete, "string.match(m[4], '^complete (.+)$') or 'LOST'", "'OK ' .. ended", false},
	{"fail asks no token", "fail", lua.Fail, "m[2] == attempt and m[3] == token", "m[2] == attempt", false},
	{"fail loses its place", "fail", lua.Fail, "redis.call('ZADD', queue, score, id)", "redis.call('ZADD', queue, at, id)", true},
	{"fail spends no retry", "fail", lua.Fail, "text(retries + 1)", "text(retries)", false},
	{"fail never ends", "fail", lua.Fail, "final == '1' or retries >= tonumber(max_retries)", "false", true},
	{"fail counts as fresh", "fail", lua.Fail, "count(tier, 'ready', 1)", "count(tier, 'ready', 1) count(tier, 'fresh', 1)", true},
	{"fail counts no owner", "fail", lua.Fail, "live(tier, m[6], -1, bytes_of(key, m[9]))", "", true},
	{"fail leaves maxtimes", "fail", lua.Fail, "redis.call('ZREM', maxtimes, id)", "", true},
	{"release asks no token", "release", lua.Release, "m[2] == attempt and m[3] == token", "m[2] == attempt", false},
	{"release ignores the cancel", "release", lua.Release, "if m[5] then", "if false then", false},
	{"release counts no owner", "release", lua.Release, "live(tier, m[6], -1, bytes_of(key, m[11]))", "", true},
	{"release counts no end", "release", lua.Release, "count(tier, 'running', -1)", "", true},
	{
		"release says not until when",
		"release",
		lua.Release,
		"text(now + delay) .. ' ' .. reason",
		"'0 ' .. reason",
		false,
	},
	{
		"release forgets why",
		"release",
		lua.Release,
		"text(now + delay) .. ' ' .. reason",
		"text(now + delay) .. ' '",
		false,
	},
	{"reclaim looks once", "reclaim", lua.Reclaim, "if looked < deadline then", "if false then", false},
	{"reclaim is impatient", "reclaim", lua.Reclaim, "now - looked >= patience", "true", false},
	{"reclaim trusts an old look", "reclaim", lua.Reclaim, "looked < deadline", "looked < 0", false},
	{"reclaim forgets the tier", "reclaim", lua.Reclaim, "return 'OK', tier", "return 'OK', ''", false},
	{"cancel names no tier", "cancel", lua.Cancel, "ended_here and", "false and", false},
	{"reclaim leaves the other set", "reclaim", lua.Reclaim, "redis.call('ZREM', other, id)", "", true},
	{"reclaim keeps the token", "reclaim", lua.Reclaim, "redis.call('HDEL', key, 'token', 'error')", "", false},
	{"reclaim spends no retry", "reclaim", lua.Reclaim, "text(retries + 1)", "text(retries)", false},
	{"reclaim loses its place", "reclaim", lua.Reclaim, "redis.call('ZADD', queue, score, id)", "redis.call('ZADD', queue, at, id)", true},
	{"reclaim counts no owner", "reclaim", lua.Reclaim, "live(tier, m[1], -1, bytes_of(key, m[8]))", "", true},
	{"reclaim ignores the cancel", "reclaim", lua.Reclaim, "if m[7] or", "if", false},
	{"promote leaves it scheduled", "promote", lua.Promote, "redis.call('ZREM', scheduled, id)", "", true},
	{"promote counts no fresh", "promote", lua.Promote, "count(tier, 'fresh', 1)", "", true},
	{"cancel leaves it queued", "cancel", lua.Cancel, "redis.call('ZREM', queue, id)", "", true},
	{"cancel counts nothing", "cancel", lua.Cancel, "settle(counters, owners)", "", true},
	{"cancel counts no owner", "cancel", lua.Cancel, "live(tier, m[1], -1, bytes_of(key, m[6]))", "", true},
	{"cancel skips the outbox", "cancel", lua.Cancel, "redis.call('ZADD', outbox, at, id)", "", true},
	{"cancel ends the running", "cancel", lua.Cancel, "state == 'PROCESSING' then", "false then", true},
	{"cancel takes any generation", "cancel", lua.Cancel, "wanted == '' or wanted == generation", "true", false},
	{"cancel withdraws what was answered", "cancel", lua.Cancel, "untried and m[5]", "false", false},
	{"restore forgets that it was cancelled", "restore", lua.Restore, "local cancelled = ending ~= ''", "local cancelled = false", false},
	{"restore runs on what was cancelled", "restore", lua.Restore, "if cancelled then redis.call('HSET', job .. id, 'cancel', '1') end", "", false},
	{"restore skips the outbox", "restore", lua.Restore, "redis.call('ZADD', outbox, text(now), id)", "", true},
	{"restore weighs nothing", "restore", lua.Restore, "weigh(payload_of(job .. id))", "", true},
	{"restore leaves it to be withdrawn", "restore", lua.Restore, "redis.call('HSET', job .. id, 'adopted', '1')", "", false},
	{"restore counts the cancelled as its owner's", "restore", lua.Restore, "holder ~= '' or not cancelled", "true", true},
	{"restore counts no owner", "restore", lua.Restore, "live(tier, head, 1, #ARGV[i + 7])", "", true},
	{"restore counts nobody", "restore", lua.Restore, "if first == '0' then count(tier, 'fresh', 1) end", "", true},
	{"restore runs nobody", "restore", lua.Restore, "count(tier, 'running', 1)", "", true},
	{"restore makes it twice", "restore", lua.Restore, "or known(id, tonumber(generation)) or 'OK'", "or 'OK'", false},
	{"restore arrives anew", "restore", lua.Restore, "if arrived == 0 then", "if true then", false},
	{"restore forgets the schedule", "restore", lua.Restore, "bulk('ZADD', scheduled, later)", "", true},
	{"restore spends no retry", "restore", lua.Restore, "redis.call('HSET', job .. id, 'retries', retries)", "redis.call('EXISTS', queue)", false},
	{"requeue keeps the time to live", "requeue", lua.Requeue, "redis.call('DEL', key, attempts .. id)", "", true},
	{"requeue of the living", "requeue", lua.Requeue, "living[m[2] or 'PENDING'] or", "", true},
	{"requeue twice", "requeue", lua.Requeue, "known >= tonumber(generation)", "false", false},
	{"requeue counts attempts anew", "requeue", lua.Requeue, "text(math.max(attempt, tonumber(m[3] or 0)))", "'0'", false},
	{"requeue counts no owner", "requeue", lua.Requeue, "live(tier, head, 1, #ARGV[i + 7])", "", true},
	{"requeue counts no fresh", "requeue", lua.Requeue, "count(tier, 'fresh', 1)", "", true},
	{"take removes", "take_outbox", lua.TakeOutbox, "bulk('ZADD', outbox, again)", "", true},
	{"take lends to all", "take_outbox", lua.TakeOutbox, "text(now + lease), id", "text(now), id", false},
	{"acknowledge any generation", "acknowledge", lua.Acknowledge, "string.match(m[1], '^%S+ (%d+)') == generation and", "", false},
	{"acknowledge any attempt", "acknowledge", lua.Acknowledge, "(m[2] or '0') == attempt", "true", false},
	{"acknowledge the living", "acknowledge", lua.Acknowledge, "and waits[id]", "", true},
	{"acknowledge leaves it in the outbox", "acknowledge", lua.Acknowledge, "bulk('ZREM', outbox, off)", "", true},
	{"acknowledge twice in a call", "acknowledge", lua.Acknowledge, ", waits[id] = id, nil", " = id", true},
	{"acknowledge takes all for the first", "acknowledge", lua.Acknowledge, "sayings[said] = {", "sayings[said] = next(sayings) and sayings[next(sayings)] or {", false},
	{"acknowledge for ever", "acknowledge", lua.Acknowledge, "redis.call('PEXPIRE', key, ttl)", "", true},
	{"acknowledge keeps the payload", "acknowledge", lua.Acknowledge, "redis.call('HDEL', key, 'payload', 'saved', 'checkpoint')", "", true},
	{"acknowledge keeps the history", "acknowledge", lua.Acknowledge, "redis.call('DEL', attempts .. id)", "redis.call('EXISTS', outbox)", true},
	{"acknowledge counts no bytes", "acknowledge", lua.Acknowledge, "weigh(-#(m[4] or ''))", "", true},
	{"acknowledge counts no payload", "acknowledge", lua.Acknowledge, "weigh(-payload_of(key))", "", true},
	{"forget the young", "forget", lua.Forget, "and now - ended >= young", "", false},
	{"forget what SQL does not have", "forget", lua.Forget, "elseif ttl >= 0 and not waits[id] then", "else", false},
	{"forget whatever was asked for", "forget", lua.Forget, "ended <= before", "true", false},
	{"forget nothing", "forget", lua.Forget, "redis.call('DEL', key)", "redis.call('EXISTS', key)", false},
	{"fail weighs nothing", "fail", lua.Fail, "weigh(payload_of(key))", "", true},
	{"reclaim weighs nothing", "reclaim", lua.Reclaim, "weigh(payload_of(key))", "", true},
	{"cancel weighs nothing", "cancel", lua.Cancel, "weigh(payload_of(key))", "", true},
	{"submit counts no bytes", "submit", lua.Submit, "live(tier, head, 1, #payload)", "live(tier, head, 1, 0)", true},
	{"submit counts no delayed bytes", "submit", lua.Submit, "count(tier, 'delayedbytes', #payload)", "", true},
	{
		"submit has no limit of the living", "submit", lua.Submit, "if f and full(what, f.share) then return what end",
		"", false,
	},
	{"submit weighs nothing within a call", "submit", lua.Submit, "fill('bytes', tier, #payload)", "", false},
	{"submit counts nobody within a call", "submit", lua.Submit, "fill('living', tier, 1)", "", false},
	{
		"submit refuses what is owed", "submit", lua.Submit, "if kind.limit >= 9007199254740991 then return nil end",
		"", false,
	},
	{"heartbeat counts no checkpoint", "heartbeat", lua.Heartbeat, "settle(counters)", "", true},
	{
		"heartbeat counts an overwritten checkpoint", "heartbeat", lua.Heartbeat,
		" - redis.call('HSTRLEN', job .. id, 'checkpoint')", "", true,
	},
	{"complete counts no bytes", "complete", lua.Complete, "bytes_of(job .. id, m[7])", "0", true},
	{"fail counts no bytes", "fail", lua.Fail, "bytes_of(key, m[9])", "0", true},
	{"fail counts no checkpoint", "fail", lua.Fail, "bytes_of(key, m[9])", "payload_of(key)", true},
	{"release counts no bytes", "release", lua.Release, "bytes_of(key, m[11])", "0", true},
	{"reclaim counts no bytes", "reclaim", lua.Reclaim, "bytes_of(key, m[8])", "0", true},
	{"cancel counts no bytes", "cancel", lua.Cancel, "bytes_of(key, m[6])", "0", true},
	{"cancel counts no delayed bytes", "cancel", lua.Cancel, "count(tier, 'delayedbytes', -payload_of(key))", "", true},
	{"promote counts no bytes", "promote", lua.Promote, "count(tier, 'delayedbytes', -payload_of(job .. id))", "", true},
	{
		"restore counts no bytes", "restore", lua.Restore, "live(tier, head, 1, #ARGV[i + 7])",
		"live(tier, head, 1, 0)", true,
	},
	{"restore counts no delayed bytes", "restore", lua.Restore, "count(tier, 'delayedbytes', #ARGV[i + 7])", "", true},
	{
		"requeue counts no bytes", "requeue", lua.Requeue, "live(tier, head, 1, #ARGV[i + 7])",
		"live(tier, head, 1, 0)", true,
	},
	{"later is free for ever", "release", lua.Release, "'laters', text(laters + 1)", "'laters', text(laters)", false},
	{"later beyond its bound spends nothing", "release", lua.Release, "text(retries + 1)", "text(retries)", false},
	{
		"later beyond its bound goes on", "release", lua.Release,
		"elseif beyond and retries >= tonumber(max_retries) then", "elseif false then", true,
	},
	{"later may be as old as it likes", "release", lua.Release, "age > longest", "false", false},
}

// The story notices every mutation of a script. All of them still find what they change; the short suite tells the
// story for one in mutated, the long suite for each.
func TestMutationsAreCaught(t *testing.T) {
	t.Parallel()
	for _, m := range mutations {
		if !strings.Contains(m.source, m.old) {
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
			wrong := tellWith(t, ids, func(q *queue.Queue) { q.Mutate(m.script, m.source, m.old, m.changed) })
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
