-- cancel: a waiting job ends CANCELLED at once; a running job keeps the request, and whatever its holder reports next
--        ends it CANCELLED.
-- KEYS   queue scheduled outbox counters owners job events
-- per job (n = 1, 3, ...):
-- ARGV[n+0] id: the job
-- ARGV[n+1] wanted_generation: only this generation is cancelled | '' any generation
-- REPLY  per job: CANCELLED tier (ended by this call) | CANCELLED (before this call) | CANCEL (running: the request is
--        kept) | ENDED (otherwise) | EMPTY (no such job)
-- TWICE  a cancelled job answers CANCELLED without its tier, a running job with a request answers CANCEL
local queue, scheduled, outbox, counters, owners, job, events = unpack(KEYS)
local now = time_ms()
local at = text(now)
local reply = {}

for i = 1, #ARGV, 2 do
  local id, wanted_generation = ARGV[i], ARGV[i + 1]
  local key = job .. id
  local m = redis.call('HMGET', key, 'head', 'state', 'first', 'attempt', 'saved')
  local head, first_claim, attempt, saved = m[1], m[3], m[4], m[5]
  local tier, generation, state
  if head then
    tier, generation = parse_head(head)
    state = m[2] or 'PENDING'
  end
  local word, ended_here = 'EMPTY', false
  if tier and (wanted_generation == '' or wanted_generation == generation) then
    if state == 'CANCELLED' then
      word = 'CANCELLED'
    elseif state ~= 'PENDING' and state ~= 'SCHEDULED' and state ~= 'PROCESSING' then
      word = 'ENDED'
    elseif state == 'PROCESSING' then
      word = 'CANCEL'
      redis.call('HDEL', key, 'cancel') -- a full Redis accepts the script because its first write removes
      redis.call('HSET', key, 'cancel', '1')
      note_event(events, id, tier, 'PROCESSING', attempt)
    else
      word, ended_here = 'CANCELLED', true
      redis.call('ZREM', queue, id)
      redis.call('ZREM', scheduled, id)
      finish(outbox, key, id, tier, head, saved, 'CANCELLED', at)
      note_event(events, id, tier, 'CANCELLED', attempt)
      change_counter(tier, state == 'PENDING' and 'ready' or 'scheduled', -1)
      if not first_claim then change_counter(tier, state == 'PENDING' and 'fresh' or 'delayed', -1) end
      if not first_claim and state == 'SCHEDULED' then change_counter(tier, 'delayedbytes', -payload_bytes(key)) end
    end
  end
  reply[#reply + 1] = ended_here and word .. ' ' .. tier or word
end

write_counters(counters, owners)
publish(events, at)
return reply
