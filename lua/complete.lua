-- complete: the holder reports success; the outcome waits in the outbox until SQL has it.
-- KEYS   beats maxtimes outbox counters owners job events
-- ARGV   lead_ms; per lease: id attempt token result
-- REPLY  per lease: OK ended | CANCELLED ended (a cancel had been asked for) | LOST (not the stored lease; nothing changed)
-- TWICE  the ending is kept with its token: the same again answers the same
-- A first attempt is written to SQL by the process that completes it, from memory: the outbox gives it lead_ms for that. Nobody needs the
-- payload of a job that went well, so it does not wait for SQL in Redis' memory.
local beats, maxtimes, outbox, counters, owners, job, events = unpack(KEYS)
local lead = tonumber(ARGV[1])
local now = time_ms()
local ended, due = text(now), text(now + lead)
local reply, ending, off, out = {}, {}, {}, {}
local loud = listened(events)

local ends = {} -- where in ARGV the leases stand that this call ends
for i = 2, #ARGV, 4 do
  local id, attempt, token = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local m = redis.call('HMGET', job .. id, 'state', 'attempt', 'token', 'ending', 'cancel', 'head', 'saved')
  local word = 'LOST'
  if m[2] == attempt and m[3] == token then
    if m[4] then
      word = string.match(m[4], '^complete (.+)$') or 'LOST'
    elseif ending[id] then
      word = ending[id]
    elseif m[1] == 'PROCESSING' and m[6] then
      word = (m[5] and 'CANCELLED ' or 'OK ') .. ended
      ending[id] = word
      ends[#ends + 1], off[#off + 1] = i, id
      out[#out + 1], out[#out + 2] = (attempt == '1' and not m[5]) and due or ended, id
      local tier = tier_of(m[6])
      count(tier, 'running', -1)
      live(tier, m[6], -1, bytes_of(job .. id, m[7]))
      if loud then tell(events, id, tier, m[5] and 'CANCELLED' or 'COMPLETED', attempt) end
    end
  end
  reply[#reply + 1] = word
end

bulk('ZREM', beats, off)
bulk('ZREM', maxtimes, off)
for _, i in ipairs(ends) do
  local id, result = ARGV[i], ARGV[i + 3]
  local word = ending[id]
  if string.sub(word, 1, 2) == 'OK' then
    redis.call('HSET', job .. id, 'state', 'COMPLETED', 'ended', ended, 'ending', 'complete ' .. word, 'result', result, 'payload', '')
    weigh(#result)
  else
    redis.call('HSET', job .. id, 'state', 'CANCELLED', 'ended', ended, 'ending', 'complete ' .. word)
    weigh(payload_of(job .. id))
  end
end
bulk('ZADD', outbox, out)
settle(counters, owners)
publish(events, ended)
return reply
