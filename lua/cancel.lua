-- cancel: a waiting job ends CANCELLED at once; a running one is asked to, and whatever its holder then reports ends it CANCELLED.
-- KEYS   queue scheduled outbox counters owners job idempotency events
-- ARGV   per job: id generation ('' = any)
--        untried ('1' = only if nobody ever claimed it, nor was answered with it: it is withdrawn)
--        once (a key that goes with it; '' = none)
-- REPLY  per job: CANCELLED tier (ended by this call) | CANCELLED (before this) | CANCEL (running: asked) |
--        BUSY (untried wanted, and it was claimed or adopted) | ENDED (otherwise) | EMPTY (no such job)
-- TWICE  what is cancelled answers CANCELLED without its tier, what was asked answers CANCEL
local queue, scheduled, outbox, counters, owners, job, idempotency, events = unpack(KEYS)
local now = time_ms()
local at = text(now)
local reply = {}

for i = 1, #ARGV, 4 do
  local id, wanted, untried, once = ARGV[i], ARGV[i + 1], ARGV[i + 2] == '1', ARGV[i + 3]
  local key = job .. id
  local m = redis.call('HMGET', key, 'head', 'state', 'first', 'attempt', 'adopted', 'saved')
  local tier, generation, state
  if m[1] then
    tier, generation = parse(m[1])
    state = m[2] or 'PENDING'
  end
  local word, ended_here = 'EMPTY', false
  if tier and (wanted == '' or wanted == generation) then
    if untried and m[5] then
      word = 'BUSY' -- whatever became of it: its key is another answer's too
    elseif state == 'CANCELLED' then
      word = 'CANCELLED'
    elseif state ~= 'PENDING' and state ~= 'SCHEDULED' and state ~= 'PROCESSING' then
      word = 'ENDED'
    elseif untried and m[3] then
      word = 'BUSY'
    elseif state == 'PROCESSING' then
      word = 'CANCEL'
      redis.call('HDEL', key, 'cancel') -- removing first: it works on a full Redis too
      redis.call('HSET', key, 'cancel', '1')
      tell(events, id, tier, 'PROCESSING', m[4])
    else
      word, ended_here = 'CANCELLED', true
      redis.call('ZREM', queue, id)
      redis.call('ZREM', scheduled, id)
      finish(outbox, key, id, tier, m[1], m[6], 'CANCELLED', at)
      tell(events, id, tier, 'CANCELLED', m[4])
      count(tier, state == 'PENDING' and 'ready' or 'scheduled', -1)
      if not m[3] then count(tier, state == 'PENDING' and 'fresh' or 'delayed', -1) end
      if not m[3] and state == 'SCHEDULED' then count(tier, 'delayedbytes', -payload_of(key)) end
    end
  end
  if word == 'CANCELLED' and once ~= '' and string.sub(redis.call('GET', idempotency .. once) or '', 1, 36) == id then
    redis.call('DEL', idempotency .. once)
  end
  reply[#reply + 1] = ended_here and word .. ' ' .. tier or word
end

settle(counters, owners)
publish(events, at)
return reply
