-- complete: the holder reports success; the outcome waits in the outbox until SQL has it.
-- KEYS   beats maxtimes outbox counters job
-- ARGV   lead_ms; per lease: id attempt token result
-- REPLY  per lease: OK ended | CANCELLED ended (a cancel had been asked for) | LOST (not the stored lease; nothing changed)
-- TWICE  the ending is kept with its token: the same again answers the same
-- A first attempt is written to SQL by the process that completes it, from memory: the outbox gives it lead_ms for that.
local beats, maxtimes, outbox, counters, job = unpack(KEYS)
local lead = tonumber(ARGV[1])
local now = time_ms()
local ended = text(now)
local reply, off, out, bytes = {}, {}, {}, 0

for i = 2, #ARGV, 4 do
  local id, attempt, token, result = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  local m = redis.call('HMGET', job .. id, 'state', 'attempt', 'token', 'ending', 'cancel', 'head')
  local word = 'LOST'
  if m[2] == attempt and m[3] == token then
    if m[4] then
      word = string.match(m[4], '^complete (.+)$') or 'LOST'
    elseif m[1] == 'PROCESSING' and redis.call('ZREM', beats, id) == 1 then
      local tier = parse(m[6])
      off[#off + 1] = id
      if m[5] then
        word = 'CANCELLED ' .. ended
        redis.call('HSET', job .. id, 'state', 'CANCELLED', 'ended', ended, 'ending', 'complete ' .. word)
      else
        word = 'OK ' .. ended
        redis.call('HSET', job .. id, 'state', 'COMPLETED', 'ended', ended, 'ending', 'complete ' .. word, 'result', result)
        bytes = bytes + #result
      end
      out[#out + 1], out[#out + 2] = (attempt == '1' and not m[5]) and text(now + lead) or ended, id
      count(tier, 'running', -1)
    end
  end
  reply[#reply + 1] = word
end

bulk('ZREM', maxtimes, off)
bulk('ZADD', outbox, out)
if bytes > 0 then redis.call('HINCRBY', counters, 'outbox_bytes', text(bytes)) end
settle(counters)
return reply
