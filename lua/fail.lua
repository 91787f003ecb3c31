-- fail: the holder ends an attempt without a result: it failed and costs a retry, or the job goes back unharmed.
-- KEYS   beats maxtimes queue scheduled outbox counters owners doorbell job attempts events alarms
-- ARGV   most (how often a generation may be later; 0 = any number)
--        longest_ms (how long after its first attempt it may be; 0 = for ever);
--        per lease: id attempt token
--        kind (fail; release; later = release with a delay) cause why (the error, or why later) final delay_ms
-- REPLY  per lease: OK at (it waits again) | FAILED at (no retry is left) |
--        CANCELLED at (a cancel had been asked for) | LOST (not the stored lease; nothing changed)
-- TWICE  the ending is kept with its token: the same again answers the same
-- A later beyond one of its bounds costs a retry, as a failure with the cause LATER_LIMIT does.
local beats, maxtimes, queue, scheduled, outbox, counters, owners, doorbell, job, attempts, events, alarms = unpack(KEYS)
local most, longest = tonumber(ARGV[1]), tonumber(ARGV[2])
local now = time_ms()
local at = text(now)
local reply = {}

-- later_bound says which bound of "later" an attempt is beyond; nil = none.
local function later_bound(first, laters, delay)
  if most > 0 and laters >= most then return 'later more than ' .. text(most) .. ' times' end
  local age = now + delay - tonumber(first or now)
  if longest > 0 and age > longest then
    return 'later than ' .. text(math.floor(longest / 1000)) .. ' s after its first attempt'
  end
  return nil
end

for i = 3, #ARGV, 8 do
  local id, attempt, token, kind = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  local cause, why, final, delay = ARGV[i + 4], ARGV[i + 5], ARGV[i + 6], tonumber(ARGV[i + 7])
  local key = job .. id
  local m = redis.call('HMGET', key, 'state', 'attempt', 'token', 'ending', 'cancel', 'head', 'retries', 'started',
    'saved', 'first', 'laters')
  local word = 'LOST'
  if m[2] == attempt and m[3] == token then
    if m[4] then
      word = string.match(m[4], '^' .. kind .. ' (.+)$') or 'LOST'
    elseif m[1] == 'PROCESSING' and m[6] and redis.call('ZREM', beats, id) == 1 then
      redis.call('ZREM', maxtimes, id)
      local tier, _, max_retries, _, score = parse(m[6])
      local retries, laters = tonumber(m[7] or 0), tonumber(m[11] or 0)
      local beyond = kind == 'later' and later_bound(m[10], laters, delay)
      if m[5] then
        cause, why = 'CANCELLED', ''
      elseif beyond then
        cause, why = 'LATER_LIMIT', string.sub(beyond .. ': ' .. why, 1, 2048)
      elseif kind == 'later' then
        cause, why = 'LATER', text(now + delay) .. ' ' .. why
      elseif kind == 'release' then
        cause, why = 'RELEASED', ''
      end
      local costs = not m[5] and (kind == 'fail' or beyond) -- a retry
      count(tier, 'running', -1)
      remember(attempts .. id, attempt, m[8], at, cause, token, why)
      if costs then redis.call('HSET', key, 'cause', cause, 'error', why) end
      if m[5] then
        word = 'CANCELLED ' .. at
        finish(outbox, key, id, tier, m[6], m[9], 'CANCELLED', at)
        tell(events, id, tier, 'CANCELLED', attempt)
      elseif costs and (final == '1' or retries >= tonumber(max_retries)) then
        word = 'FAILED ' .. at
        finish(outbox, key, id, tier, m[6], m[9], 'NEED_DISCARD', at)
        tell(events, id, tier, 'FAILED', attempt, cause)
        alarm(alarms, id, tier, 'FAILED', attempt, cause)
      else
        word = 'OK ' .. at
        local state = delay > 0 and 'SCHEDULED' or 'PENDING'
        redis.call('HSET', key, 'state', state)
        if costs then
          redis.call('HSET', key, 'retries', text(retries + 1))
        elseif kind == 'later' then
          redis.call('HSET', key, 'laters', text(laters + 1))
        end
        if delay > 0 then
          redis.call('ZADD', scheduled, text(now + delay), id)
          count(tier, 'scheduled', 1)
        else
          redis.call('ZADD', queue, score, id)
          count(tier, 'ready', 1)
          ring(doorbell)
        end
        tell(events, id, tier, state, attempt, costs and cause or nil)
        if costs then alarm(alarms, id, tier, state, attempt, cause) end
      end
      redis.call('HSET', key, 'ending', kind .. ' ' .. word)
    end
  end
  reply[#reply + 1] = word
end

settle(counters, owners)
publish(events, at)
publish(alarms, at)
return reply
