-- take_outbox: hands out ended jobs that SQL does not have yet, whole, and keeps them from other takers for a while.
-- KEYS   outbox quarantine job attempts
-- ARGV[1] limit: how many jobs to hand out at most
-- ARGV[2] keep_ms: how long other takers do not see these jobs
-- ARGV[3] max_bytes: how many bytes to hand out at most; one job may have more
-- REPLY  per job, a list: id head state attempt retries first started ended cause error result token payload, then
--        its attempts
-- TWICE  a second take gets what the first left; both times the job stays in the outbox until it is acknowledged
local outbox, quarantine, job, attempts = unpack(KEYS)
local limit, keep, max_bytes = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local now = time_ms()
local reply, bytes, taken_ids, outbox_entries = {}, 0, {}, {}

for _, id in ipairs(redis.call('ZRANGEBYSCORE', outbox, '-inf', text(now), 'LIMIT', '0', limit)) do
  local m = redis.call('HMGET', job .. id, 'head', 'state', 'attempt', 'retries', 'first', 'started', 'ended', 'cause',
    'error', 'result', 'token')
  local head, state = m[1], m[2]
  if not head then
    redis.call('ZREM', outbox, id)
    redis.call('ZADD', quarantine, text(now), id)
  else
    local entry = {id}
    for i = 1, 11 do entry[i + 1] = m[i] or '' end
    entry[13] = state ~= 'COMPLETED' and redis.call('HGET', job .. id, 'payload') or ''
    for _, line in ipairs(redis.call('LRANGE', attempts .. id, 0, -1)) do entry[#entry + 1] = line end
    for i = 1, #entry do bytes = bytes + #entry[i] end
    if bytes > max_bytes and #reply > 0 then break end
    taken_ids[#taken_ids + 1] = id
    outbox_entries[#outbox_entries + 1], outbox_entries[#outbox_entries + 2] = text(now + keep), id
    reply[#reply + 1] = entry
  end
end

bulk('ZREM', outbox, taken_ids) -- the first write removes: a full Redis must still drain
bulk('ZADD', outbox, outbox_entries)
return reply
