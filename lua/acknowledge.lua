-- acknowledge: SQL has these outcomes: the jobs leave the outbox, lose the fields that SQL answers for now, and get a
--        time to live.
-- KEYS   outbox counters job attempts
-- per job (n = 1, 3, ...):
-- ARGV[n+0] id: the job
-- ARGV[n+1] ack_info: 'generation attempt outcome ttl_ms known'; ttl_ms 0 = forget the job at once; known 'true' = SQL
--        had an outcome before, so readers get the result from SQL and Redis drops it | 'false'
-- REPLY  per job: OK | EMPTY (not in the outbox with these numbers; nothing changed)
-- TWICE  a job that has left the outbox answers EMPTY
local outbox, counters, job, attempts = unpack(KEYS)
local reply, acknowledged, hashes = {}, {}, {}

-- read_ack_info parses an ack_info once per call: most jobs of a call ended alike.
local ack_infos = {} -- ack_info as text -> its parts
local function read_ack_info(ack_info)
  local generation, attempt, outcome, ttl, known = string.match(ack_info, '^(%d+) (%d+) (%S+) (%d+) (%a+)$')
  ack_infos[ack_info] = {
    generation = generation, attempt = attempt, outcome = outcome, ttl = ttl, known = known == 'true',
  }
  return ack_infos[ack_info]
end

local ids = {}
for i = 1, #ARGV, 2 do ids[#ids + 1] = ARGV[i] end
local outbox_scores = scores(outbox, ids)

for i = 1, #ARGV, 2 do
  local id, ack_info = ARGV[i], ack_infos[ARGV[i + 1]] or read_ack_info(ARGV[i + 1])
  local generation, attempt = ack_info.generation, ack_info.attempt
  local m = redis.call('HMGET', job .. id, 'head', 'attempt', 'state', 'result')
  local head, stored_attempt = m[1], m[2] or '0'
  local word = 'EMPTY'
  if head and stored_attempt == attempt then
    if string.match(head, '^%S+ (%d+)') == generation and outbox_scores[id] then
      word = 'OK'
      acknowledged[#acknowledged + 1], outbox_scores[id] = id, nil
      m.ack_info = ack_info
      hashes[#acknowledged] = m
    end
  end
  reply[#reply + 1] = word
end

bulk('ZREM', outbox, acknowledged)
for i, id in ipairs(acknowledged) do
  local key = job .. id
  local m = hashes[i]
  local state, result, ack_info = m[3], m[4], m.ack_info
  local attempt, outcome, ttl = ack_info.attempt, ack_info.outcome, ack_info.ttl
  add_outbox_bytes(-#(result or ''))
  if state ~= 'COMPLETED' then add_outbox_bytes(-payload_bytes(key)) end
  if attempt ~= '1' or state ~= 'COMPLETED' then redis.call('DEL', attempts .. id) end
  if ttl == '0' then
    redis.call('DEL', key)
  else
    redis.call('HDEL', key, 'payload', 'saved', 'checkpoint')
    local sql_answers = outcome ~= 'COMPLETED' or ack_info.known
    if result and (#result > 1024 or sql_answers) then redis.call('HDEL', key, 'result') end
    if state ~= outcome then redis.call('HSET', key, 'state', outcome) end
    redis.call('PEXPIRE', key, ttl)
  end
end

write_counters(counters)
if #acknowledged > 0 then redis.call('HINCRBY', counters, 'acknowledged', text(#acknowledged)) end
return reply
