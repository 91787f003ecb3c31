-- submit: accepts new jobs: into main:queue at their score or, delayed, into scheduled.
-- KEYS   queue scheduled counters owners clock doorbell job idempotency events
-- ARGV   base not_after keep_ms (of once) shares ('tier fresh delayed delayedbytes living bytes' of each tier, the
--        smallest first); per job: id kind ('tier priority limit delay_ms max_retries quota', - = any number of jobs)
--        about payload once ('key body', '' = any number of times)
-- REPLY  per job: OK arrived | QUOTA (that many of its owner's jobs live) | FULL (its tier's share is taken: fresh,
--        delayed, delayedbytes, living or bytes) | LATE (not_after has passed) | DUPLICATE arrived | REPLAY id (once is
--        that job's) | MISMATCH (and with another body)
-- TWICE  the id decides: a job that is there answers DUPLICATE and stays as it is
local queue, scheduled, counters, owners, clock, doorbell, job, idempotency, events = unpack(KEYS)
local base, not_after, keep, shares = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], ARGV[4]

local now = time_ms()
local arrived = math.max(now, tonumber(redis.call('GET', clock) or 0))
local at = text(arrived)
local reply, ready, later = {}, {}, {}
local loud = listened(events)

-- Tiers fill a limit one after the other, the smallest share first, and each at most to its share: what one has beyond it (came due, was
-- requeued, is owed) keeps no other tier out.
local limits = {'fresh', 'delayed', 'delayedbytes', 'living', 'bytes'} -- in the order of the shares
local fills = {} -- limit -> the tiers in that order, {tier, share, n}, and in others what those without a plan have
local used = {} -- limit -> how much of it is taken, or more than that: see full
local function add_up(what)
  local sum = fills[what].others
  for _, f in ipairs(fills[what]) do sum = math.max(sum, math.min(sum + f.n, f.share)) end
  used[what] = sum
end

local function look()
  local counts, fields = {}, redis.call('HGETALL', counters)
  for i = 1, #fields, 2 do counts[fields[i]] = tonumber(fields[i + 1]) end
  local function counted_as(tier, what) return math.max(counts[tier .. ':' .. what] or 0, 0) end
  for _, what in ipairs(limits) do fills[what] = {others = counts[what] or 0} end
  for tier, a, b, c, d, e in string.gmatch(shares, '(%S+) (%d+) (%d+) (%d+) (%d+) (%d+)') do
    local share = {a, b, c, d, e}
    for i, what in ipairs(limits) do
      local n = counted_as(tier, what)
      -- Nothing counts the living: they are those that wait, rest and run.
      if what == 'living' then n = counted_as(tier, 'ready') + counted_as(tier, 'scheduled') + counted_as(tier, 'running') end
      local f = {tier = tier, share = tonumber(share[i]), n = n}
      table.insert(fills[what], f)
      fills[what][tier], fills[what].others = f, fills[what].others - n
    end
  end
  for _, what in ipairs(limits) do
    fills[what].others = math.max(fills[what].others, 0)
    add_up(what)
  end
end
look()

-- What a job adds to a limit is added to what is used in full, which is at most too much: only at the limit it is
-- added up again.
local function fill(what, tier, n)
  local f = fills[what][tier]
  if f then f.n = f.n + n end
  used[what] = used[what] + n
end

local function full(what, limit)
  if used[what] >= limit then add_up(what) end
  return used[what] >= limit
end

local function beyond(kind) -- the limit that has no room for a job of this kind, or nil
  local first = kind.delay == 0 and 'fresh' or 'delayed'
  if full(first, kind.limit) then return first end
  for _, what in ipairs(kind.delay == 0 and {'living', 'bytes'} or {'delayedbytes', 'living', 'bytes'}) do
    local f = fills[what][kind.tier]
    if f and full(what, f.share) then return what end
  end
  return nil
end

local keys = {}
for i = 5, #ARGV, 5 do keys[#keys + 1] = job .. ARGV[i] end
local repeated = any(keys) -- as good as never, and then each job is asked for
local taken = {} -- what this call took in

local function known(id, once, body) -- the word for a submit that was made before, or nil
  local head = (repeated or taken[id]) and redis.call('HGET', job .. id, 'head')
  if head then return 'DUPLICATE ' .. (string.match(head, '^%S+ %d+ %d+ (%d+)') or '0') end
  local first = once and redis.call('GET', idempotency .. once)
  if not first then return nil end
  local by = string.sub(first, 1, 36)
  if by == id then return 'DUPLICATE 0' end -- it was forgotten, so it has ended
  if string.sub(first, 38) == body then return 'REPLAY ' .. by end
  return 'MISMATCH'
end

local held = {} -- owner -> how many of its jobs lived before this call
local function spent(about, quota)
  local owner = quota and string.match(about, '^%S+ (%S+)')
  if owner == '-' then owner = stranger(about) end
  if not owner then return false end
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
  elseif word == 'OK' then
    local limit = beyond(kind)
    if limit then word = 'FULL ' .. limit end
  end
  if word == 'OK' then
    local head = kind.head .. about
    word, taken[id] = 'OK ' .. at, true
    live(tier, head, 1, #payload)
    fill('living', tier, 1)
    fill('bytes', tier, #payload)
    if delay == 0 then
      redis.call('HSET', job .. id, 'head', head, 'payload', payload)
      ready[#ready + 1], ready[#ready + 2] = kind.score, id
      fill('fresh', tier, 1)
      count(tier, 'ready', 1)
      count(tier, 'fresh', 1)
      if loud then tell(events, id, tier, 'PENDING') end
    else
      redis.call('HSET', job .. id, 'head', head, 'payload', payload, 'state', 'SCHEDULED')
      later[#later + 1], later[#later + 2] = text(now + delay), id
      fill('delayed', tier, 1)
      fill('delayedbytes', tier, #payload)
      count(tier, 'scheduled', 1)
      count(tier, 'delayed', 1)
      count(tier, 'delayedbytes', #payload)
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
