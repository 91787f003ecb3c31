-- complete: the holder reports success; the outcome waits in the outbox until SQL has it.
-- KEYS   heartbeat_deadlines run_deadlines outbox counters owners job events
-- ARGV[1] lead_ms: how long the outbox keeps a first attempt from other processes
-- per lease (n = 2, 6, ...):
-- ARGV[n+0] id: the job
-- ARGV[n+1] attempt: of the lease
-- ARGV[n+2] token: of the lease
-- ARGV[n+3] result: JSON
-- REPLY  per lease: OK ended | CANCELLED ended (a cancel had been asked for) | LOST (not the stored lease; nothing
--        changed)
-- TWICE  the job keeps the ending with the lease's token: the same report again gets the same answer
-- The process that completes a first attempt writes it to SQL from memory: lead_ms is its time for that. Nobody needs
-- the payload of a completed job, so the payload does not wait for SQL in Redis' memory.
local heartbeat_deadlines, run_deadlines, outbox, counters, owners, job, events = unpack(KEYS)
local lead = tonumber(ARGV[1])
local now = time_ms()
local ended, after_lead = text(now), text(now + lead)
local reply, answers, ended_ids, outbox_entries = {}, {}, {}, {}
local events_wanted = has_listeners(events)

local positions = {} -- where in ARGV the leases begin that this call ends
for i = 2, #ARGV, 4 do
  local id, attempt, token = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local m = redis.call('HMGET', job .. id, 'state', 'attempt', 'token', 'ending', 'cancel', 'head', 'saved')
  local state, stored_attempt, stored_token, ending, cancel, head, saved = m[1], m[2], m[3], m[4], m[5], m[6], m[7]
  local word = 'LOST'
  if stored_attempt == attempt and stored_token == token then
    if ending then
      word = string.match(ending, '^complete (.+)$') or 'LOST'
    elseif answers[id] then
      word = answers[id]
    elseif state == 'PROCESSING' and head then
      word = (cancel and 'CANCELLED ' or 'OK ') .. ended
      answers[id] = word
      positions[#positions + 1], ended_ids[#ended_ids + 1] = i, id
      local visible = (attempt == '1' and not cancel) and after_lead or ended
      outbox_entries[#outbox_entries + 1], outbox_entries[#outbox_entries + 2] = visible, id
      local tier = tier_of(head)
      change_counter(tier, 'running', -1)
      count_living(tier, head, -1, living_bytes(job .. id, saved))
      if events_wanted then note_event(events, id, tier, cancel and 'CANCELLED' or 'COMPLETED', attempt) end
    end
  end
  reply[#reply + 1] = word
end

bulk('ZREM', heartbeat_deadlines, ended_ids)
bulk('ZREM', run_deadlines, ended_ids)
for _, i in ipairs(positions) do
  local id, result = ARGV[i], ARGV[i + 3]
  local word = answers[id]
  local ending = 'complete ' .. word
  if string.sub(word, 1, 2) == 'OK' then
    redis.call('HSET', job .. id, 'state', 'COMPLETED', 'ended', ended, 'ending', ending, 'result', result,
      'payload', '')
    add_outbox_bytes(#result)
  else
    redis.call('HSET', job .. id, 'state', 'CANCELLED', 'ended', ended, 'ending', ending)
    add_outbox_bytes(payload_bytes(job .. id))
  end
end
bulk('ZADD', outbox, outbox_entries)
write_counters(counters, owners)
publish(events, ended)
return reply
