-- claim: hands the best ready jobs to one process, as leases.
-- KEYS   queue heartbeat_deadlines run_deadlines counters claims doorbell quarantine job events
-- ARGV[1] nonce: the name of the process
-- ARGV[2] number: the number of the claim; a process counts its claims upwards
-- ARGV[3] max: how many leases to hand out at most
-- ARGV[4] bound: the highest score to hand out | '+inf' any score
-- ARGV[5] max_bytes: how many bytes of payloads to hand out at most; one job may have more
-- per tier (n = 6, 9, ...):
-- ARGV[n+0] tier: the name of the tier | '*' any tier that has no arguments of its own
-- ARGV[n+1] heartbeat_timeout_ms: how long from now the lease lives without a heartbeat
-- ARGV[n+2] max_run_ms: how long from now the attempt may run
-- REPLY  next (score of the best job left, or ''); per lease: id head payload counts ('attempt retries first started',
--        and due of a job that was delayed) checkpoint | EMPTY
-- TWICE  the number of the process' last claim answers the same leases, a lower number answers EMPTY
local queue, heartbeat_deadlines, run_deadlines, counters, claims, doorbell, quarantine, job, events = unpack(KEYS)
local nonce, number, max, bound, max_bytes = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])
local token = nonce .. ':' .. number

local last_claim = redis.call('HMGET', claims, 'number', 'ids')
local last_number, last_ids = last_claim[1], last_claim[2]
if last_number and tonumber(number) < tonumber(last_number) then return {'EMPTY'} end

local reply, next_id = {''}, nil

-- add_lease appends a lease to the reply. Most leases are first attempts that start now, and share one text of counts.
local first_attempt_counts
local function add_lease(id, head, payload, attempt, retries, first_claim, started, checkpoint, due)
  local n = #reply
  local counts = attempt == '1' and not retries and first_claim == started and not due and first_attempt_counts
  counts = counts or table.concat({attempt, retries or '0', first_claim or '0', started or '0', due or nil}, ' ')
  reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4], reply[n + 5] = id, head, payload, counts, checkpoint or ''
end

if last_number == number then
  next_id = redis.call('ZRANGE', queue, '0', '0')[1]
  for id in string.gmatch(last_ids, '%S+') do
    local m = redis.call('HMGET', job .. id, 'head', 'payload', 'attempt', 'retries', 'first', 'started', 'state',
      'token', 'checkpoint', 'due')
    local attempt, state, stored_token = m[3], m[7], m[8]
    if state == 'PROCESSING' and stored_token == token then
      add_lease(id, m[1], m[2], attempt, m[4], m[5], m[6], m[9], attempt == '1' and m[10])
    end
  end
else
  local now = time_ms()
  local started, events_wanted = text(now), has_listeners(events)
  first_attempt_counts = '1 0 ' .. started .. ' ' .. started

  local deadlines = {} -- tier -> when a lease that starts now expires
  for i = 6, #ARGV, 3 do
    local tier, heartbeat_timeout, max_run = ARGV[i], ARGV[i + 1], ARGV[i + 2]
    deadlines[tier] = {heartbeat = text(now + heartbeat_timeout), run = text(now + max_run)}
  end

  local bytes, ids, jobs, heartbeat_entries, run_entries = 0, {}, {}, {}, {}
  local ready = redis.call('ZRANGEBYSCORE', queue, '-inf', bound, 'LIMIT', '0', text(max + 1))
  next_id = ready[1]
  for i = 1, math.min(#ready, max) do
    local id = ready[i]
    local m = redis.call('HMGET', job .. id, 'head', 'payload', 'attempt', 'retries', 'first', 'state', 'checkpoint')
    local head, payload, state = m[1], m[2], m[6]
    local tier = head and parse_head(head)
    if not tier or not payload or (state and state ~= 'PENDING') then
      redis.call('ZREM', queue, id)
      redis.call('ZADD', quarantine, started, id)
    else
      bytes = bytes + #payload
      if bytes > max_bytes and #ids > 0 then break end
      ids[#ids + 1], jobs[id] = id, m
      m.tier = tier
    end
    next_id = ready[i + 1]
  end

  bulk('ZREM', queue, ids)
  if not next_id and bound ~= '+inf' then next_id = redis.call('ZRANGE', queue, '0', '0')[1] end
  for _, id in ipairs(ids) do
    local m = jobs[id]
    local tier, head, payload, last_attempt, retries, earlier_claim = m.tier, m[1], m[2], m[3], m[4], m[5]
    local state, checkpoint = m[6], m[7]
    local deadline = deadlines[tier] or deadlines['*']
    local attempt = last_attempt and text(last_attempt + 1) or '1'
    local first_claim = earlier_claim or started
    redis.call('HSET', job .. id, 'state', 'PROCESSING', 'attempt', attempt, 'first', first_claim, 'started', started,
      'token', token)
    if last_attempt then redis.call('HDEL', job .. id, 'ending') end
    heartbeat_entries[#heartbeat_entries + 1], heartbeat_entries[#heartbeat_entries + 2] = deadline.heartbeat, id
    run_entries[#run_entries + 1], run_entries[#run_entries + 2] = deadline.run, id
    change_counter(tier, 'ready', -1)
    change_counter(tier, 'running', 1)
    if not earlier_claim then change_counter(tier, 'fresh', -1) end
    if events_wanted then note_event(events, id, tier, 'PROCESSING', attempt) end
    local due = not earlier_claim and state and redis.call('HGET', job .. id, 'due')
    add_lease(id, head, payload, attempt, retries, first_claim, started, checkpoint, due)
  end
  bulk('ZADD', heartbeat_deadlines, heartbeat_entries)
  bulk('ZADD', run_deadlines, run_entries)
  redis.call('DEL', claims) -- the first write removes, so that a full Redis accepts a claim that finds nothing
  redis.call('HSET', claims, 'number', number, 'ids', table.concat(ids, ' '))
  write_counters(counters)
  publish(events, started)
end

redis.call('PEXPIRE', claims, 60000)
if next_id then
  reply[1] = redis.call('ZSCORE', queue, next_id)
  ring(doorbell)
end
return reply
