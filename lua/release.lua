-- release: the holder gives the job back unharmed, to its place or, with a delay, to scheduled ("later"); no retry is spent, unless it was often later, or for long.
-- KEYS   beats maxtimes queue scheduled outbox counters owners doorbell job attempts events alarms
-- ARGV   most (how often a generation may be later; 0 = any number) longest_ms (after its first attempt; 0 = for ever); per lease: id attempt token delay_ms reason (why a delay was asked for, for the history)
-- REPLY  per lease: OK at | FAILED at (later beyond a bound, and no retry is left) | CANCELLED at (a cancel had been asked for) | LOST (not the stored lease; nothing changed)
-- TWICE  the ending is kept with its token: the same again answers the same
local beats, maxtimes, queue, scheduled, outbox, counters, owners, doorbell, job, attempts, events, alarms = unpack(KEYS)
local most, longest = tonumber(ARGV[1]), tonumber(ARGV[2])
local now = time_ms()
local at = text(now)
local reply = {}

-- later_bound says which bound of "later" an attempt is beyond; nil = none.
local function later_bound(first, laters, delay)
  if most > 0 and laters >= most then return 'later more than ' .. text(most) .. ' times' end
  local age = now + delay - tonumber(first or now)
  if longest > 0 and age > longest then return 'later than ' .. text(math.floor(longest / 1000)) .. ' s after its first attempt' end
  return nil
end

for i = 3, #ARGV, 5 do
  local id, attempt, token, delay, reason = ARGV[i], ARGV[i + 1], ARGV[i + 2], tonumber(ARGV[i + 3]), ARGV[i + 4]
  local kind = delay > 0 and 'later' or 'release'
  local key = job .. id
  local m = redis.call('HMGET', key, 'state', 'attempt', 'token', 'ending', 'cancel', 'head', 'started', 'retries', 'first', 'laters', 'saved')
  local word = 'LOST'
  if m[2] == attempt and m[3] == token then
    if m[4] then
      word = string.match(m[4], '^' .. kind .. ' (.+)$') or 'LOST'
    elseif m[1] == 'PROCESSING' and m[6] and redis.call('ZREM', beats, id) == 1 then
      redis.call('ZREM', maxtimes, id)
      local tier, _, max_retries, _, score = parse(m[6])
      local retries, laters = tonumber(m[8] or 0), tonumber(m[10] or 0)
      local beyond = delay > 0 and not m[5] and later_bound(m[9], laters, delay)
      word = 'OK ' .. at
      count(tier, 'running', -1)
      local outcome, why = m[5] and 'CANCELLED' or beyond and 'LATER_LIMIT' or delay > 0 and 'LATER' or 'RELEASED', ''
      if outcome == 'LATER' then why = text(now + delay) .. ' ' .. reason end
      if beyond then why = string.sub(beyond .. ': ' .. reason, 1, 2048) end
      remember(attempts .. id, attempt, m[7], at, outcome, token, why)
      if m[5] then
        word = 'CANCELLED ' .. at
        tell(events, id, tier, 'CANCELLED', attempt)
        redis.call('HSET', key, 'state', 'CANCELLED', 'ended', at)
        live(tier, m[6], -1, bytes_of(key, m[11]))
        redis.call('ZADD', outbox, at, id)
        weigh(payload_of(key))
      elseif beyond and retries >= tonumber(max_retries) then
        word = 'FAILED ' .. at
        redis.call('HSET', key, 'state', 'NEED_DISCARD', 'ended', at, 'cause', 'LATER_LIMIT', 'error', why)
        tell(events, id, tier, 'FAILED', attempt, 'LATER_LIMIT')
        alarm(alarms, id, tier, 'FAILED', attempt, 'LATER_LIMIT')
        live(tier, m[6], -1, bytes_of(key, m[11]))
        redis.call('ZADD', outbox, at, id)
        weigh(payload_of(key))
      elseif delay > 0 then
        if beyond then
          redis.call('HSET', key, 'state', 'SCHEDULED', 'retries', text(retries + 1), 'cause', 'LATER_LIMIT', 'error', why)
        else
          redis.call('HSET', key, 'state', 'SCHEDULED', 'laters', text(laters + 1))
        end
        tell(events, id, tier, 'SCHEDULED', attempt, beyond and 'LATER_LIMIT' or nil)
        redis.call('ZADD', scheduled, text(now + delay), id)
        count(tier, 'scheduled', 1)
      else
        redis.call('HSET', key, 'state', 'PENDING')
        tell(events, id, tier, 'PENDING', attempt)
        redis.call('ZADD', queue, score, id)
        count(tier, 'ready', 1)
        ring(doorbell)
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
