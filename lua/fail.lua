-- fail: the holder ends an attempt without a result: the attempt failed and spends a retry, or the job goes back
--        unharmed.
-- KEYS   heartbeat_deadlines run_deadlines queue queues scheduled outbox counters owners doorbell job tried leases
--        checkpoints ended unacked attempts unique reserved events alarms lines
-- ARGV[1] later_limit: how often a generation may be later | 0 any number of times
-- ARGV[2] later_age_ms: how long after its first attempt a generation may be later | 0 for ever
-- ARGV[3] unknown_for_ms: how long a job waits for a worker that knows its type before it fails | 0 for ever
-- per lease (n = 4, 12, ...):
-- ARGV[n+0] id: the job
-- ARGV[n+1] attempt: of the lease
-- ARGV[n+2] token: of the lease
-- ARGV[n+3] report: 'fail' the attempt failed | 'release' the job goes back: its worker never ran it, or ends |
--        'return' the job goes back: its handler wants it so | 'later' the job goes back with a delay | 'unknown' the
--        worker has no handler for the job's type
-- ARGV[n+4] cause: of a failed attempt
-- ARGV[n+5] message: the error of a failed attempt | why a job is later
-- ARGV[n+6] final: '1' the job fails whatever retries are left | '0'
-- ARGV[n+7] delay_ms: how long the job waits in scheduled | 0 it is ready at once. An 'unknown' and a 'return' have
--        their own delays.
-- REPLY  per lease: OK at (it waits again) | FAILED at (no retry is left) | CANCELLED at (a cancel had been asked
--        for) | LOST (not the stored lease; nothing changed)
-- TWICE  tried or the end keeps the run's report and its answer: the same report again gets the same answer
-- A later beyond one of its bounds spends a retry, as a failure with the cause LATER_LIMIT does.
-- An unknown spends no retry. The job waits 2 s, and twice as long after each further unknown, up to 5 min. After
-- unknown_for_ms of nothing but unknowns the job fails. A return spends none either: after five in a row within a
-- minute the job waits 1 s, and twice as long after each further return, up to 1 min.
local heartbeat_deadlines, run_deadlines, queue, queues, scheduled, outbox, counters, owners, doorbell, job, tried,
  leases, checkpoints, ended, unacked, attempts, unique, reserved, events, alarms, lines = unpack(KEYS)
local later_limit, later_age, unknown_for = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local now = time_ms()
local at = text(now)
local reply = {}

-- exceeded_bound describes the bound of "later" that an attempt is beyond; nil = none.
local function exceeded_bound(first_claim, laters, delay)
  if later_limit > 0 and laters >= later_limit then return 'later more than ' .. text(later_limit) .. ' times' end
  local age = now + delay - tonumber(first_claim)
  if later_age > 0 and age > later_age then
    return 'later than ' .. text(math.floor(later_age / 1000)) .. ' s after its first attempt'
  end
  return nil
end

-- row_delay counts a report of a row of alike ones, and returns how long the job waits.
local function row_delay(t, report)
  local is_in_row = t.report == report and (report == 'unknown' or t.in_row >= 5 or now - t.since <= 60000)
  if not is_in_row or t.in_row == 0 then t.in_row, t.since = 0, now end
  t.in_row = t.in_row + 1
  if report == 'unknown' then return math.min(2000 * 2 ^ (t.in_row - 1), 300000) end
  return t.in_row < 5 and 0 or math.min(1000 * 2 ^ (t.in_row - 5), 60000)
end

local answers = {} -- "id attempt token report" of a job that this call ended -> its answer

-- first_answer returns the answer to a report that the holder of this run made before.
local function first_answer(id, attempt, token, report)
  local answer = answers[table.concat({id, attempt, token, report}, ' ')]
  if answer then return answer end
  local e = read_ended(ended, id)
  if e then
    if e.report ~= report or e.run.attempt ~= attempt or e.run.token ~= token then return 'LOST' end
    return (e.state == 'CANCELLED' and 'CANCELLED ' or 'FAILED ') .. e.at
  end
  local t = parse_tried(redis.call('HGET', tried, id))
  if t.report ~= report or t.run.attempt ~= attempt or t.run.token ~= token then return 'LOST' end
  return t.word .. ' ' .. t.at
end

for i = 4, #ARGV, 8 do
  local id, attempt, token, report = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  local cause, message, final, delay = ARGV[i + 4], ARGV[i + 5], ARGV[i + 6], tonumber(ARGV[i + 7])
  local lease, head = parse_lease(redis.call('HGET', leases, id))
  local word = 'LOST'
  if not lease then
    word = first_answer(id, attempt, token, report)
  elseif lease.attempt == attempt and lease.token == token then
    redis.call('ZREM', heartbeat_deadlines, id)
    redis.call('ZREM', run_deadlines, id)
    redis.call('HDEL', leases, id)
    local class, retries = lease.class, tonumber(lease.retries)
    local tier, t = class.tier, extras.keep(parse_tried(redis.call('HGET', tried, id)), lease)
    local exceeded = report == 'later' and exceeded_bound(lease.first_claim, t.laters, delay)
    local was_unknown = t.report == 'unknown' and t.in_row > 0
    if report == 'unknown' or report == 'return' then delay = row_delay(t, report) else t.in_row = 0 end
    if lease.cancel then
      cause, message = 'CANCELLED', ''
    elseif exceeded then
      cause, message = 'LATER_LIMIT', string.sub(exceeded .. ': ' .. message, 1, 2048)
    elseif report == 'later' then
      cause, message = 'LATER', text(now + delay) .. ' ' .. message
    elseif report == 'release' or report == 'return' then
      cause, message = 'RELEASED', ''
    end
    local spends_retry = not lease.cancel and (report == 'fail' or exceeded)
    local unknown_too_long = report == 'unknown' and unknown_for > 0 and now - t.since >= unknown_for
    end_run(lease, now)
    record_attempt(attempts .. id, attempt, lease.started, at, cause, token, message)
    if (spends_retry or report == 'unknown') and not lease.cancel then t.cause, t.error = cause, message end
    if lease.cancel then
      word = 'CANCELLED ' .. at
      local run = format_run(attempt, lease.retries, lease.first_claim, lease.started, lease.due, token)
      local line = end_line('CANCELLED', at, report, class, run)
      end_with_record(checkpoints, id, class, attempt, line, at, head, t)
      note_event(events, id, tier, 'CANCELLED', attempt)
    elseif unknown_too_long or spends_retry and (final == '1' or retries >= class.max_retries) then
      word = 'FAILED ' .. at
      local run = format_run(attempt, lease.retries, lease.first_claim, lease.started, lease.due, token)
      local line = end_line('NEED_DISCARD', at, report, class, run)
      end_with_record(checkpoints, id, class, attempt, line, at, head, t)
      note_event(events, id, tier, 'FAILED', attempt, cause)
      note_alarm(alarms, id, tier, 'FAILED', attempt, cause)
    else
      word = 'OK ' .. at
      local next_state = delay > 0 and 'SCHEDULED' or 'PENDING'
      if spends_retry then
        retries = retries + 1
      elseif report == 'later' then
        t.laters = t.laters + 1
      end
      if report ~= 'unknown' and was_unknown and not spends_retry then
        t.cause, t.error = '-', '' -- they said that no worker knows the type
      end
      local run = format_run(attempt, text(retries), lease.first_claim, lease.started, lease.due, token)
      redis.call('HSET', tried, id, format_tried(t, run, report, 'OK', at))
      take_unique_again(unique, id, class, now)
      if delay > 0 then
        redis.call('ZADD', scheduled, text(now + delay), id)
        back_off(class, id)
        count_job(class, 'scheduled', 1)
      else
        add_entry(class, score_of(head), id, head)
        count_job(class, 'ready', 1)
      end
      local shown_cause = (spends_retry or report == 'unknown') and cause or nil
      note_event(events, id, tier, next_state, attempt, shown_cause)
      if spends_retry then note_alarm(alarms, id, tier, next_state, attempt, cause) end
    end
  end
  if word ~= 'LOST' then answers[table.concat({id, attempt, token, report}, ' ')] = word end
  reply[#reply + 1] = word
end

write_ends(outbox, ended, unacked, tried, checkpoints, reserved)
write_unique(unique, job, scheduled, tried, events, now)
write_entries(queue, queues, doorbell, job, lines)
write_counters(counters, owners)
publish(events, at)
publish(alarms, at)
return reply
