-- heartbeat: the holders of leases extend their crash deadlines, and tell how far their attempts are.
-- KEYS   heartbeat_deadlines counters leases checkpoints job events
-- per lease (n = 1, 9, ...):
-- ARGV[n+0] id: the job
-- ARGV[n+1] attempt: of the lease
-- ARGV[n+2] token: of the lease
-- ARGV[n+3] timeout_ms: how long from now the lease lives
-- ARGV[n+4] checkpoint_number: a lease counts its checkpoints from 1 | '0' no checkpoint
-- ARGV[n+5] checkpoint: what the handler saved | '' no checkpoint
-- ARGV[n+6] step: a lease numbers what it tells of its progress, upwards | '0' it does not: the last one stands
-- ARGV[n+7] progress: how far the attempt is, without blanks | '' no progress
-- REPLY  per lease: OK | LOST (not the stored lease; nothing changed) | CANCEL (extended, and a user asked to cancel)
-- TWICE  a deadline only ever moves forward; neither a checkpoint nor a progress with a step replaces a later one
local heartbeat_deadlines, counters, leases, checkpoints, job, events = unpack(KEYS)
local now = time_ms()
local reply, held_ids, deadline_entries, checkpoint_entries = {}, {}, {}, {}

local ids = {}
for i = 1, #ARGV, 8 do ids[#ids + 1] = ARGV[i] end
local stored_leases, deadlines = read_values('HMGET', leases, ids), read_values('ZMSCORE', heartbeat_deadlines, ids)

-- is_later says whether a checkpoint is later than the one that is stored.
local function is_later(id, attempt, checkpoint_number)
  local stored = redis.call('HGET', checkpoints, id)
  local stored_attempt, stored_number = string.match(stored or '', '^(%d+) (%d+) ')
  return stored_attempt ~= attempt or tonumber(stored_number) < checkpoint_number
end

local latest = {} -- id -> the latest progress of the job in this call
local lease_entries = {}

-- tell_progress notes a progress, unless a later one is there, and says whether it did. A progress is "step:at:text".
local function tell_progress(id, lease, step, progress)
  local stored_step = tonumber(string.match(latest[id] or lease.progress, '^(%d+):') or 0)
  if step == 0 then step = math.max(now, stored_step + 1) end
  if step <= stored_step then return false end
  latest[id] = table.concat({text(step), text(now), progress}, ':')
  note_event(events, id, lease.class.tier, 'PROGRESS', lease.attempt)
  return true
end

-- keep_lease stores a lease whose progress has changed. A lease that restore wrote gets its length: its holder lives.
local function keep_lease(id, lease, head, timeout)
  local length_word = lease.lease_for == 0 and ' for=' .. text(timeout) or nil
  lease_entries[#lease_entries + 1], lease_entries[#lease_entries + 2] =
    id, extras.lease(lease, lease.log_bytes, latest[id] or lease.progress, head, length_word)
end

local saved = {} -- id -> the number and the length of its latest checkpoint in this call
for i = 1, #ARGV, 8 do
  local id, attempt, token, timeout = ARGV[i], ARGV[i + 1], ARGV[i + 2], tonumber(ARGV[i + 3])
  local checkpoint_number, checkpoint = tonumber(ARGV[i + 4]), ARGV[i + 5]
  local step, progress = tonumber(ARGV[i + 6]), ARGV[i + 7]
  local lease, head = parse_lease(stored_leases[#reply + 1])
  local deadline = deadlines[#reply + 1] or '0'
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
    local is_changed = progress ~= '' and tell_progress(id, lease, step, progress)
    if is_changed or lease.lease_for == 0 then keep_lease(id, lease, head, timeout) end
    deadline_entries[#deadline_entries + 1] = text(math.max(now + timeout, tonumber(deadline)))
    deadline_entries[#deadline_entries + 1] = id
  end
  reply[#reply + 1] = word
end

-- The first write removes: a full Redis must not let running jobs look crashed.
bulk('ZREM', heartbeat_deadlines, held_ids)
bulk('ZADD', heartbeat_deadlines, deadline_entries)
bulk('HSET', checkpoints, checkpoint_entries)
bulk('HSET', leases, lease_entries)
write_counters(counters)
publish(events, text(now))
return reply
