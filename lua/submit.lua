-- submit: accepts new jobs: into main:queue at their score or, delayed, into scheduled.
-- KEYS   queue scheduled counters owners clock doorbell job idempotency mark events
-- ARGV   base not_after keep_ms (of once) journaled ('1' = SQL has the keys too); per job: id kind ('tier priority limit delay_ms max_retries quota', - = any number of jobs) about payload once ('key body', '' = any number of times)
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
local loud = listened(events)

local behind -- asked once per call: whoever gives lost keys back leaves the mark of the server's run
local function lost_keys()
  if behind == nil then behind = redis.call('GET', mark) ~= run_id() end
  return behind
end

local keys = {}
for i = 5, #ARGV, 5 do keys[#keys + 1] = job .. ARGV[i] end
local repeated = any(keys) -- as good as never, and then each job is asked for
local taken = {} -- what this call took in

local function known(id, once, body) -- the word for a submit that was made before, or nil
  local head = (repeated or taken[id]) and redis.call('HGET', job .. id, 'head')
  if head then return 'DUPLICATE ' .. (string.match(head, '^%S+ %d+ %d+ (%d+)') or '0') end
  local first = once and redis.call('GET', idempotency .. once)
  if not first then return once and journaled and lost_keys() and 'BEHIND' or nil end
  local by = string.sub(first, 1, 36)
  if by == id then return 'DUPLICATE 0' end -- it was forgotten, so it has ended
  return string.sub(first, 38) == body and 'REPLAY ' .. by or 'MISMATCH'
end

local held = {} -- owner -> how many of its jobs lived before this call
local function spent(about, quota)
  local owner = quota and string.match(about, '^%S+ (%S+)')
  if not owner or owner == '-' then return false end
  held[owner] = held[owner] or tonumber(redis.call('HGET', owners, owner) or 0)
  return held[owner] + (owned[owner] or 0) >= quota
end

local kinds = {} -- a call's jobs are mostly of one kind: what they share is made once
local function read_kind(said)
  local tier, priority, limit, delay, max_retries, quota = string.match(said, '^(%S+) (%d+) (%d+) (%d+) (%d+) (%S+)$')
  local score = text(priority * base + arrived)
  local kind = {tier = tier, limit = tonumber(limit), delay = tonumber(delay), quota = tonumber(quota), score = score}
  kind.head = table.concat({tier, '1', max_retries, at, score, ''}, ' ')
  kinds[said] = kind
  return kind
end

for i = 5, #ARGV, 5 do
  local id, about, payload = ARGV[i], ARGV[i + 2], ARGV[i + 3]
  local kind = kinds[ARGV[i + 1]] or read_kind(ARGV[i + 1])
  local tier, delay = kind.tier, kind.delay
  local once, body
  if ARGV[i + 4] ~= '' then
    once, body = string.match(ARGV[i + 4], '^(%S+) (.*)$')
  end
  local word = known(id, once, body) or 'OK'
  if word == 'OK' and now > not_after then
    word = 'LATE'
  elseif word == 'OK' and spent(about, kind.quota) then
    word = 'QUOTA'
  elseif word == 'OK' and (delay == 0 and fresh >= kind.limit or delay > 0 and delayed >= kind.limit) then
    word = 'FULL'
  elseif word == 'OK' then
    local head = kind.head .. about
    word, taken[id] = 'OK ' .. at, true
    own(head, 1)
    if delay == 0 then
      redis.call('HSET', job .. id, 'head', head, 'payload', payload)
      ready[#ready + 1], ready[#ready + 2] = kind.score, id
      fresh = fresh + 1
      count(tier, 'ready', 1)
      count(tier, 'fresh', 1)
      if loud then tell(events, id, tier, 'PENDING') end
    else
      redis.call('HSET', job .. id, 'head', head, 'payload', payload, 'state', 'SCHEDULED')
      later[#later + 1], later[#later + 2] = text(now + delay), id
      delayed = delayed + 1
      count(tier, 'scheduled', 1)
      count(tier, 'delayed', 1)
      if loud then tell(events, id, tier, 'SCHEDULED') end
    end
    if once then redis.call('SET', idempotency .. once, id .. ' ' .. body, 'PX', keep) end
  end
  reply[#reply + 1] = word
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
