-- reclaim: a watch looks at expired jobs: the script takes back those whose deadline had already passed at an earlier
--        look, and notes those that expired since.
-- KEYS   watched other suspects queue queues scheduled outbox counters owners doorbell quarantine job tried leases
--        checkpoints ended unacked attempts unique events alarms lines
-- ARGV[1] cause: HEARTBEAT_STOPPED | MAX_TIME_EXCEEDED
-- ARGV[2] skip: how many expired jobs to pass over; an earlier call of the same look had them
-- ARGV[3] limit: how many expired jobs to look at
-- ARGV[4] patience_ms: how long after its first look a job is taken back at the earliest
-- per tier (n = 5, 7, ...):
-- ARGV[n+0] tier: the name of the tier | '*' any tier that has no argument of its own
-- ARGV[n+1] max_crashes: how many crashes a generation may have
-- REPLY  per job: id, SUSPECT | OK (back to its place) | FAILED | CANCELLED | QUARANTINED (it does not run), tier (''
--        with SUSPECT and QUARANTINED)
-- TWICE  the script acts on what it finds: it does not find a job again that it took back
-- A job whose holder sent no heartbeats has crashed: it spends a crash. A stuck job spends a retry.
local watched, other, suspects, queue, queues, scheduled, outbox, counters, owners, doorbell, quarantine, job, tried,
  leases, checkpoints, ended, unacked, attempts, unique, events, alarms, lines = unpack(KEYS)
local cause, skip, limit, patience = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local is_crash, max_crashes = cause == 'HEARTBEAT_STOPPED', {}
for i = 5, #ARGV, 2 do max_crashes[ARGV[i]] = tonumber(ARGV[i + 1]) end
local now = time_ms()
local at = text(now)
local reply = {}

-- A look counts for nothing once the deadline has moved past it (a heartbeat, a new claim). Looks older than an hour go
-- here.
redis.call('ZREMRANGEBYSCORE', suspects, '-inf', text(now - 3600000))

-- take_back ends the attempt of a job and returns the word and the tier. The run loses its token: its holder's reports
-- are LOST from now on.
local function take_back(id)
  local lease, head = parse_lease(redis.call('HGET', leases, id))
  redis.call('ZREM', watched, id)
  redis.call('ZREM', other, id)
  redis.call('ZREM', suspects, id)
  redis.call('HDEL', leases, id)
  if not lease then
    redis.call('ZADD', quarantine, at, id)
    return 'QUARANTINED', ''
  end
  local class, attempt, retries = lease.class, lease.attempt, tonumber(lease.retries)
  local tier, t = class.tier, extras.keep(parse_tried(redis.call('HGET', tried, id)), lease)
  end_run(lease, now)
  record_attempt(attempts .. id, attempt, lease.started, at, cause, lease.token, '')
  t.cause, t.error, t.unknowns = cause, '', 0
  local is_spent = retries >= class.max_retries
  if is_crash then
    t.crashes = t.crashes + 1
    is_spent = t.crashes > (max_crashes[tier] or max_crashes['*'])
  end
  if lease.cancel or is_spent then
    local run = format_run(attempt, lease.retries, lease.first_claim, lease.started, lease.due, '-')
    local line = end_line(lease.cancel and 'CANCELLED' or 'NEED_DISCARD', at, '-', class, run)
    end_with_record(checkpoints, id, class, attempt, line, at, head, t)
    local word = lease.cancel and 'CANCELLED' or 'FAILED'
    note_event(events, id, tier, word, attempt, cause)
    note_alarm(alarms, id, tier, word, attempt, cause)
    return word, tier
  end
  local retries_spent = is_crash and lease.retries or text(retries + 1)
  local run = format_run(attempt, retries_spent, lease.first_claim, lease.started, lease.due, '-')
  redis.call('HSET', tried, id, format_tried(t, run))
  take_unique_again(unique, id, class, now)
  add_entry(class, score_of(head), id, head)
  count_job(class, 'ready', 1)
  note_event(events, id, tier, 'PENDING', attempt, cause)
  note_alarm(alarms, id, tier, 'PENDING', attempt, cause)
  return 'OK', tier
end

local expired = redis.call('ZRANGEBYSCORE', watched, '-inf', at, 'WITHSCORES', 'LIMIT', skip, limit)
for i = 1, #expired, 2 do
  local id, deadline = expired[i], tonumber(expired[i + 1])
  local first_look = tonumber(redis.call('ZSCORE', suspects, id) or -1)
  local word, tier = 'SUSPECT', ''
  if first_look < deadline then
    redis.call('ZADD', suspects, at, id)
  elseif now - first_look >= patience then
    word, tier = take_back(id)
  end
  local n = #reply
  reply[n + 1], reply[n + 2], reply[n + 3] = id, word, tier
end

write_ends(outbox, ended, unacked, tried, checkpoints)
write_unique(unique, job, scheduled, tried, events, now)
write_entries(queue, queues, doorbell, job, lines)
write_counters(counters, owners)
publish(events, at)
publish(alarms, at)
return reply
