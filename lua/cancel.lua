-- cancel: a waiting job ends CANCELLED at once; a running one is asked to, and whatever its holder then reports ends it CANCELLED.
-- KEYS   queue scheduled outbox counters owners job events
-- ARGV   per job: id generation ('' = any)
-- REPLY  per job: CANCELLED tier (ended by this call) | CANCELLED (before this) | CANCEL (running: asked) |
--        ENDED (otherwise) | EMPTY (no such job)
-- TWICE  what is cancelled answers CANCELLED without its tier, what was asked answers CANCEL
local queue, scheduled, outbox, counters, owners, job, events = unpack(KEYS)
local now = time_ms()
local at = text(now)
local reply = {}

for i = 1, #ARGV, 2 do
  local id, wanted = ARGV[i], ARGV[i + 1]
  local key = job .. id
  local m = redis.call('HMGET', key, 'head', 'state', 'first', 'attempt', 'saved')
  local tier, generation, state
  if m[1] then
    tier, generation = parse(m[1])
    state = m[2] or 'PENDING'
  end
  local word, ended_here = 'EMPTY', false
  if tier and (wanted == '' or wanted == generation) then
    if state == 'CANCELLED' then
      word = 'CANCELLED'
    elseif state ~= 'PENDING' and state ~= 'SCHEDULED' and state ~= 'PROCESSING' then
      word = 'ENDED'
    elseif state == 'PROCESSING' then
      word = 'CANCEL'
      redis.call('HDEL', key, 'cancel') -- removing first: it works on a full Redis too
      redis.call('HSET', key, 'cancel', '1')
      tell(events, id, tier, 'PROCESSING', m[4])
    else
      word, ended_here = 'CANCELLED', true
      redis.call('ZREM', queue, id)
      redis.call('ZREM', scheduled, id)
      finish(outbox, key, id, tier, m[1], m[5], 'CANCELLED', at)
      tell(events, id, tier, 'CANCELLED', m[4])
      count(tier, state == 'PENDING' and 'ready' or 'scheduled', -1)
      if not m[3] then count(tier, state == 'PENDING' and 'fresh' or 'delayed', -1) end
      if not m[3] and state == 'SCHEDULED' then count(tier, 'delayedbytes', -payload_of(key)) end
    end
  end
  reply[#reply + 1] = ended_here and word .. ' ' .. tier or word
end

settle(counters, owners)
publish(events, at)
return reply
