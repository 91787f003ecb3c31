-- take_outbox: hands out ended jobs that SQL does not have yet, whole, and keeps them from other takers for a while.
-- KEYS   outbox quarantine job ended attempts logs
-- ARGV[1] limit: how many jobs to hand out at most
-- ARGV[2] keep_ms: how long other takers do not see these jobs
-- ARGV[3] max_bytes: how many bytes to hand out at most; one job may have more
-- REPLY  per job, a list: id, what is kept of the ended job, its record (its payload is in it; '' of a completed job),
--        how many lines its log has, then these lines, then its attempts
-- TWICE  a second take gets what the first left; both times the job stays in the outbox until it is acknowledged
local outbox, quarantine, job, ended, attempts, logs = unpack(KEYS)
local limit, keep, max_bytes = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local now = time_ms()
local reply, bytes, taken, outbox_entries_kept, unexplained = {}, 0, {}, {}, {}

local members = redis.call('ZRANGEBYSCORE', outbox, '-inf', text(now), 'LIMIT', '0', limit)
if #members == 0 then -- a clock that was ahead may have hidden some for too long
  members = redis.call('ZRANGEBYSCORE', outbox, '(' .. text(now + 2 * keep), '+inf', 'LIMIT', '0', limit)
end
for _, member in ipairs(members) do
  local id = string.sub(member, 1, 36)
  local stored = redis.call('HGET', ended .. slice_of(id), id)
  local e, _, detail = parse_ended(stored)
  if not e then
    unexplained[#unexplained + 1], unexplained[#unexplained + 2] = text(now), id
    taken[#taken + 1] = member
  else
    local entry = {id, stored, '', '0'}
    if e.state ~= 'COMPLETED' then entry[3] = redis.call('GET', job .. id) or '' end
    local _, log_bytes = parse_detail(detail)
    if log_bytes > 0 then
      for _, line in ipairs(redis.call('LRANGE', logs .. id, 0, -1)) do entry[#entry + 1] = line end
      entry[4] = text(#entry - 4)
    end
    if e.state ~= 'COMPLETED' or e.run.attempt ~= '1' then
      for _, line in ipairs(redis.call('LRANGE', attempts .. id, 0, -1)) do entry[#entry + 1] = line end
    end
    for i = 1, #entry do bytes = bytes + #entry[i] end
    if bytes > max_bytes and #reply > 0 then break end
    taken[#taken + 1], reply[#reply + 1] = member, entry
    outbox_entries_kept[#outbox_entries_kept + 1] = text(now + keep)
    -- By this name acknowledge looks for the job. A name that differs was written by hand.
    outbox_entries_kept[#outbox_entries_kept + 1] = outbox_member(id, e.class.generation, e.run.attempt)
  end
end

bulk('ZREM', outbox, taken) -- the first write removes: a full Redis must still drain
bulk('ZADD', quarantine, unexplained)
bulk('ZADD', outbox, outbox_entries_kept)
return reply
