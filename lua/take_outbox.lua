-- take_outbox: hands out ended jobs that SQL does not have yet, whole, and keeps them from other takers for lease_ms.
-- KEYS   outbox quarantine job attempts
-- ARGV   limit lease_ms max_bytes
-- REPLY  per job, a list: id head state attempt retries first started ended cause error result payload, then its attempts
-- TWICE  a second take gets what the first left; both times the job stays in the outbox until it is acknowledged
local outbox, quarantine, job, attempts = unpack(KEYS)
local limit, lease, max_bytes = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local now = time_ms()
local reply, bytes = {}, 0

for _, id in ipairs(redis.call('ZRANGEBYSCORE', outbox, '-inf', text(now), 'LIMIT', '0', limit)) do
  local m = redis.call('HMGET', job .. id, 'head', 'state', 'attempt', 'retries', 'first', 'started', 'ended', 'cause', 'error', 'result')
  if not m[1] then
    redis.call('ZREM', outbox, id)
    redis.call('ZADD', quarantine, text(now), id)
  else
    local payload = m[2] ~= 'COMPLETED' and redis.call('HGET', job .. id, 'payload') or ''
    bytes = bytes + #(m[10] or '') + #payload
    if bytes > max_bytes and #reply > 0 then break end
    redis.call('ZADD', outbox, text(now + lease), id)
    local entry = {id}
    for i = 1, 10 do entry[i + 1] = m[i] or '' end
    entry[12] = payload
    for _, line in ipairs(redis.call('LRANGE', attempts .. id, 0, -1)) do entry[#entry + 1] = line end
    reply[#reply + 1] = entry
  end
end
return reply
