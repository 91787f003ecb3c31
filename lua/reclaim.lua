-- reclaim: one look of a watch: takes back jobs whose deadline had already passed at an earlier look, and notes the newly expired.
-- KEYS   watched other suspects queue outbox counters owners doorbell quarantine job attempts events alarms
-- ARGV   cause skip limit patience_ms
-- REPLY  per job: id, SUSPECT | OK (back to its place) | FAILED | CANCELLED | QUARANTINED (it does not run),
--        tier ('' with SUSPECT and QUARANTINED)
-- TWICE  it acts on what it finds: a job taken back is no longer found
local watched, other, suspects, queue, outbox, counters, owners, doorbell, quarantine, job, attempts, events, alarms = unpack(KEYS)
local cause, skip, limit, patience = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local now = time_ms()
local at = text(now)
local reply = {}

-- A deadline that moved past the first look (a heartbeat, a new claim) makes that look meaningless; this is where old ones go.
redis.call('ZREMRANGEBYSCORE', suspects, '-inf', text(now - 3600000))

local function take_back(id)
  local key = job .. id
  local m = redis.call('HMGET', key, 'head', 'state', 'attempt', 'retries', 'started', 'token', 'cancel', 'saved')
  redis.call('ZREM', watched, id)
  redis.call('ZREM', other, id)
  redis.call('ZREM', suspects, id)
  if not m[1] or not m[3] or m[2] ~= 'PROCESSING' then
    redis.call('ZADD', quarantine, at, id)
    return 'QUARANTINED', ''
  end
  local tier, _, max_retries, _, score = parse(m[1])
  local retries = tonumber(m[4] or 0)
  count(tier, 'running', -1)
  remember(attempts .. id, m[3], m[5], at, cause, m[6], '')
  redis.call('HDEL', key, 'token', 'error')
  redis.call('HSET', key, 'cause', cause)
  if m[7] or retries >= tonumber(max_retries) then
    finish(outbox, key, id, tier, m[1], m[8], m[7] and 'CANCELLED' or 'NEED_DISCARD', at)
    tell(events, id, tier, m[7] and 'CANCELLED' or 'FAILED', m[3], cause)
    alarm(alarms, id, tier, m[7] and 'CANCELLED' or 'FAILED', m[3], cause)
    return m[7] and 'CANCELLED' or 'FAILED', tier
  end
  redis.call('HSET', key, 'state', 'PENDING', 'retries', text(retries + 1))
  redis.call('ZADD', queue, score, id)
  count(tier, 'ready', 1)
  ring(doorbell)
  tell(events, id, tier, 'PENDING', m[3], cause)
  alarm(alarms, id, tier, 'PENDING', m[3], cause)
  return 'OK', tier
end

local expired = redis.call('ZRANGEBYSCORE', watched, '-inf', at, 'WITHSCORES', 'LIMIT', skip, limit)
for i = 1, #expired, 2 do
  local id, deadline = expired[i], tonumber(expired[i + 1])
  local looked = tonumber(redis.call('ZSCORE', suspects, id) or -1)
  local word, tier = 'SUSPECT', ''
  if looked < deadline then
    redis.call('ZADD', suspects, at, id)
  elseif now - looked >= patience then
    word, tier = take_back(id)
  end
  local n = #reply
  reply[n + 1], reply[n + 2], reply[n + 3] = id, word, tier
end

settle(counters, owners)
publish(events, at)
publish(alarms, at)
return reply
