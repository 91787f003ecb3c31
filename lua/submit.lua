-- submit: accepts new jobs: into main:queue at their score or, delayed, into scheduled.
-- KEYS   queue scheduled counters clock doorbell job
-- ARGV   base not_after; per job: id tier priority limit delay_ms max_retries about payload
-- REPLY  per job: OK | FULL (its tier's share is taken) | LATE (not_after has passed) | DUPLICATE
-- TWICE  the id decides: a job that is there answers DUPLICATE and stays as it is
local queue, scheduled, counters, clock, doorbell, job = unpack(KEYS)
local base, not_after = tonumber(ARGV[1]), tonumber(ARGV[2])

local now = time_ms()
local arrived = math.max(now, tonumber(redis.call('GET', clock) or 0))
local waiting = redis.call('HMGET', counters, 'fresh', 'delayed')
local fresh, delayed = tonumber(waiting[1] or 0), tonumber(waiting[2] or 0)
local at = text(arrived)
local reply, ready, later = {}, {}, {}

for i = 3, #ARGV, 8 do
  local id, tier, priority, limit, delay = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3]), tonumber(ARGV[i + 4])
  local word = 'OK'
  if redis.call('EXISTS', job .. id) == 1 then
    word = 'DUPLICATE'
  elseif now > not_after then
    word = 'LATE'
  elseif delay == 0 and fresh >= limit or delay > 0 and delayed >= limit then
    word = 'FULL'
  else
    local score = text(priority * base + arrived)
    local head = table.concat({tier, '1', ARGV[i + 5], at, score, ARGV[i + 6]}, ' ')
    if delay == 0 then
      redis.call('HSET', job .. id, 'head', head, 'payload', ARGV[i + 7])
      ready[#ready + 1], ready[#ready + 2] = score, id
      fresh = fresh + 1
      count(tier, 'ready', 1)
      count(tier, 'fresh', 1)
    else
      redis.call('HSET', job .. id, 'head', head, 'payload', ARGV[i + 7], 'state', 'SCHEDULED')
      later[#later + 1], later[#later + 2] = text(now + delay), id
      delayed = delayed + 1
      count(tier, 'scheduled', 1)
      count(tier, 'delayed', 1)
    end
  end
  reply[#reply + 1] = word
end

if #ready + #later > 0 then
  bulk('ZADD', queue, ready)
  bulk('ZADD', scheduled, later)
  redis.call('SET', clock, at)
  settle(counters)
end
if #ready > 0 then ring(doorbell) end
return reply
