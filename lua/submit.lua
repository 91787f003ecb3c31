-- submit: accepts new jobs: into main:queue at their score or, delayed, into scheduled.
-- KEYS   queue scheduled counters owners clock doorbell job idempotency mark events
-- ARGV   base not_after keep_ms (of once) journaled ('1' = SQL has the keys too, 'e' = and this Redis never lacks one) shares ('tier ready delayed', of each tier); per job: id kind ('tier priority limit delay_ms max_retries quota', - = any number of jobs) about payload once ('key body', '' = any number of times)
-- REPLY  per job: OK arrived | QUOTA (that many of its owner's jobs live) | FULL (its tier's share is taken) | LATE (not_after has passed) | BEHIND (keys that this Redis lost are not back yet) | DUPLICATE arrived | REPLAY id (once is that job's) | MISMATCH (and with another body)
-- TWICE  the id decides: a job that is there answers DUPLICATE and stays as it is
local queue, scheduled, counters, owners, clock, doorbell, job, idempotency, mark, events = unpack(KEYS)
local base, not_after, keep, journaled, shares = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], ARGV[4] == '1', ARGV[5]

local now = time_ms()
local arrived = math.max(now, tonumber(redis.call('GET', clock) or 0))
local at = text(arrived)
local reply, ready, later = {}, {}, {}
local loud = listened(events)

local behind -- asked once per call: whoever gives lost keys back leaves the mark of the server's run
local function lost_keys()
  if behind == nil then behind = redis.call('GET', mark) ~= run_id() end
  return behind
end

-- Jobs count against a limit tier by tier, each tier's at most to its own share: what one has beyond it (came due, was requeued, is owed)
-- keeps no other tier out.
local used, left = {}, {fresh = {}, delayed = {}} -- how many count; of a tier, how many more would
local function look()
  local names, fields = {}, {'fresh', 'delayed'}
  for tier, ready, delayed in string.gmatch(shares, '(%S+) (%d+) (%d+)') do
    names[#names + 1], left.fresh[tier], left.delayed[tier] = tier, tonumber(ready), tonumber(delayed)
    fields[#fields + 1], fields[#fields + 2] = tier .. ':fresh', tier .. ':delayed'
  end
  local n = redis.call('HMGET', counters, unpack(fields))
  for i, what in ipairs({'fresh', 'delayed'}) do
    used[what] = tonumber(n[i] or 0)
    for k, tier in ipairs(names) do
      left[what][tier] = left[what][tier] - tonumber(n[2 * k + i] or 0)
      used[what] = used[what] + math.min(left[what][tier], 0)
    end
  end
end
look()

local function fill(what, tier)
  local more = left[what][tier]
  if not more or more > 0 then used[what] = used[what] + 1 end
  if more then left[what][tier] = more - 1 end
end

local keys = {}
for i = 6, #ARGV, 5 do keys[#keys + 1] = job .. ARGV[i] end
local repeated = any(keys) -- as good as never, and then each job is asked for
local taken = {} -- what this call took in

-- A job that a repeat was answered with is not withdrawn any more: whoever answers has its row, or writes it.
local function adopt(id)
  local m = redis.call('HMGET', job .. id, 'head', 'first', 'adopted')
  if m[1] and not m[2] and not m[3] then redis.call('HSET', job .. id, 'adopted', '1') end
end

local function known(id, once, body) -- the word for a submit that was made before, or nil
  local head = (repeated or taken[id]) and redis.call('HGET', job .. id, 'head')
  if head then return 'DUPLICATE ' .. (string.match(head, '^%S+ %d+ %d+ (%d+)') or '0') end
  local first = once and redis.call('GET', idempotency .. once)
  if not first then return once and journaled and lost_keys() and 'BEHIND' or nil end
  local by = string.sub(first, 1, 36)
  if by == id then return 'DUPLICATE 0' end -- it was forgotten, so it has ended
  if string.sub(first, 38) == body then
    if ARGV[4] ~= '' then adopt(by) end
    return 'REPLAY ' .. by
  end
  return 'MISMATCH'
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

for i = 6, #ARGV, 5 do
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
  elseif word == 'OK' and used[delay == 0 and 'fresh' or 'delayed'] >= kind.limit then
    word = 'FULL'
  elseif word == 'OK' then
    local head = kind.head .. about
    word, taken[id] = 'OK ' .. at, true
    own(head, 1)
    if delay == 0 then
      redis.call('HSET', job .. id, 'head', head, 'payload', payload)
      ready[#ready + 1], ready[#ready + 2] = kind.score, id
      fill('fresh', tier)
      count(tier, 'ready', 1)
      count(tier, 'fresh', 1)
      if loud then tell(events, id, tier, 'PENDING') end
    else
      redis.call('HSET', job .. id, 'head', head, 'payload', payload, 'state', 'SCHEDULED')
      later[#later + 1], later[#later + 2] = text(now + delay), id
      fill('delayed', tier)
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
