-- heartbeat: the holders of leases extend their crash deadlines.
-- KEYS   heartbeat_deadlines counters leases checkpoints job
-- per lease (n = 1, 7, ...):
-- ARGV[n+0] id: the job
-- ARGV[n+1] attempt: of the lease
-- ARGV[n+2] token: of the lease
-- ARGV[n+3] timeout_ms: how long from now the lease lives
-- ARGV[n+4] checkpoint_number: a lease counts its checkpoints from 1 | '0' no checkpoint
-- ARGV[n+5] checkpoint: what the handler saved | '' no checkpoint
-- REPLY  per lease: OK | LOST (not the stored lease; nothing changed) | CANCEL (extended, and a user asked to cancel)
-- TWICE  a deadline only ever moves forward; a checkpoint never replaces a later one
local heartbeat_deadlines, counters, leases, checkpoints, job = unpack(KEYS)
local now = time_ms()
local reply, held_ids, deadline_entries, checkpoint_entries = {}, {}, {}, {}

local ids = {}
for i = 1, #ARGV, 6 do ids[#ids + 1] = ARGV[i] end
local stored_leases, deadlines = read_values('HMGET', leases, ids), read_values('ZMSCORE', heartbeat_deadlines, ids)

-- is_later says whether a checkpoint is later than the one that is stored.
local function is_later(id, attempt, checkpoint_number)
  local stored = redis.call('HGET', checkpoints, id)
  local stored_attempt, stored_number = string.match(stored or '', '^(%d+) (%d+) ')
  return stored_attempt ~= attempt or tonumber(stored_number) < checkpoint_number
end

local saved = {} -- id -> the number and the length of its latest checkpoint in this call
for i = 1, #ARGV, 6 do
  local id, attempt, token, timeout = ARGV[i], ARGV[i + 1], ARGV[i + 2], tonumber(ARGV[i + 3])
  local checkpoint_number, checkpoint = tonumber(ARGV[i + 4]), ARGV[i + 5]
  local lease, deadline = parse_lease(stored_leases[#reply + 1]), deadlines[#reply + 1] or '0'
  local word = 'LOST'
  if lease and lease.attempt == attempt and lease.token == token then
    word = lease.cancel and 'CANCEL' or 'OK'
    held_ids[#held_ids + 1] = id
    local before = saved[id] or {number = 0}
    if checkpoint_number > before.number and is_later(id, attempt, checkpoint_number) then
      local bytes_before = before.bytes or checkpoint_bytes(checkpoints, id)
      change_counter(lease.class.tier, 'bytes', #checkpoint - bytes_before)
      saved[id] = {number = checkpoint_number, bytes = #checkpoint}
      checkpoint_entries[#checkpoint_entries + 1] = id
      checkpoint_entries[#checkpoint_entries + 1] = attempt .. ' ' .. text(checkpoint_number) .. ' ' .. checkpoint
    end
    deadline_entries[#deadline_entries + 1] = text(math.max(now + timeout, tonumber(deadline)))
    deadline_entries[#deadline_entries + 1] = id
  end
  reply[#reply + 1] = word
end

-- The first write removes: a full Redis must not let running jobs look crashed.
bulk('ZREM', heartbeat_deadlines, held_ids)
bulk('ZADD', heartbeat_deadlines, deadline_entries)
bulk('HSET', checkpoints, checkpoint_entries)
write_counters(counters)
return reply
