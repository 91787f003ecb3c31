-- acknowledge: SQL has these outcomes: the jobs leave the outbox, lose what SQL answers for now, and their slice gets a
--        time to live once SQL has all of its jobs.
-- KEYS   outbox counters job ended unacked attempts logs
-- ARGV[1] slice_ttl_ms: how long a slice is kept from then on
-- per job (n = 2, 4, ...):
-- ARGV[n+0] id: the job
-- ARGV[n+1] ack_info: 'generation attempt outcome is_kept known'; is_kept 'false' = forget the job at once; known
--        'true' = SQL had an outcome before, so readers get the result from SQL and Redis drops it | 'false'
-- REPLY  per job: OK | EMPTY (not in the outbox with these numbers; nothing changed)
-- TWICE  a job that has left the outbox answers EMPTY
local outbox, counters, job, ended, unacked, attempts, logs = unpack(KEYS)
local slice_ttl = ARGV[1]
local reply, acknowledged, members = {}, {}, {}

-- read_ack_info parses an ack_info once per call: most jobs of a call ended alike.
local ack_infos = {} -- ack_info as text -> its parts
local function read_ack_info(ack_info)
  local generation, attempt, outcome, is_kept, known = string.match(ack_info, '^(%d+) (%d+) (%S+) (%a+) (%a+)$')
  ack_infos[ack_info] = {
    generation = generation, attempt = attempt, outcome = outcome, is_kept = is_kept == 'true', known = known == 'true',
  }
  return ack_infos[ack_info]
end

local wanted = {} -- the members of the outbox that the call names
for i = 2, #ARGV, 2 do
  local id, ack_info = ARGV[i], ack_infos[ARGV[i + 1]] or read_ack_info(ARGV[i + 1])
  wanted[#wanted + 1] = outbox_member(id, ack_info.generation, ack_info.attempt)
end
local outbox_scores = read_values('ZMSCORE', outbox, wanted)

local slices, by_slice = {}, {} -- the slices of the call; slice -> its ids and their ack_infos
local found = {} -- member -> true, once this call has acknowledged it
for i = 2, #ARGV, 2 do
  local id, ack_info = ARGV[i], ack_infos[ARGV[i + 1]]
  local n = #reply + 1
  local member, word = wanted[n], 'EMPTY'
  if outbox_scores[n] and not found[member] then
    word, found[member] = 'OK', true
    acknowledged[#acknowledged + 1], members[#members + 1] = id, member
    local slice_name = slice_of(id)
    local of = by_slice[slice_name]
    if not of then
      of = {ids = {}, infos = {}}
      slices[#slices + 1], by_slice[slice_name] = slice_name, of
    end
    of.ids[#of.ids + 1], of.infos[#of.infos + 1] = id, ack_info
  end
  reply[n] = word
end

bulk('ZREM', outbox, members)
local gone_keys = {} -- records, histories and logs
for _, slice_name in ipairs(slices) do
  local of, forgotten, changed = by_slice[slice_name], {}, {}
  for n, stored in ipairs(read_values('HMGET', ended .. slice_name, of.ids)) do
    local id, ack_info = of.ids[n], of.infos[n]
    local e, head, detail = parse_ended(stored)
    if e then
      local result, log_bytes = parse_detail(detail)
      add_outbox_bytes(-#result - log_bytes)
      if log_bytes > 0 then
        gone_keys[#gone_keys + 1] = logs .. id
      end
      if e.state ~= 'COMPLETED' then
        add_outbox_bytes(-bytes_of(head))
        gone_keys[#gone_keys + 1] = job .. id
      end
      if ack_info.attempt ~= '1' or e.state ~= 'COMPLETED' then
        gone_keys[#gone_keys + 1] = attempts .. id
      end
      -- SQL answers for a long result, and for one that may not be the result that SQL has.
      local drops_result = result ~= '' and (#result > 1024 or ack_info.known or ack_info.outcome ~= 'COMPLETED')
      if not ack_info.is_kept then
        forgotten[#forgotten + 1] = id
      elseif drops_result or e.state ~= ack_info.outcome then
        local line = end_line(ack_info.outcome, e.at, e.report, e.class, e.run_text)
        local kept_detail = drops_result and string.sub(detail, 1, #detail - #result) or detail
        changed[#changed + 1], changed[#changed + 2] = id, line .. '\n' .. head .. '\n' .. kept_detail
      end
    end
  end
  bulk('HDEL', ended .. slice_name, forgotten)
  bulk('HSET', ended .. slice_name, changed)
  if redis.call('HINCRBY', unacked, slice_name, text(-#of.ids)) <= 0 then
    redis.call('HDEL', unacked, slice_name)
    if redis.call('HLEN', ended .. slice_name) <= 1 then
      redis.call('DEL', ended .. slice_name)
    else
      redis.call('PEXPIRE', ended .. slice_name, slice_ttl)
    end
  end
end

bulk_keys('DEL', gone_keys)
write_counters(counters)
if #acknowledged > 0 then redis.call('HINCRBY', counters, 'acknowledged', text(#acknowledged)) end
return reply
