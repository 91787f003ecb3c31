-- submit: accepts new jobs: into main:queue at their score or, delayed, into scheduled.
-- KEYS   queue scheduled counters owners clock doorbell job idempotency mark events
-- ARGV   base not_after keep_ms (of once) journaled ('1' = SQL has the keys too); per job: id tier priority limit delay_ms max_retries about payload once ('' = any number of times) body quota ('' = any number of jobs)
-- REPLY  per job: OK arrived | QUOTA (that many of its owner's jobs live) | FULL (its tier's share is taken) | LATE (not_after has passed) | BEHIND (keys that this Redis lost are not back yet) | DUPLICATE arrived | REPLAY id (once is that job's) | MISMATCH (and with another body)
-- TWICE  the id decides: a job that is there answers DUPLICATE and stays as it is
local queue, scheduled, counters, owners, clock, doorbell, job, idempotency, mark, events = unpack(KEYS)
local base, not_after, keep, journaled = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], ARGV[4] == '1'

local now = time_ms()
local arrived = math.max(now, tonumber(redis.call('GET', clock) or 0))
local waiting = redis.call('HMGET', counters, 'fresh', 'delayed')
local fresh, delayed = tonumber(waiting[1] or 0), tonumber(waiting[2] or 0)
local at = text(arrived)
local reply, ready, later = {}, {}, {}

local behind -- asked once per call: whoever gives lost keys back leaves the mark of the server's run
local function lost_keys()
  if behind == nil then behind = redis.call('GET', mark) ~= run_id() end
  return behind
end

local function known(id, once, body) -- the word for a submit that was made before, or nil
  local head = redis.call('HGET', job .. id, 'head')
  if head then return 'DUPLICATE ' .. (string.match(head, '^%S+ %d+ %d+ (%d+)') or '0') end
  local first = once ~= '' and redis.call('GET', idempotency .. once)
  if not first then return once ~= '' and journaled and lost_keys() and 'BEHIND' or nil end
  local by = string.sub(first, 1, 36)
  if by == id then return 'DUPLICATE 0' end -- it was forgotten, so it has ended
  return string.sub(first, 38) == body and 'REPLAY ' .. by or 'MISMATCH'
end

local held = {} -- owner -> how many of its jobs lived before this call
local function spent(about, quota)
  local owner = quota ~= '' and string.match(about, '^%S+ (%S+)')
  if not owner or owner == '-' then return false end
  held[owner] = held[owner] or tonumber(redis.call('HGET', owners, owner) or 0)
  return held[owner] + (owned[owner] or 0) >= tonumber(quota)
end

for i = 5, #ARGV, 11 do
  local id, tier, priority, limit, delay = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3]), tonumber(ARGV[i + 4])
  local once, body = ARGV[i + 8], ARGV[i + 9]
  local word = known(id, once, body) or 'OK'
  if word == 'OK' and now > not_after then
    word = 'LATE'
  elseif word == 'OK' and spent(ARGV[i + 6], ARGV[i + 10]) then
    word = 'QUOTA'
  elseif word == 'OK' and (delay == 0 and fresh >= limit or delay > 0 and delayed >= limit) then
    word = 'FULL'
  elseif word == 'OK' then
    local score = text(priority * base + arrived)
    local head = table.concat({tier, '1', ARGV[i + 5], at, score, ARGV[i + 6]}, ' ')
    own(head, 1)
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
  reply[#reply + 1] = word == 'OK' and 'OK ' .. at or word
end

if #ready + #later > 0 then
  bulk('ZADD', queue, ready)
  bulk('ZADD', scheduled, later)
  redis.call('SET', clock, at)
  settle(counters, owners)
  publish(events, text(now))
end
if #ready > 0 then ring(doorbell) end
return reply
