-- fail: the holder reports that the attempt failed: a retry is spent, or the job becomes a dead letter.
-- KEYS   beats maxtimes queue scheduled outbox counters owners doorbell job attempts events alarms
-- ARGV   per lease: id attempt token cause error final delay_ms
-- REPLY  per lease: OK at (it will be retried) | FAILED at | CANCELLED at | LOST (not the stored lease; nothing changed)
-- TWICE  the ending is kept with its token: the same again answers the same
local beats, maxtimes, queue, scheduled, outbox, counters, owners, doorbell, job, attempts, events, alarms = unpack(KEYS)
local now = time_ms()
local at = text(now)
local reply = {}

for i = 1, #ARGV, 7 do
  local id, attempt, token, cause, err, final, delay = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4], ARGV[i + 5], tonumber(ARGV[i + 6])
  local key = job .. id
  local m = redis.call('HMGET', key, 'state', 'attempt', 'token', 'ending', 'cancel', 'head', 'retries', 'started', 'saved')
  local word = 'LOST'
  if m[2] == attempt and m[3] == token then
    if m[4] then
      word = string.match(m[4], '^fail (.+)$') or 'LOST'
    elseif m[1] == 'PROCESSING' and m[6] and redis.call('ZREM', beats, id) == 1 then
      redis.call('ZREM', maxtimes, id)
      local tier, _, max_retries, _, score = parse(m[6])
      local retries = tonumber(m[7] or 0)
      count(tier, 'running', -1)
      remember(attempts .. id, attempt, m[8], at, m[5] and 'CANCELLED' or cause, token, m[5] and '' or err)
      if not m[5] then redis.call('HSET', key, 'cause', cause, 'error', err) end
      if m[5] then
        word = 'CANCELLED ' .. at
        tell(events, id, tier, 'CANCELLED', attempt)
        redis.call('HSET', key, 'state', 'CANCELLED', 'ended', at)
        live(tier, m[6], -1, bytes_of(key, m[9]))
        redis.call('ZADD', outbox, at, id)
        weigh(payload_of(key))
      elseif final == '1' or retries >= tonumber(max_retries) then
        word = 'FAILED ' .. at
        tell(events, id, tier, 'FAILED', attempt, cause)
        alarm(alarms, id, tier, 'FAILED', attempt, cause)
        redis.call('HSET', key, 'state', 'NEED_DISCARD', 'ended', at)
        live(tier, m[6], -1, bytes_of(key, m[9]))
        redis.call('ZADD', outbox, at, id)
        weigh(payload_of(key))
      elseif delay > 0 then
        word = 'OK ' .. at
        tell(events, id, tier, 'SCHEDULED', attempt, cause)
        alarm(alarms, id, tier, 'SCHEDULED', attempt, cause)
        redis.call('HSET', key, 'state', 'SCHEDULED', 'retries', text(retries + 1))
        redis.call('ZADD', scheduled, text(now + delay), id)
        count(tier, 'scheduled', 1)
      else
        word = 'OK ' .. at
        tell(events, id, tier, 'PENDING', attempt, cause)
        alarm(alarms, id, tier, 'PENDING', attempt, cause)
        redis.call('HSET', key, 'state', 'PENDING', 'retries', text(retries + 1))
        redis.call('ZADD', queue, score, id)
        count(tier, 'ready', 1)
        ring(doorbell)
      end
      redis.call('HSET', key, 'ending', 'fail ' .. word)
    end
  end
  reply[#reply + 1] = word
end

settle(counters, owners)
publish(events, at)
publish(alarms, at)
return reply
