-- The prelude stands in front of every script. It has the functions that several scripts share.
--
-- A job is a hash. Two fields are fixed for a generation: head = "tier generation max_retries arrived score type owner
-- trace", and payload. A head may have a ninth part, the options, of which scripts read only "from". The other fields
-- change: state attempt retries due first started token ending cancel ended cause error result saved checkpoint laters
-- unknowns.

-- text writes an integer as decimal digits, exact to 2^53. tostring would turn 15 digits into 1e+14.
local function text(n) return string.format('%d', n) end

local function time_us()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

local function time_ms() return math.floor(time_us() / 1000) end

local function tier_of(head) return string.match(head, '^%S+') end

-- parse_head returns tier, generation, max_retries, arrived and score.
local function parse_head(head)
  return string.match(head, '^(%S+) (%d+) (%d+) (%d+) (%d+) ')
end

-- change_counter notes that a tier's counter grows by n. write_counters writes what was noted.
local counter_changes = {} -- counter -> tier -> n
local function change_counter(tier, counter, n)
  local tiers = counter_changes[counter]
  if not tiers then
    tiers = {}
    counter_changes[counter] = tiers
  end
  tiers[tier] = (tiers[tier] or 0) + n
end

-- stranger_quota returns the quota under which a job without an owner counts. The options of a stranger's job name it.
-- JSON escapes quotes inside a text, so no other text of the head can look like it.
local function stranger_quota(head) return string.match(head, '"from":"(~%x+)"') end

-- count_living counts a job that begins to live (n = 1) or ceases to live (n = -1) for its owner, and the bytes that
-- the job keeps in Redis for its tier.
local owner_changes = {} -- owner -> how many more of its jobs live; below zero = how many fewer
local function count_living(tier, head, n, bytes)
  change_counter(tier, 'bytes', n * bytes)
  -- Most jobs have no owner. In a head without options " - " can only stand for the owner: the two plain finds cost a
  -- fifth of the match.
  if string.find(head, ' - ', 1, true) and not string.find(head, ' {', 1, true) then return end
  local owner = string.match(head, '^%S+ %S+ %S+ %S+ %S+ %S+ (%S+)')
  if owner == '-' then owner = stranger_quota(head) end
  if owner then owner_changes[owner] = (owner_changes[owner] or 0) + n end
end

-- add_outbox_bytes counts the bytes of results and payloads that wait for SQL.
local outbox_bytes_change = 0
local function add_outbox_bytes(n) outbox_bytes_change = outbox_bytes_change + n end

local function payload_bytes(key) return redis.call('HSTRLEN', key, 'payload') end

-- living_bytes returns the bytes that a living job counts with: its payload, and its checkpoint if it has saved one.
local function living_bytes(key, has_checkpoint)
  return payload_bytes(key) + (has_checkpoint and redis.call('HSTRLEN', key, 'checkpoint') or 0)
end

-- finish ends a job. The job waits in the outbox, with its payload, until SQL has it.
local function finish(outbox, key, id, tier, head, has_checkpoint, state, at)
  redis.call('HSET', key, 'state', state, 'ended', at)
  count_living(tier, head, -1, living_bytes(key, has_checkpoint))
  redis.call('ZADD', outbox, at, id)
  add_outbox_bytes(payload_bytes(key))
end

-- write_counters is a script's last write: it moves the counters in the same step as the jobs. A script whose jobs
-- neither begin nor cease to live passes no owners.
local function write_counters(counters, owners)
  if outbox_bytes_change ~= 0 then redis.call('HINCRBY', counters, 'outbox_bytes', text(outbox_bytes_change)) end
  for counter, tiers in pairs(counter_changes) do
    local sum = 0
    for tier, n in pairs(tiers) do
      sum = sum + n
      if n ~= 0 then redis.call('HINCRBY', counters, tier .. ':' .. counter, text(n)) end
    end
    -- Admission limits the sums of these four over all tiers.
    local is_limited = counter == 'fresh' or counter == 'delayed' or counter == 'bytes' or counter == 'delayedbytes'
    if sum ~= 0 and is_limited then redis.call('HINCRBY', counters, counter, text(sum)) end
  end
  -- An owner's count falls below zero when a job ends that was never counted. The count then starts again at zero.
  for owner, n in pairs(owner_changes) do
    if n ~= 0 and redis.call('HINCRBY', owners, owner, text(n)) <= 0 then redis.call('HDEL', owners, owner) end
  end
end

-- ring puts a token on the doorbell, unless one lies there: workers that block on the doorbell wake up.
local function ring(doorbell)
  if redis.call('LLEN', doorbell) == 0 then redis.call('RPUSH', doorbell, '1') end
end

-- has_listeners says whether anybody listens to a channel. It asks Redis once per call of a script.
local listener_cache = {} -- channel -> true or false
local function has_listeners(channel)
  if listener_cache[channel] == nil then listener_cache[channel] = redis.call('EXISTS', channel) == 1 end
  return listener_cache[channel]
end

-- note_event keeps an event for publish, if anybody listens to the channel.
local pending_events = {} -- channel -> lines of "id tier status attempt cause"
local function note_event(channel, id, tier, status, attempt, cause)
  if not has_listeners(channel) then return end
  local lines = pending_events[channel] or {}
  lines[#lines + 1] = table.concat({id, tier, status, attempt or '0', cause or '-'}, ' ')
  pending_events[channel] = lines
end

-- note_alarm keeps an event for operators, who hear only of jobs that died or were taken back. Alarms have a channel
-- of their own, so that a listener to alarms does not make the scripts publish every event.
local function note_alarm(alarms, id, tier, status, attempt, cause)
  if status == 'FAILED' or cause == 'HEARTBEAT_STOPPED' or cause == 'MAX_TIME_EXCEEDED' then
    note_event(alarms, id, tier, status, attempt, cause)
  end
end

-- publish sends a channel's pending events as one message. A server that forbids PUBLISH does not fail the script.
local function publish(channel, at)
  if pending_events[channel] then
    redis.pcall('PUBLISH', channel, at .. '\n' .. table.concat(pending_events[channel], '\n'))
  end
end

-- slice returns up to 100 arguments, from the i-th on. One command for many jobs costs a fraction of one command per
-- job, in Redis and in its AOF; unpack of more than some thousand values fails.
local function slice(args, i) return unpack(args, i, math.min(i + 99, #args)) end

-- bulk runs ZADD or ZREM for any number of arguments.
local function bulk(command, key, args)
  for i = 1, #args, 100 do redis.call(command, key, slice(args, i)) end
end

-- scores returns member -> score, of those members that are in the sorted set.
local function scores(key, members)
  local found = {}
  for i = 1, #members, 100 do
    for n, score in ipairs(redis.call('ZMSCORE', key, slice(members, i))) do found[members[i + n - 1]] = score end
  end
  return found
end

-- any_exists says whether at least one of the keys exists.
local function any_exists(keys)
  for i = 1, #keys, 100 do
    if redis.call('EXISTS', slice(keys, i)) > 0 then return true end
  end
  return false
end

-- record_attempt appends a line to a job's history and keeps the last 50. The err of a LATER is "until_ms reason".
local function record_attempt(attempts, attempt, started, finished, outcome, token, err)
  local worker = string.match(token or '', '^(.*):') or ''
  redis.call('RPUSH', attempts, table.concat({attempt, started or '0', finished, outcome, worker, err}, ' '))
  redis.call('LTRIM', attempts, -50, -1)
end
