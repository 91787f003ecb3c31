-- restore: puts in jobs that SQL has: living ones that Redis lost, and dead ones in their next life. It has no limit.
-- KEYS   queue scheduled beats maxtimes outbox counters owners clock doorbell job attempts events
-- ARGV   base not_after; per job: id generation tier priority max_retries arrived ('0' = now) about payload
--        attempt retries first due ('0' = at once) holder ('' = it waits) started
--        ending ('' = it goes on; CANCELLED = somebody was told so: it ends now, or a running one with its attempt)
-- REPLY  per job: OK | DUPLICATE (that generation, or a later one, is there) | BUSY (an earlier one lives) |
--        LATE (not_after has passed)
-- TWICE  the generation decides: one that is there answers DUPLICATE
-- A job that was running comes back as running, in the hands of its dead holder: the crashed watch takes it back and
-- counts the retry.
local queue, scheduled, beats, maxtimes, outbox, counters, owners, clock, doorbell, job, attempts, events = unpack(KEYS)
local base, not_after = tonumber(ARGV[1]), tonumber(ARGV[2])

local now = time_ms()
local last = tonumber(redis.call('GET', clock) or 0)
local ended = {COMPLETED = true, FAILED = true, CANCELLED = true}
local reply, ready, later, beat, maxtime = {}, {}, {}, {}, {}

-- known is the word for a job that is there; or nil, and the last attempt of an earlier life that has ended.
local function known(id, generation)
  local m = redis.call('HMGET', job .. id, 'head', 'state', 'attempt')
  if not m[1] then return nil end
  if tonumber(string.match(m[1], '^%S+ (%d+)') or generation) >= generation then return 'DUPLICATE' end
  if not ended[m[2]] or redis.call('ZSCORE', outbox, id) then return 'BUSY' end
  return nil, tonumber(m[3] or 0)
end

for i = 3, #ARGV, 15 do
  local id, generation, tier, priority, arrived = ARGV[i], ARGV[i + 1], ARGV[i + 2], tonumber(ARGV[i + 3]), tonumber(ARGV[i + 5])
  local attempt, retries, first, due = ARGV[i + 8], ARGV[i + 9], ARGV[i + 10], tonumber(ARGV[i + 11])
  local holder, started, ending = ARGV[i + 12], ARGV[i + 13], ARGV[i + 14]
  local cancelled = ending ~= ''
  local word, earlier = known(id, tonumber(generation))
  word = word or now > not_after and 'LATE' or 'OK'
  if word == 'OK' then
    redis.call('DEL', job .. id, attempts .. id) -- of an earlier life; removing first, a full Redis takes what follows
    if earlier then attempt = text(math.max(tonumber(attempt), earlier)) end
    if arrived == 0 then arrived = math.max(now, last) end
    last = math.max(last, arrived)
    local score = text(priority * base + arrived)
    local head = table.concat({tier, generation, ARGV[i + 4], text(arrived), score, ARGV[i + 6]}, ' ')
    redis.call('HSET', job .. id, 'head', head, 'payload', ARGV[i + 7])
    if attempt ~= '0' then redis.call('HSET', job .. id, 'attempt', attempt) end
    if retries ~= '0' then redis.call('HSET', job .. id, 'retries', retries) end
    if first ~= '0' then redis.call('HSET', job .. id, 'first', first, 'started', started) end
    if holder ~= '' or not cancelled then live(tier, head, 1, #ARGV[i + 7]) end
    local status = 'PENDING'
    if holder ~= '' then
      status = 'PROCESSING'
      redis.call('HSET', job .. id, 'token', holder .. ':0')
      if cancelled then redis.call('HSET', job .. id, 'cancel', '1') end
      beat[#beat + 1], beat[#beat + 2] = text(now), id
      maxtime[#maxtime + 1], maxtime[#maxtime + 2] = text(now + 3600000), id
      count(tier, 'running', 1)
    elseif cancelled then
      status = ending
      redis.call('HSET', job .. id, 'ended', text(now))
      redis.call('ZADD', outbox, text(now), id)
      weigh(payload_of(job .. id))
    elseif due > now then
      status = 'SCHEDULED'
      later[#later + 1], later[#later + 2] = text(due), id
      count(tier, 'scheduled', 1)
      if first == '0' then
        count(tier, 'delayed', 1)
        count(tier, 'delayedbytes', #ARGV[i + 7])
      end
    else
      ready[#ready + 1], ready[#ready + 2] = score, id
      count(tier, 'ready', 1)
      if first == '0' then count(tier, 'fresh', 1) end
    end
    if status ~= 'PENDING' then redis.call('HSET', job .. id, 'state', status) end
    tell(events, id, tier, status, attempt)
  end
  reply[#reply + 1] = word
end

bulk('ZADD', queue, ready)
bulk('ZADD', scheduled, later)
bulk('ZADD', beats, beat)
bulk('ZADD', maxtimes, maxtime)
if last > 0 then redis.call('SET', clock, text(last)) end
settle(counters, owners)
publish(events, text(now))
if #ready > 0 then ring(doorbell) end
return reply
