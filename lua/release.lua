-- release: the holder gives the job back unharmed, to its place or, with a delay, to scheduled ("later"); no retry is spent.
-- KEYS   beats maxtimes queue scheduled outbox counters owners doorbell job attempts events
-- ARGV   per lease: id attempt token delay_ms reason (why a delay was asked for, for the history)
-- REPLY  per lease: OK at | CANCELLED at (a cancel had been asked for) | LOST (not the stored lease; nothing changed)
-- TWICE  the ending is kept with its token: the same again answers the same
local beats, maxtimes, queue, scheduled, outbox, counters, owners, doorbell, job, attempts, events = unpack(KEYS)
local now = time_ms()
local at = text(now)
local reply = {}

for i = 1, #ARGV, 5 do
  local id, attempt, token, delay, reason = ARGV[i], ARGV[i + 1], ARGV[i + 2], tonumber(ARGV[i + 3]), ARGV[i + 4]
  local kind = delay > 0 and 'later' or 'release'
  local key = job .. id
  local m = redis.call('HMGET', key, 'state', 'attempt', 'token', 'ending', 'cancel', 'head', 'started')
  local word = 'LOST'
  if m[2] == attempt and m[3] == token then
    if m[4] then
      word = string.match(m[4], '^' .. kind .. ' (.+)$') or 'LOST'
    elseif m[1] == 'PROCESSING' and m[6] and redis.call('ZREM', beats, id) == 1 then
      redis.call('ZREM', maxtimes, id)
      local tier, _, _, _, score = parse(m[6])
      word = 'OK ' .. at
      count(tier, 'running', -1)
      local outcome, why = m[5] and 'CANCELLED' or delay > 0 and 'LATER' or 'RELEASED', ''
      if outcome == 'LATER' then why = text(now + delay) .. ' ' .. reason end
      remember(attempts .. id, attempt, m[7], at, outcome, token, why)
      if m[5] then
        word = 'CANCELLED ' .. at
        tell(events, id, tier, 'CANCELLED', attempt)
        redis.call('HSET', key, 'state', 'CANCELLED', 'ended', at)
        own(m[6], -1)
        redis.call('ZADD', outbox, at, id)
        weigh(payload_of(key))
      elseif delay > 0 then
        redis.call('HSET', key, 'state', 'SCHEDULED')
        tell(events, id, tier, 'SCHEDULED', attempt)
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
return reply
