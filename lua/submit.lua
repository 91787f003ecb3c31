-- submit: accepts new jobs: into main:queue at their score or, delayed, into scheduled.
-- KEYS   queue scheduled counters clock doorbell job idempotency events
-- ARGV   base not_after keep_ms (of once); per job: id tier priority limit delay_ms max_retries about payload once ('' = any number of times) body
-- REPLY  per job: OK | FULL (its tier's share is taken) | LATE (not_after has passed) | DUPLICATE | REPLAY id (once is that job's) | MISMATCH (and with another body)
-- TWICE  the id decides: a job that is there answers DUPLICATE and stays as it is
local queue, scheduled, counters, clock, doorbell, job, idempotency, events = unpack(KEYS)
local base, not_after, keep = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]

local now = time_ms()
local arrived = math.max(now, tonumber(redis.call('GET', clock) or 0))
local waiting = redis.call('HMGET', counters, 'fresh', 'delayed')
local fresh, delayed = tonumber(waiting[1] or 0), tonumber(waiting[2] or 0)
local at = text(arrived)
local reply, ready, later = {}, {}, {}

local function known(id, once, body) -- the word for a submit that was made before, or nil
  if redis.call('EXISTS', job .. id) == 1 then return 'DUPLICATE' end
  local first = once ~= '' and redis.call('GET', idempotency .. once)
  if not first then return nil end
  local by = string.sub(first, 1, 36)
  if by == id then return 'DUPLICATE' end
  return string.sub(first, 38) == body and 'REPLAY ' .. by or 'MISMATCH'
end

for i = 4, #ARGV, 10 do
  local id, tier, priority, limit, delay = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3]), tonumber(ARGV[i + 4])
  local once, body = ARGV[i + 8], ARGV[i + 9]
  local word = known(id, once, body) or 'OK'
  if word == 'OK' and now > not_after then
    word = 'LATE'
  elseif word == 'OK' and (delay == 0 and fresh >= limit or delay > 0 and delayed >= limit) then
    word = 'FULL'
  elseif word == 'OK' then
    local score = text(priority * base + arrived)
    local head = table.concat({tier, '1', ARGV[i + 5], at, score, ARGV[i + 6]}, ' ')
    if delay == 0 then
      redis.call('HSET', job .. id, 'head', head, 'payload', ARGV[i + 7])
      ready[#ready + 1], ready[#ready + 2] = score, id
      fresh = fresh + 1
      count(tier, 'ready', 1)
      count(tier, 'fresh', 1)
      tell(events, id, tier, 'PENDING')
    else
      redis.call('HSET', job .. id, 'head', head, 'payload', ARGV[i + 7], 'state', 'SCHEDULED')
      later[#later + 1], later[#later + 2] = text(now + delay), id
      delayed = delayed + 1
      count(tier, 'scheduled', 1)
      count(tier, 'delayed', 1)
      tell(events, id, tier, 'SCHEDULED')
    end
    if once ~= '' then redis.call('SET', idempotency .. once, id .. ' ' .. body, 'PX', keep) end
  end
  reply[#reply + 1] = word
end

if #ready + #later > 0 then
  bulk('ZADD', queue, ready)
  bulk('ZADD', scheduled, later)
  redis.call('SET', clock, at)
  settle(counters)
  publish(events, text(now))
end
if #ready > 0 then ring(doorbell) end
return reply
