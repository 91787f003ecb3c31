-- heartbeat: the holders of leases extend their crash deadlines.
-- KEYS   heartbeat_deadlines counters job
-- per lease (n = 1, 7, ...):
-- ARGV[n+0] id: the job
-- ARGV[n+1] attempt: of the lease
-- ARGV[n+2] token: of the lease
-- ARGV[n+3] timeout_ms: how long from now the lease lives
-- ARGV[n+4] checkpoint_number: a lease counts its checkpoints from 1 | '0' no checkpoint
-- ARGV[n+5] checkpoint: what the handler saved | '' no checkpoint
-- REPLY  per lease: OK | LOST (not the stored lease; nothing changed) | CANCEL (extended, and a user asked to cancel)
-- TWICE  a deadline only ever moves forward; a checkpoint never replaces a later one
local heartbeat_deadlines, counters, job = unpack(KEYS)
local now = time_ms()
local reply, held_ids, deadline_entries, checkpoints = {}, {}, {}, {}
for i = 1, #ARGV, 6 do
  local id, attempt, token, timeout = ARGV[i], ARGV[i + 1], ARGV[i + 2], tonumber(ARGV[i + 3])
  local checkpoint_number, checkpoint = ARGV[i + 4], ARGV[i + 5]
  local m = redis.call('HMGET', job .. id, 'state', 'attempt', 'token', 'cancel', 'saved', 'head')
  local state, stored_attempt, stored_token, cancel, saved, head = m[1], m[2], m[3], m[4], m[5], m[6]
  local is_holder = state == 'PROCESSING' and stored_attempt == attempt and stored_token == token
  local deadline = is_holder and redis.call('ZSCORE', heartbeat_deadlines, id)
  local word = 'LOST'
  if deadline then
    word = cancel and 'CANCEL' or 'OK'
    held_ids[#held_ids + 1] = id
    local saved_attempt, saved_number = string.match(saved or '0 0', '^(%d+) (%d+)$')
    local is_later = saved_attempt ~= attempt or tonumber(saved_number) < tonumber(checkpoint_number)
    if tonumber(checkpoint_number) > 0 and is_later then
      checkpoints[id] = {saved = attempt .. ' ' .. checkpoint_number, checkpoint = checkpoint, head = head}
    end
    local later_deadline = text(math.max(now + timeout, tonumber(deadline)))
    deadline_entries[#deadline_entries + 1], deadline_entries[#deadline_entries + 2] = later_deadline, id
  end
  reply[#reply + 1] = word
end

-- The first write removes: a full Redis must not let running jobs look crashed.
bulk('ZREM', heartbeat_deadlines, held_ids)
bulk('ZADD', heartbeat_deadlines, deadline_entries)
for id, c in pairs(checkpoints) do
  if c.head then
    change_counter(tier_of(c.head), 'bytes', #c.checkpoint - redis.call('HSTRLEN', job .. id, 'checkpoint'))
  end
  redis.call('HSET', job .. id, 'saved', c.saved, 'checkpoint', c.checkpoint)
end
write_counters(counters)
return reply
