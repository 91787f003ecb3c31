-- What stands in front of every script. Job hash: head = "tier generation max_retries arrived score type owner trace" and
-- payload (both fixed for a generation), and what changes: state attempt retries due first started token ending cancel ended cause error result
-- saved checkpoint laters. A head may have a ninth part: options that scripts do not read.
local function text(n) return string.format('%d', n) end -- never tostring: 15 digits would turn into 1e+14; exact to 2^53

local function time_us()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

local function time_ms() return math.floor(time_us() / 1000) end

local function tier_of(head) return string.match(head, '^%S+') end

local function parse(head) -- tier, generation, max_retries, arrived, score
  return string.match(head, '^(%S+) (%d+) (%d+) (%d+) (%d+) ')
end

local counted = {} -- what -> tier -> n
local function count(tier, what, n)
  local tiers = counted[what]
  if not tiers then
    tiers = {}
    counted[what] = tiers
  end
  tiers[tier] = (tiers[tier] or 0) + n
end

-- stranger is the quota to which a job without an owner counts. The options of a stranger's job name it. JSON escapes
-- quotes inside a text, so no other text of the head can look like it.
local function stranger(head) return string.match(head, '"from":"(~%x+)"') end

local owned = {} -- owner -> how many more of its jobs live, or fewer
-- live counts a job that begins to live (n = 1) or ceases to (n = -1), and the bytes that it keeps in Redis: for its
-- tier, and for its owner.
local function live(tier, head, n, bytes)
  count(tier, 'bytes', n * bytes)
  -- Most are nobody's. Without options " - " stands for the owner only: two plain finds cost a fifth of the match.
  if string.find(head, ' - ', 1, true) and not string.find(head, ' {', 1, true) then return end
  local owner = string.match(head, '^%S+ %S+ %S+ %S+ %S+ %S+ (%S+)')
  if owner == '-' then owner = stranger(head) end
  if owner then owned[owner] = (owned[owner] or 0) + n end
end

local outbox_bytes = 0
local function weigh(n) outbox_bytes = outbox_bytes + n end -- results and payloads that wait for SQL
local function payload_of(key) return redis.call('HSTRLEN', key, 'payload') end

-- bytes_of is what a living job is counted with: its payload, and its checkpoint if it has saved one.
local function bytes_of(key, saved)
  return payload_of(key) + (saved and redis.call('HSTRLEN', key, 'checkpoint') or 0)
end

-- finish ends a job. It waits in the outbox, with its payload, until SQL has it. saved: it has a checkpoint.
local function finish(outbox, key, id, tier, head, saved, state, at)
  redis.call('HSET', key, 'state', state, 'ended', at)
  live(tier, head, -1, bytes_of(key, saved))
  redis.call('ZADD', outbox, at, id)
  weigh(payload_of(key))
end

local function settle(counters, owners) -- the script's last write: the counters move with the jobs
  if outbox_bytes ~= 0 then redis.call('HINCRBY', counters, 'outbox_bytes', text(outbox_bytes)) end
  for what, tiers in pairs(counted) do
    local sum = 0
    for tier, n in pairs(tiers) do
      sum = sum + n
      if n ~= 0 then redis.call('HINCRBY', counters, tier .. ':' .. what, text(n)) end
    end
    -- Summed over the tiers they are what limits admission.
    local limited = what == 'fresh' or what == 'delayed' or what == 'bytes' or what == 'delayedbytes'
    if sum ~= 0 and limited then redis.call('HINCRBY', counters, what, text(sum)) end
  end
  -- A script whose jobs neither begin nor cease to live has no owners. Below zero is the end of a job that nobody counted: it is nobody's debt.
  for owner, n in pairs(owned) do
    if n ~= 0 and redis.call('HINCRBY', owners, owner, text(n)) <= 0 then redis.call('HDEL', owners, owner) end
  end
end

local function ring(doorbell)
  if redis.call('LLEN', doorbell) == 0 then redis.call('RPUSH', doorbell, '1') end
end

local told = {} -- channel -> what its listeners hear: "id tier status attempt cause"
local heard = {} -- channel -> whether anybody listens, asked once per call
local function listened(channel)
  if heard[channel] == nil then heard[channel] = redis.call('EXISTS', channel) == 1 end
  return heard[channel]
end

local function tell(channel, id, tier, status, attempt, cause)
  if not listened(channel) then return end
  local lines = told[channel] or {}
  lines[#lines + 1], told[channel] = table.concat({id, tier, status, attempt or '0', cause or '-'}, ' '), lines
end

-- Operators hear of few things, and whoever listens to these only must not make the scripts tell all: of deaths, and of what was taken back.
local function alarm(alarms, id, tier, status, attempt, cause)
  if status == 'FAILED' or cause == 'HEARTBEAT_STOPPED' or cause == 'MAX_TIME_EXCEEDED' then tell(alarms, id, tier, status, attempt, cause) end
end

local function publish(channel, at) -- one message per call; a server that forbids it must not fail the call
  if told[channel] then redis.pcall('PUBLISH', channel, at .. '\n' .. table.concat(told[channel], '\n')) end
end

-- One command for many jobs costs a fraction of one per job, in Redis and in its AOF. In slices: unpack stays within 100.
local function slice(args, i) return unpack(args, i, math.min(i + 99, #args)) end

local function bulk(command, key, args) -- ZREM or ZADD
  for i = 1, #args, 100 do redis.call(command, key, slice(args, i)) end
end

local function scores(key, members) -- member -> score, of those that are in it
  local found = {}
  for i = 1, #members, 100 do
    for n, score in ipairs(redis.call('ZMSCORE', key, slice(members, i))) do found[members[i + n - 1]] = score end
  end
  return found
end

local function any(keys) -- is one of them there?
  for i = 1, #keys, 100 do
    if redis.call('EXISTS', slice(keys, i)) > 0 then return true end
  end
  return false
end

-- One line of history, the last 50 kept. The err of a LATER is until when, in ms, and why.
local function remember(attempts, attempt, started, finished, outcome, token, err)
  local worker = string.match(token or '', '^(.*):') or ''
  redis.call('RPUSH', attempts, table.concat({attempt, started or '0', finished, outcome, worker, err}, ' '))
  redis.call('LTRIM', attempts, -50, -1)
end
