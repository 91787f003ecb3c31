-- acknowledge: SQL has these outcomes: they leave the outbox, shed what SQL now answers for, and get a time to live.
-- KEYS   outbox counters job attempts
-- ARGV   per job: id generation attempt outcome ttl_ms (0 = forget at once)
-- REPLY  per job: OK | EMPTY (not in the outbox with these numbers; nothing changed)
-- TWICE  what has left the outbox answers EMPTY
local outbox, counters, job, attempts = unpack(KEYS)
local reply, acknowledged = {}, 0

for i = 1, #ARGV, 5 do
  local id, generation, attempt, outcome, ttl = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]
  local key = job .. id
  local m = redis.call('HMGET', key, 'head', 'attempt', 'state', 'result')
  local word = 'EMPTY'
  if m[1] and (m[2] or '0') == attempt then
    if string.match(m[1], '^%S+ (%d+)') == generation and redis.call('ZREM', outbox, id) == 1 then
      word = 'OK'
      acknowledged = acknowledged + 1
      weigh(-#(m[4] or ''))
      if m[3] ~= 'COMPLETED' then weigh(-payload_of(key)) end
      if attempt ~= '1' or m[3] ~= 'COMPLETED' then redis.call('DEL', attempts .. id) end
      if ttl == '0' then
        redis.call('DEL', key)
      else
        redis.call('HDEL', key, 'payload', 'saved', 'checkpoint')
        if m[4] and (#m[4] > 1024 or outcome ~= 'COMPLETED') then redis.call('HDEL', key, 'result') end
        if m[3] ~= outcome then redis.call('HSET', key, 'state', outcome) end
        redis.call('PEXPIRE', key, ttl)
      end
    end
  end
  reply[#reply + 1] = word
end

settle(counters)
if acknowledged > 0 then redis.call('HINCRBY', counters, 'acknowledged', text(acknowledged)) end
return reply
