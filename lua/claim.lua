-- claim: hands the best ready jobs to one process, as leases.
-- KEYS   queue heartbeat_deadlines run_deadlines counters claims doorbell quarantine job tried leases checkpoints
--        events
-- ARGV[1] nonce: the name of the process
-- ARGV[2] number: the number of the claim; a process counts its claims upwards
-- ARGV[3] max: how many leases to hand out at most
-- ARGV[4] bound: the highest score to hand out | '+inf' any score
-- ARGV[5] max_bytes: how many bytes of records to hand out at most; one job may have more
-- per tier (n = 6, 9, ...):
-- ARGV[n+0] tier: the name of the tier | '*' any tier that has no arguments of its own
-- ARGV[n+1] heartbeat_timeout_ms: how long from now the lease lives without a heartbeat
-- ARGV[n+2] max_run_ms: how long from now the attempt may run
-- REPLY  next (score of the best job left, or ''), then four lists: the different leases of the call, and of each job
--        which of them it has, its id and its record; then the checkpoints, an id and a text in turn | EMPTY
-- TWICE  the number of the process' last claim answers the same leases, a lower number answers EMPTY
local queue, heartbeat_deadlines, run_deadlines, counters, claims, doorbell, quarantine, job, tried, leases,
  checkpoints, events = unpack(KEYS)
local nonce, number, max, bound, max_bytes = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])
local token = nonce .. ':' .. number

local last_number, last_ids = string.match(redis.call('GET', claims) or '', '^(%d+)(.*)$')
if last_number and tonumber(number) < tonumber(last_number) then return {'EMPTY'} end

-- lease_numbers has the different leases of the call: most jobs share one.
local lease_texts, lease_numbers, which, ids, records = {}, {}, {}, {}, {}
local function add_job(id, lease, record)
  local n = #ids + 1
  if not lease_numbers[lease] then
    lease_texts[#lease_texts + 1] = lease
    lease_numbers[lease] = text(#lease_texts)
  end
  which[n], ids[n], records[n] = lease_numbers[lease], id, record
end

-- read_records reads the records of jobs, some at a time, until it has more than max_bytes.
local function read_records(job_ids)
  local found, bytes, i = {}, 0, 1
  while i <= #job_ids and bytes <= max_bytes do
    local job_keys = {}
    for k = i, math.min(i + 24, #job_ids) do
      local id = job_ids[k]
      job_keys[#job_keys + 1] = job .. id
    end
    for _, record in ipairs(redis.call('MGET', slice(job_keys, 1))) do
      found[i], bytes, i = record, bytes + #(record or ''), i + 1
    end
  end
  return found, i - 1
end

local next_id
if last_number == number then
  next_id = redis.call('ZRANGE', queue, '0', '0')[1]
  local claimed = {}
  for id in string.gmatch(last_ids, '%S+') do claimed[#claimed + 1] = id end
  for i, stored in pairs(read_column(leases, claimed)) do
    local id, lease = claimed[i], parse_lease(stored)
    local record = lease and lease.token == token and redis.call('GET', job .. id)
    if record then add_job(id, lease.text, record) end
  end
  redis.call('PEXPIRE', claims, '60000')
else
  local now = time_ms()
  local started, events_wanted = text(now), has_listeners(events)

  local deadlines = {} -- tier -> when a lease that starts now expires
  for i = 6, #ARGV, 3 do
    local tier, heartbeat_timeout, max_run = ARGV[i], ARGV[i + 1], ARGV[i + 2]
    deadlines[tier] = {heartbeat = text(now + heartbeat_timeout), run = text(now + max_run)}
  end

  local ready = redis.call('ZRANGEBYSCORE', queue, '-inf', bound, 'LIMIT', '0', text(max + 1))
  next_id = ready[max + 1]
  ready[max + 1] = nil
  local found, looked = read_records(ready)
  local tried_texts, held = read_column(tried, ready), read_column(leases, ready)

  -- first_lease is the lease of a first attempt, which the jobs of one class share.
  local first_leases = {} -- class as text -> lease
  local function first_lease(class)
    local lease = first_leases[class.text]
    if not lease then
      lease = class.text .. ' ' .. format_run('1', '0', started, started, '0', token)
      first_leases[class.text] = lease
    end
    return lease
  end

  local bytes, heartbeat_entries, run_entries, lease_entries, unexplained = 0, {}, {}, {}, {}
  for i = 1, looked do
    local id, record = ready[i], found[i]
    local class, head = parse_start(record or '')
    if not class or held[i] then
      unexplained[#unexplained + 1], unexplained[#unexplained + 2] = started, id
    else
      bytes = bytes + #record
      if bytes > max_bytes and #ids > 0 then
        next_id = id
        break
      end
      local lease, attempt, is_first = nil, '1', true
      if tried_texts[i] then
        local run = parse_tried(tried_texts[i]).run
        attempt, is_first = text(run.attempt + 1), run.first_claim == '0'
        local first_claim = is_first and started or run.first_claim
        lease = class.text .. ' ' .. format_run(attempt, run.retries, first_claim, started, run.due, token)
      else
        lease = first_lease(class)
      end
      add_job(id, lease, record)
      local deadline, e = deadlines[class.tier] or deadlines['*'], #lease_entries
      heartbeat_entries[e + 1], heartbeat_entries[e + 2] = deadline.heartbeat, id
      run_entries[e + 1], run_entries[e + 2] = deadline.run, id
      lease_entries[e + 1], lease_entries[e + 2] = id, lease .. '\n' .. head
      count_waiting(class, true, is_first, -1, 0)
      change_counter(class.tier, 'running', 1)
      if events_wanted then note_event(events, id, class.tier, 'PROCESSING', attempt) end
    end
  end
  if looked < #ready and not next_id then next_id = ready[looked + 1] end

  -- The first write removes, so that a full Redis accepts a claim, also one that finds nothing.
  redis.call('DEL', claims)
  bulk('ZREM', queue, ids)
  for i = 1, #unexplained, 2 do redis.call('ZREM', queue, unexplained[i + 1]) end
  bulk('ZADD', quarantine, unexplained)
  bulk('ZADD', heartbeat_deadlines, heartbeat_entries)
  bulk('ZADD', run_deadlines, run_entries)
  bulk('HSET', leases, lease_entries)
  if not next_id and bound ~= '+inf' then next_id = redis.call('ZRANGE', queue, '0', '0')[1] end
  redis.call('SET', claims, number .. ' ' .. table.concat(ids, ' '), 'PX', '60000')
  write_counters(counters)
  publish(events, started)
end

local saved = {}
for i, stored in pairs(read_column(checkpoints, ids)) do
  if stored then saved[#saved + 1], saved[#saved + 2] = ids[i], string.gsub(stored, '^%d+ %d+ ', '') end
end
local next_score = ''
if next_id then
  next_score = redis.call('ZSCORE', queue, next_id)
  ring(doorbell)
end
return {next_score, lease_texts, which, ids, records, saved}
