-- reclaim: a watch looks at expired jobs: the script takes back those whose deadline had already passed at an earlier
--        look, and notes those that expired since.
-- KEYS   watched other suspects queue queues scheduled outbox counters owners doorbell quarantine job tried leases
--        checkpoints ended unacked attempts unique reserved events alarms lines
-- ARGV[1] watch: HEARTBEAT_STOPPED the crash deadlines are looked at | MAX_TIME_EXCEEDED the run deadlines
-- ARGV[2] skip: how many expired jobs to pass over; an earlier call of the same look had them
-- ARGV[3] limit: how many expired jobs to look at
-- ARGV[4] patience_ms: how long after its first look a job is taken back at the earliest
-- per tier (n = 5, 7, ...):
-- ARGV[n+0] tier: the name of the tier | '*' any tier that has no argument of its own
-- ARGV[n+1] max_crashes: how many crashes a generation may have | '-' a crash spends a retry
-- REPLY  per job: id, SUSPECT | OK (back to its place) | FAILED | CANCELLED | QUARANTINED (it does not run), then tier
--        and cause (HEARTBEAT_STOPPED | MAX_TIME_EXCEEDED), both '' with SUSPECT and QUARANTINED, and of an OK the
--        attempt, how many retries it spent, and whether it counts as a crash: 0 | 1
-- TWICE  the script acts on what it finds: it does not find a job again that it took back
-- A job whose holder sent no heartbeats has crashed. That costs a retry, as a stuck run does, or a crash if the plan of
-- its tier limits crashes. A lease without a length, which restore wrote, costs nothing: a loss of Redis took it from
-- its holder. An embedded server's own pool, whose token ends with ':0', died with its Redis.
local watched, other, suspects, queue, queues, scheduled, outbox, counters, owners, doorbell, quarantine, job, tried,
  leases, checkpoints, ended, unacked, attempts, unique, reserved, events, alarms, lines = unpack(KEYS)
local watch, skip, limit, patience = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local max_crashes = {}
for i = 5, #ARGV, 2 do max_crashes[ARGV[i]] = ARGV[i + 1] end
local now = time_ms()
local at = text(now)
local reply = {}

-- A look counts for nothing once the deadline has moved past it (a heartbeat, a new claim). Looks older than an hour go
-- here.
redis.call('ZREMRANGEBYSCORE', suspects, '-inf', text(now - 3600000))

local function seconds(ms) return string.format('%g s', ms / 1000) end

-- cause_of returns why an attempt ends, and a text that says which limit it has reached. Of a dead worker whose job is
-- over its time too, the stuck watch says that it is dead: so is one that has missed two heartbeats. A lease that
-- restore wrote has no length: nobody has heard of its holder since.
local function cause_of(id, lease, deadline)
  local crash_deadline = tonumber(redis.call('ZSCORE', other, id) or math.huge)
  local is_silent = watch == 'HEARTBEAT_STOPPED' or crash_deadline <= now + lease.lease_for / 3
  if lease.lease_for == 0 then
    return 'HEARTBEAT_STOPPED', 'the attempt ran when its server or Redis was lost'
  elseif is_silent then
    return 'HEARTBEAT_STOPPED', 'no heartbeat for ' .. seconds(lease.lease_for) ..
      ', so the worker has died, or was cut off or blocked: leaseSeconds of its claims or heartbeatTimeoutMs of the ' ..
      'tier allow more'
  end
  return watch, 'the attempt reached its maximum processing time of ' .. seconds(deadline - lease.started) ..
    ': maxProcessingSeconds of the queue or maxProcessingTimeMs of the tier allow more'
end

-- take_back ends the attempt of a job and returns what the reply says of it. The run loses its token: its holder's
-- reports are LOST from now on.
local function take_back(id, deadline)
  local lease, head = parse_lease(redis.call('HGET', leases, id))
  local cause, why
  if lease then cause, why = cause_of(id, lease, deadline) end
  redis.call('ZREM', watched, id)
  redis.call('ZREM', other, id)
  redis.call('ZREM', suspects, id)
  redis.call('HDEL', leases, id)
  if not lease then
    redis.call('ZADD', quarantine, at, id)
    return 'QUARANTINED', '', ''
  end
  local class, attempt, retries = lease.class, lease.attempt, tonumber(lease.retries)
  local tier, t = class.tier, extras.keep(parse_tried(redis.call('HGET', tried, id)), lease)
  end_run(lease, now)
  record_attempt(attempts .. id, attempt, lease.started, at, cause, lease.token, why)
  t.cause, t.error, t.in_row = cause, why, 0
  local is_crash = cause == 'HEARTBEAT_STOPPED'
  local most = is_crash and tonumber(max_crashes[tier] or max_crashes['*'])
  local is_free = lease.lease_for == 0 and string.sub(lease.token, -2) ~= ':0'
  local cost = is_free and 'nothing' or most and 'crash' or 'retry'
  local crashes = is_crash and not is_free and 1 or 0
  t.crashes = t.crashes + crashes
  local is_spent = cost == 'retry' and retries >= class.max_retries or cost == 'crash' and t.crashes > most
  if lease.cancel or is_spent then
    local run = format_run(attempt, lease.retries, lease.first_claim, lease.started, lease.due, '-')
    local line = end_line(lease.cancel and 'CANCELLED' or 'NEED_DISCARD', at, '-', class, run)
    end_with_record(checkpoints, id, class, attempt, line, at, head, t)
    local word = lease.cancel and 'CANCELLED' or 'FAILED'
    note_event(events, id, tier, word, attempt, cause)
    note_alarm(alarms, id, tier, word, attempt, cause)
    return word, tier, cause
  end
  local spent = cost == 'retry' and 1 or 0
  local run = format_run(attempt, text(retries + spent), lease.first_claim, lease.started, lease.due, '-')
  redis.call('HSET', tried, id, format_tried(t, run))
  take_unique_again(unique, id, class, now)
  add_entry(class, score_of(head), id, head)
  count_job(class, 'ready', 1)
  note_event(events, id, tier, 'PENDING', attempt, cause)
  note_alarm(alarms, id, tier, 'PENDING', attempt, cause)
  return 'OK', tier, cause, attempt, text(spent), text(crashes)
end

local expired = redis.call('ZRANGEBYSCORE', watched, '-inf', at, 'WITHSCORES', 'LIMIT', skip, limit)
for i = 1, #expired, 2 do
  local id, deadline = expired[i], tonumber(expired[i + 1])
  local first_look = tonumber(redis.call('ZSCORE', suspects, id) or -1)
  if first_look > now then first_look = -1 end -- by a clock that was ahead
  local word, tier, cause, attempt, spent, crashes = 'SUSPECT', '', '', nil, nil, nil
  if first_look < deadline then
    redis.call('ZADD', suspects, at, id)
  elseif now - first_look >= patience then
    word, tier, cause, attempt, spent, crashes = take_back(id, deadline)
  end
  local n = #reply
  reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = id, word, tier, cause
  reply[n + 5], reply[n + 6], reply[n + 7] = attempt or '0', spent or '0', crashes or '0'
end

write_ends(outbox, ended, unacked, tried, checkpoints, reserved)
write_unique(unique, job, scheduled, tried, events, now)
write_entries(queue, queues, doorbell, job, lines)
write_counters(counters, owners)
publish(events, at)
publish(alarms, at)
return reply
