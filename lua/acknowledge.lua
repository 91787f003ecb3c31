-- acknowledge: SQL has these outcomes: they leave the outbox, shed what SQL now answers for, and get a time to live.
-- KEYS   outbox counters job attempts
-- ARGV   per job: id said ('generation attempt outcome ttl_ms known', ttl 0 = forget at once; known true = SQL had an outcome before, so the result is SQL's to tell)
-- REPLY  per job: OK | EMPTY (not in the outbox with these numbers; nothing changed)
-- TWICE  what has left the outbox answers EMPTY
local outbox, counters, job, attempts = unpack(KEYS)
local reply, off, ends = {}, {}, {}

local sayings = {} -- a call's jobs mostly ended alike
local function read(said)
  local generation, attempt, outcome, ttl, known = string.match(said, '^(%d+) (%d+) (%S+) (%d+) (%a+)$')
  sayings[said] = {generation = generation, attempt = attempt, outcome = outcome, ttl = ttl, known = known == 'true'}
  return sayings[said]
end

local ids = {}
for i = 1, #ARGV, 2 do ids[#ids + 1] = ARGV[i] end
local waits = scores(outbox, ids)

for i = 1, #ARGV, 2 do
  local id, said = ARGV[i], sayings[ARGV[i + 1]] or read(ARGV[i + 1])
  local generation, attempt = said.generation, said.attempt
  local m = redis.call('HMGET', job .. id, 'head', 'attempt', 'state', 'result')
  local word = 'EMPTY'
  if m[1] and (m[2] or '0') == attempt then
    if string.match(m[1], '^%S+ (%d+)') == generation and waits[id] then
      word = 'OK'
      off[#off + 1], waits[id] = id, nil
      m.said = said
      ends[#off] = m
    end
  end
  reply[#reply + 1] = word
end

bulk('ZREM', outbox, off)
for i, id in ipairs(off) do
  local key = job .. id
  local m = ends[i]
  local attempt, outcome, ttl = m.said.attempt, m.said.outcome, m.said.ttl
  weigh(-#(m[4] or ''))
  if m[3] ~= 'COMPLETED' then weigh(-payload_of(key)) end
  if attempt ~= '1' or m[3] ~= 'COMPLETED' then redis.call('DEL', attempts .. id) end
  if ttl == '0' then
    redis.call('DEL', key)
  else
    redis.call('HDEL', key, 'payload', 'saved', 'checkpoint')
    if m[4] and (#m[4] > 1024 or outcome ~= 'COMPLETED' or m.said.known) then redis.call('HDEL', key, 'result') end
    if m[3] ~= outcome then redis.call('HSET', key, 'state', outcome) end
    redis.call('PEXPIRE', key, ttl)
  end
end

settle(counters)
if #off > 0 then redis.call('HINCRBY', counters, 'acknowledged', text(#off)) end
return reply
