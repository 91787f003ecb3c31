-- promote: scheduled jobs that are due become ready, each at its own place.
-- KEYS   scheduled queue counters doorbell quarantine job events
-- ARGV[1] limit: how many jobs to promote at most
-- REPLY  per due job: OK | QUARANTINED (scheduled, yet no such job)
-- TWICE  the script acts on what it finds: it does not find a promoted job again
local scheduled, queue, counters, doorbell, quarantine, job, events = unpack(KEYS)
local limit = ARGV[1]
local now = text(time_ms())
local reply, queue_entries = {}, {}

local due = redis.call('ZRANGEBYSCORE', scheduled, '-inf', now, 'WITHSCORES', 'LIMIT', '0', limit)
for i = 1, #due, 2 do
  local id, due_at = due[i], due[i + 1]
  redis.call('ZREM', scheduled, id)
  local m = redis.call('HMGET', job .. id, 'head', 'state', 'first', 'attempt')
  local head, state, first_claim, attempt = m[1], m[2], m[3], m[4]
  local word = 'OK'
  if not head or state ~= 'SCHEDULED' then
    word = 'QUARANTINED'
    redis.call('ZADD', quarantine, now, id)
  else
    local tier, _, _, _, score = parse_head(head)
    redis.call('HSET', job .. id, 'state', 'PENDING')
    queue_entries[#queue_entries + 1], queue_entries[#queue_entries + 2] = score, id
    change_counter(tier, 'scheduled', -1)
    change_counter(tier, 'ready', 1)
    note_event(events, id, tier, 'PENDING', attempt)
    if not first_claim then
      redis.call('HSET', job .. id, 'due', due_at)
      change_counter(tier, 'delayed', -1)
      change_counter(tier, 'delayedbytes', -payload_bytes(job .. id))
      change_counter(tier, 'fresh', 1)
    end
  end
  reply[#reply + 1] = word
end

bulk('ZADD', queue, queue_entries)
write_counters(counters)
publish(events, now)
if #queue_entries > 0 then ring(doorbell) end
return reply
