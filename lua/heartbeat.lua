-- heartbeat: the holders of leases extend their crash deadlines.
-- KEYS   beats counters job
-- ARGV   per lease: id attempt token timeout_ms save (counts a lease's checkpoints; '0' = none) checkpoint
-- REPLY  per lease: OK | LOST (not the stored lease; nothing changed) | CANCEL (extended, and a user asked to cancel)
-- TWICE  a deadline only ever moves forward; a checkpoint never replaces a later one
local beats, counters, job = unpack(KEYS)
local now = time_ms()
local reply, off, on, saves = {}, {}, {}, {}
for i = 1, #ARGV, 6 do
  local id, attempt, token, timeout = ARGV[i], ARGV[i + 1], ARGV[i + 2], tonumber(ARGV[i + 3])
  local m = redis.call('HMGET', job .. id, 'state', 'attempt', 'token', 'cancel', 'saved', 'head')
  local deadline = m[1] == 'PROCESSING' and m[2] == attempt and m[3] == token and redis.call('ZSCORE', beats, id)
  local word = 'LOST'
  if deadline then
    word = m[4] and 'CANCEL' or 'OK'
    off[#off + 1] = id
    local by, save = string.match(m[5] or '0 0', '^(%d+) (%d+)$')
    if tonumber(ARGV[i + 4]) > 0 and (by ~= attempt or tonumber(save) < tonumber(ARGV[i + 4])) then
      saves[id] = {attempt .. ' ' .. ARGV[i + 4], ARGV[i + 5], m[6]}
    end
    on[#on + 1], on[#on + 2] = text(math.max(now + timeout, tonumber(deadline))), id
  end
  reply[#reply + 1] = word
end

bulk('ZREM', beats, off) -- removing first: a full Redis must not make running jobs look crashed
bulk('ZADD', beats, on)
for id, s in pairs(saves) do
  if s[3] then count(tier_of(s[3]), 'bytes', #s[2] - redis.call('HSTRLEN', job .. id, 'checkpoint')) end
  redis.call('HSET', job .. id, 'saved', s[1], 'checkpoint', s[2])
end
settle(counters)
return reply
