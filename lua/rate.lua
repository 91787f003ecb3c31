-- rate: takes requests from the rates of callers: GCRA, the cell rate algorithm of ITU-T I.371, as "virtual
--        scheduling".
-- KEYS   rate
-- per request (n = 1, 5, ...):
-- ARGV[n+0] bucket: whose rate it is
-- ARGV[n+1] period_us: the time after which the bucket takes one request more
-- ARGV[n+2] burst: how many requests the empty bucket takes at once
-- ARGV[n+3] requests: how many to take | 0 only look
-- REPLY  per request: OK remaining reset_us | FULL remaining reset_us retry_us (nothing was taken; -1: more requests
--        than burst, which never pass)
-- TWICE  the script counts twice, as the only one: a call whose answer is lost counts as taken, and is not sent again
-- A bucket is one number, the time at which it is empty. Each request moves that time by one period, and the time is at
-- most burst periods ahead of now. Redis keeps the key until then, because an empty bucket and no bucket are the same.
-- Requests of one bucket in one call are taken one after the other.
local rate = unpack(KEYS)
local now = time_us()
local reply = {}
local levels, changed = {}, {} -- bucket -> how far ahead of now it is, in us; bucket -> whether the call changes it

for i = 1, #ARGV, 4 do
  local bucket, period, burst = ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
  local requests = tonumber(ARGV[i + 3])
  local key = rate .. bucket
  local highest = burst * period
  local ahead = levels[bucket] or (tonumber(string.match(redis.call('GET', key) or '', '^%d+$') or 0) or 0) - now
  -- A clock that stepped back, or another rate before, may leave more than highest: the bucket is then full, and
  -- empties from now on. It is written also if it refuses: else it would be as full at the next request.
  local is_beyond = ahead > highest + 1
  ahead = math.min(math.max(ahead, 0), highest)
  local word = 'OK'
  if ahead + requests * period <= highest + 1 then -- 1: what rounding may have added
    ahead = ahead + requests * period
    changed[bucket] = changed[bucket] or requests > 0
  else
    word = 'FULL'
    changed[bucket] = changed[bucket] or is_beyond and requests > 0
  end
  levels[bucket] = ahead
  local remaining = math.max(math.floor((highest + 1 - ahead) / period), 0)
  local answer = {word, text(remaining), text(math.ceil(ahead))}
  if word == 'FULL' then
    answer[4] = requests > burst and '-1' or text(math.ceil(ahead + requests * period - highest))
  end
  reply[#reply + 1] = table.concat(answer, ' ')
end

for bucket, has_changed in pairs(changed) do
  local key = rate .. bucket
  local ahead = math.ceil(levels[bucket])
  if has_changed then redis.call('SET', key, text(now + ahead), 'PX', text(math.ceil(ahead / 1000))) end
end
return reply
