-- claim: hands the best ready jobs to one process, as leases.
-- KEYS   queue beats maxtimes counters claims doorbell quarantine job events
-- ARGV   nonce number max bound max_bytes; per tier: tier heartbeat_ms maxtime_ms ('*' = any other tier)
-- REPLY  next (score of the best job left, or ''); per lease: id head payload counts ('attempt retries first started', and due of a job that was delayed) checkpoint | EMPTY
-- TWICE  the number of the process' last claim answers the same leases, a lower one EMPTY
local queue, beats, maxtimes, counters, claims, doorbell, quarantine, job, events = unpack(KEYS)
local nonce, number, max, bound, max_bytes = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])
local token = nonce .. ':' .. number

local last = redis.call('HMGET', claims, 'number', 'ids')
if last[1] and tonumber(number) < tonumber(last[1]) then return {'EMPTY'} end

local reply, best = {''}, nil
local plain -- the counts of a first attempt that starts now, which most are
local function hand_out(id, head, payload, attempt, retries, first, started, checkpoint, due)
  local n = #reply
  local counts = attempt == '1' and not retries and first == started and not due and plain
  counts = counts or table.concat({attempt, retries or '0', first or '0', started or '0', due or nil}, ' ')
  reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4], reply[n + 5] = id, head, payload, counts, checkpoint or ''
end

if last[1] == number then
  best = redis.call('ZRANGE', queue, '0', '0')[1]
  for id in string.gmatch(last[2], '%S+') do
    local m = redis.call('HMGET', job .. id, 'head', 'payload', 'attempt', 'retries', 'first', 'started', 'state', 'token', 'checkpoint', 'due')
    if m[7] == 'PROCESSING' and m[8] == token then hand_out(id, m[1], m[2], m[3], m[4], m[5], m[6], m[9], m[3] == '1' and m[10]) end
  end
else
  local plans = {}
  local now = time_ms()
  for i = 6, #ARGV, 3 do plans[ARGV[i]] = {text(now + ARGV[i + 1]), text(now + ARGV[i + 2])} end
  local started, loud = text(now), listened(events)
  local bytes, ids, found, beat, maxtime = 0, {}, {}, {}, {}
  plain = '1 0 ' .. started .. ' ' .. started
  local ready = redis.call('ZRANGEBYSCORE', queue, '-inf', bound, 'LIMIT', '0', text(max + 1))
  best = ready[1]
  for i = 1, math.min(#ready, max) do
    local id = ready[i]
    local m = redis.call('HMGET', job .. id, 'head', 'payload', 'attempt', 'retries', 'first', 'state', 'checkpoint')
    m.tier = m[1] and parse(m[1])
    if not m.tier or not m[2] or (m[6] and m[6] ~= 'PENDING') then
      redis.call('ZREM', queue, id)
      redis.call('ZADD', quarantine, started, id)
    else
      bytes = bytes + #m[2]
      if bytes > max_bytes and #ids > 0 then break end
      ids[#ids + 1], found[id] = id, m
    end
    best = ready[i + 1]
  end
  bulk('ZREM', queue, ids)
  if not best and bound ~= '+inf' then best = redis.call('ZRANGE', queue, '0', '0')[1] end
  for _, id in ipairs(ids) do
    local m = found[id]
    local plan = plans[m.tier] or plans['*']
    local attempt = m[3] and text(m[3] + 1) or '1'
    local first = m[5] or started
    redis.call('HSET', job .. id, 'state', 'PROCESSING', 'attempt', attempt, 'first', first, 'started', started, 'token', token)
    if m[3] then redis.call('HDEL', job .. id, 'ending') end
    beat[#beat + 1], beat[#beat + 2] = plan[1], id
    maxtime[#maxtime + 1], maxtime[#maxtime + 2] = plan[2], id
    count(m.tier, 'ready', -1)
    count(m.tier, 'running', 1)
    if not m[5] then count(m.tier, 'fresh', -1) end
    if loud then tell(events, id, m.tier, 'PROCESSING', attempt) end
    local due = not m[5] and m[6] and redis.call('HGET', job .. id, 'due')
    hand_out(id, m[1], m[2], attempt, m[4], first, started, m[7], due)
  end
  bulk('ZADD', beats, beat)
  bulk('ZADD', maxtimes, maxtime)
  redis.call('DEL', claims) -- removing first: a claim that finds nothing works on a full Redis too
  redis.call('HSET', claims, 'number', number, 'ids', table.concat(ids, ' '))
  settle(counters)
  publish(events, started)
end

redis.call('PEXPIRE', claims, 60000)
if best then
  reply[1] = redis.call('ZSCORE', queue, best)
  ring(doorbell)
end
return reply
