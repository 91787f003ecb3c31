-- fail: the holder ends an attempt without a result: the attempt failed and spends a retry, or the job goes back
--        unharmed.
-- KEYS   heartbeat_deadlines run_deadlines queue scheduled outbox counters owners doorbell job attempts events alarms
-- ARGV[1] later_limit: how often a generation may be later | 0 any number of times
-- ARGV[2] later_age_ms: how long after its first attempt a generation may be later | 0 for ever
-- ARGV[3] unknown_for_ms: how long a job waits for a worker that knows its type before it fails | 0 for ever
-- per lease (n = 4, 12, ...):
-- ARGV[n+0] id: the job
-- ARGV[n+1] attempt: of the lease
-- ARGV[n+2] token: of the lease
-- ARGV[n+3] report: 'fail' the attempt failed | 'release' the job goes back | 'later' the job goes back with a delay |
--        'unknown' the worker has no handler for the job's type
-- ARGV[n+4] cause: of a failed attempt
-- ARGV[n+5] message: the error of a failed attempt | why a job is later
-- ARGV[n+6] final: '1' the job fails whatever retries are left | '0'
-- ARGV[n+7] delay_ms: how long the job waits in scheduled | 0 it is ready at once. An 'unknown' has its own delay.
-- REPLY  per lease: OK at (it waits again) | FAILED at (no retry is left) | CANCELLED at (a cancel had been asked
--        for) | LOST (not the stored lease; nothing changed)
-- TWICE  the job keeps the ending with the lease's token: the same report again gets the same answer
-- A later beyond one of its bounds spends a retry, as a failure with the cause LATER_LIMIT does.
-- An unknown spends no retry. The job waits 2 s, and twice as long after each further unknown, up to 5 min. After
-- unknown_for_ms of nothing but unknowns the job fails.
local heartbeat_deadlines, run_deadlines, queue, scheduled, outbox, counters, owners, doorbell, job, attempts, events,
  alarms = unpack(KEYS)
local later_limit, later_age, unknown_for = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local now = time_ms()
local at = text(now)
local reply = {}

-- exceeded_bound describes the bound of "later" that an attempt is beyond; nil = none.
local function exceeded_bound(first_claim, laters, delay)
  if later_limit > 0 and laters >= later_limit then return 'later more than ' .. text(later_limit) .. ' times' end
  local age = now + delay - tonumber(first_claim or now)
  if later_age > 0 and age > later_age then
    return 'later than ' .. text(math.floor(later_age / 1000)) .. ' s after its first attempt'
  end
  return nil
end

-- parse_unknowns reads how many workers in a row did not know a job's type, and since when.
local function parse_unknowns(unknowns)
  local n, since = string.match(unknowns or '', '^(%d+) (%d+)$')
  return tonumber(n or 0), tonumber(since or now)
end

for i = 4, #ARGV, 8 do
  local id, attempt, token, report = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  local cause, message, final, delay = ARGV[i + 4], ARGV[i + 5], ARGV[i + 6], tonumber(ARGV[i + 7])
  local key = job .. id
  local m = redis.call('HMGET', key, 'state', 'attempt', 'token', 'ending', 'cancel', 'head', 'retries', 'started',
    'saved', 'first', 'laters', 'unknowns')
  local state, stored_attempt, stored_token, ending, cancel = m[1], m[2], m[3], m[4], m[5]
  local head, started, saved, first_claim = m[6], m[8], m[9], m[10]
  local word = 'LOST'
  if stored_attempt == attempt and stored_token == token then
    if ending then
      word = string.match(ending, '^' .. report .. ' (.+)$') or 'LOST'
    elseif state == 'PROCESSING' and head and redis.call('ZREM', heartbeat_deadlines, id) == 1 then
      redis.call('ZREM', run_deadlines, id)
      local tier, _, max_retries, _, score = parse_head(head)
      local retries, laters = tonumber(m[7] or 0), tonumber(m[11] or 0)
      local exceeded = report == 'later' and exceeded_bound(first_claim, laters, delay)
      local unknowns, unknown_since = parse_unknowns(m[12])
      if report == 'unknown' then delay = math.min(2000 * 2 ^ unknowns, 300000) end
      if cancel then
        cause, message = 'CANCELLED', ''
      elseif exceeded then
        cause, message = 'LATER_LIMIT', string.sub(exceeded .. ': ' .. message, 1, 2048)
      elseif report == 'later' then
        cause, message = 'LATER', text(now + delay) .. ' ' .. message
      elseif report == 'release' then
        cause, message = 'RELEASED', ''
      end
      local spends_retry = not cancel and (report == 'fail' or exceeded)
      local unknown_too_long = report == 'unknown' and unknown_for > 0 and now - unknown_since >= unknown_for
      change_counter(tier, 'running', -1)
      record_attempt(attempts .. id, attempt, started, at, cause, token, message)
      if spends_retry or report == 'unknown' and not cancel then
        redis.call('HSET', key, 'cause', cause, 'error', message)
      end
      if cancel then
        word = 'CANCELLED ' .. at
        finish(outbox, key, id, tier, head, saved, 'CANCELLED', at)
        note_event(events, id, tier, 'CANCELLED', attempt)
      elseif unknown_too_long or spends_retry and (final == '1' or retries >= tonumber(max_retries)) then
        word = 'FAILED ' .. at
        finish(outbox, key, id, tier, head, saved, 'NEED_DISCARD', at)
        note_event(events, id, tier, 'FAILED', attempt, cause)
        note_alarm(alarms, id, tier, 'FAILED', attempt, cause)
      else
        word = 'OK ' .. at
        local next_state = delay > 0 and 'SCHEDULED' or 'PENDING'
        redis.call('HSET', key, 'state', next_state)
        if spends_retry then
          redis.call('HSET', key, 'retries', text(retries + 1))
        elseif report == 'later' then
          redis.call('HSET', key, 'laters', text(laters + 1))
        end
        if report == 'unknown' then
          redis.call('HSET', key, 'unknowns', text(unknowns + 1) .. ' ' .. text(unknown_since))
        elseif m[12] then
          redis.call('HDEL', key, 'unknowns')
          -- The cause and the error said that no worker knows the type.
          if not spends_retry then redis.call('HDEL', key, 'cause', 'error') end
        end
        if delay > 0 then
          redis.call('ZADD', scheduled, text(now + delay), id)
          change_counter(tier, 'scheduled', 1)
        else
          redis.call('ZADD', queue, score, id)
          change_counter(tier, 'ready', 1)
          ring(doorbell)
        end
        note_event(events, id, tier, next_state, attempt, (spends_retry or report == 'unknown') and cause or nil)
        if spends_retry then note_alarm(alarms, id, tier, next_state, attempt, cause) end
      end
      redis.call('HSET', key, 'ending', report .. ' ' .. word)
    end
  end
  reply[#reply + 1] = word
end

write_counters(counters, owners)
publish(events, at)
publish(alarms, at)
return reply
