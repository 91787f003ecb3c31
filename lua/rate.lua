-- rate: takes requests from the rates of callers: GCRA, the cell rate algorithm of ITU-T I.371, as "virtual scheduling".
-- KEYS   rate
-- ARGV   per request: bucket period_us burst n
-- REPLY  per request: OK remaining reset_us | FULL remaining reset_us retry_us (nothing was taken; -1: n is more than burst, and never passes)
-- TWICE  it counts twice, and is the only one that does: a call whose answer is lost counts as taken, and is not sent again
-- A bucket is one number, the time at which it is empty: each request moves it by one period, and it may be at most burst periods ahead of now. It
-- is kept until then, for an empty bucket and none are the same. Requests of one bucket in one call are taken one after the other.
local rate = unpack(KEYS)
local now = time_us()
local reply, level, taken = {}, {}, {} -- by bucket: how far ahead of now it is, in us; whether this call took of it

for i = 1, #ARGV, 4 do
  local bucket, period, burst, n = ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3])
  local key = rate .. bucket
  local room = burst * period
  local ahead = level[bucket] or (tonumber(string.match(redis.call('GET', key) or '', '^%d+$') or 0) or 0) - now
  -- More than room is what a clock that stepped back, or another rate, leaves: the bucket is full, and empties from now on.
  ahead = math.min(math.max(ahead, 0), room)
  local word = 'OK'
  if ahead + n * period <= room + 1 then -- 1: what rounding may have added
    ahead = ahead + n * period
    taken[bucket] = taken[bucket] or n > 0
  else
    word = 'FULL'
  end
  level[bucket] = ahead
  local remaining = math.max(math.floor((room + 1 - ahead) / period), 0)
  local said = {word, text(remaining), text(math.ceil(ahead))}
  if word == 'FULL' then said[4] = n > burst and '-1' or text(math.ceil(ahead + n * period - room)) end
  reply[#reply + 1] = table.concat(said, ' ')
end

for bucket, took in pairs(taken) do
  local key = rate .. bucket
  local ahead = math.ceil(level[bucket])
  if took then redis.call('SET', key, text(now + ahead), 'PX', text(math.ceil(ahead / 1000))) end
end
return reply
