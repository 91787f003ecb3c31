-- promote: scheduled jobs that are due become ready, each at its own place.
-- KEYS   scheduled queue counters doorbell quarantine job events
-- ARGV   limit
-- REPLY  per due job: OK | QUARANTINED (scheduled, yet no such job)
-- TWICE  it acts on what it finds: a promoted job is no longer found
local scheduled, queue, counters, doorbell, quarantine, job, events = unpack(KEYS)
local limit = ARGV[1]
local now = text(time_ms())
local reply, ready = {}, {}

local due = redis.call('ZRANGEBYSCORE', scheduled, '-inf', now, 'WITHSCORES', 'LIMIT', '0', limit)
for i = 1, #due, 2 do
  local id = due[i]
  redis.call('ZREM', scheduled, id)
  local m = redis.call('HMGET', job .. id, 'head', 'state', 'first', 'attempt')
  local word = 'OK'
  if not m[1] or m[2] ~= 'SCHEDULED' then
    word = 'QUARANTINED'
    redis.call('ZADD', quarantine, now, id)
  else
    local tier, _, _, _, score = parse(m[1])
    redis.call('HSET', job .. id, 'state', 'PENDING')
    ready[#ready + 1], ready[#ready + 2] = score, id
    count(tier, 'scheduled', -1)
    count(tier, 'ready', 1)
    tell(events, id, tier, 'PENDING', m[4])
    if not m[3] then
      redis.call('HSET', job .. id, 'due', due[i + 1])
      count(tier, 'delayed', -1)
      count(tier, 'delayedbytes', -payload_of(job .. id))
      count(tier, 'fresh', 1)
    end
  end
  reply[#reply + 1] = word
end

bulk('ZADD', queue, ready)
settle(counters)
publish(events, now)
if #ready > 0 then ring(doorbell) end
return reply
