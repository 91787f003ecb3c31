-- requeue: gives dead jobs a new life: the next generation, with a fresh retry budget and a new arrival. Counted, never refused.
-- KEYS   queue outbox counters owners clock doorbell job attempts events
-- ARGV   base not_after; per job: id generation attempt tier priority max_retries about payload
-- REPLY  per job: OK | DUPLICATE (that generation exists) | BUSY (the old one lives, or is not in SQL yet) | LATE (not_after has passed)
-- TWICE  the generation decides: one that exists answers DUPLICATE
local queue, outbox, counters, owners, clock, doorbell, job, attempts, events = unpack(KEYS)
local base, not_after = tonumber(ARGV[1]), tonumber(ARGV[2])

local living = {PENDING = true, SCHEDULED = true, PROCESSING = true, NEED_DISCARD = true}
local now = time_ms()
local arrived = math.max(now, tonumber(redis.call('GET', clock) or 0))
local reply, ready = {}, {}

for i = 3, #ARGV, 8 do
  local id, generation, attempt, tier, priority = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2]), ARGV[i + 3], tonumber(ARGV[i + 4])
  local key = job .. id
  local m = redis.call('HMGET', key, 'head', 'state', 'attempt')
  local known = 0
  if m[1] then
    local _, g = parse(m[1])
    known = tonumber(g)
  end
  local word = 'OK'
  if known >= tonumber(generation) then
    word = 'DUPLICATE'
  elseif m[1] and (living[m[2] or 'PENDING'] or redis.call('ZSCORE', outbox, id)) then
    word = 'BUSY'
  elseif now > not_after then
    word = 'LATE'
  else
    local score = text(priority * base + arrived)
    local head = table.concat({tier, generation, ARGV[i + 5], text(arrived), score, ARGV[i + 6]}, ' ')
    redis.call('DEL', key, attempts .. id)
    redis.call('HSET', key, 'head', head, 'payload', ARGV[i + 7], 'attempt', text(math.max(attempt, tonumber(m[3] or 0))))
    ready[#ready + 1], ready[#ready + 2] = score, id
    live(tier, head, 1, #ARGV[i + 7])
    count(tier, 'ready', 1)
    count(tier, 'fresh', 1)
    tell(events, id, tier, 'PENDING', text(math.max(attempt, tonumber(m[3] or 0))))
  end
  reply[#reply + 1] = word
end

if #ready > 0 then
  bulk('ZADD', queue, ready)
  redis.call('SET', clock, text(arrived))
  settle(counters, owners)
  publish(events, text(now))
  ring(doorbell)
end
return reply
