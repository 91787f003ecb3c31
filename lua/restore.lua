-- restore: puts in jobs that SQL has: living jobs that Redis lost, jobs whose places are reserved, and dead jobs in
--        their next generation. No capacity limits it. A job gives its reserved place back.
-- KEYS   queue queues scheduled expiries heartbeat_deadlines run_deadlines outbox counters owners clock doorbell job
--        tried leases checkpoints ended unacked attempts logs unique reserved reserving events lines
-- ARGV[1] base: a score is priority * base + arrival
-- ARGV[2] not_after: a time of Redis in ms; a call that comes later does nothing
-- per job (n = 3, 23, ...):
-- ARGV[n+0] id: the job
-- ARGV[n+1] generation: the generation to put in
-- ARGV[n+2] tier: the name of the tier
-- ARGV[n+3] priority: of the tier
-- ARGV[n+4] class_rest: 'max_retries owner max_run_ms' and, if the job has any, ' options': the rest of the class
-- ARGV[n+5] arrived: ms | 0 now
-- ARGV[n+6] descriptor: the rest of the head: 'type trace' and, if the job has any, ' options'
-- ARGV[n+7] payload: JSON
-- ARGV[n+8] attempt: the number of the last attempt | 0 none
-- ARGV[n+9] retries: how many retries are spent
-- ARGV[n+10] first_claim: when the generation was first claimed, in ms | 0 never
-- ARGV[n+11] due: when the job may run, in ms | 0 at once
-- ARGV[n+12] token: of the lease of the worker that runs the job | '<process>:0' the pool of an embedded server ran
--        it, and died with its Redis | '' the job waits
-- ARGV[n+13] started: when the latest attempt began, in ms | 0 there was none
-- ARGV[n+14] end_state: '' the job goes on | 'CANCELLED' a cancel was answered: a waiting job ends at once, a running
--        job with its attempt | 'NEED_DISCARD' a kill was answered: the job ends at once
-- ARGV[n+15] queue_name: the queue in which the job waits
-- ARGV[n+16] reason: why the job was killed
-- ARGV[n+17] crashes: how many attempts of the generation lost their worker before the last one
-- ARGV[n+18] lease_ms: how long a running job's lease lives from now on, unless a heartbeat comes
-- ARGV[n+19] run_ends: by when its attempt must have ended, in ms | 0 an hour from now; it gets 10 s at least
-- REPLY  per job: OK | DUPLICATE (that generation, or a later one, is there) | BUSY (an earlier one lives) |
--        LATE (not_after has passed)
-- TWICE  the generation decides: one that is there answers DUPLICATE
-- A job whose unique key another living job holds comes back as HELD, behind the jobs that are HELD already.
-- A job that was running comes back as running, in the hands of its holder, whose reports count as before. Its lease
-- has no length until the holder's first heartbeat. Until then reclaim takes it back at no cost, for a loss of Redis is
-- nobody's crash; from an embedded server's own pool, whose token ends with ':0', as a crash.
local queue, queues, scheduled, expiries, heartbeat_deadlines, run_deadlines, outbox, counters, owners, clock, doorbell,
  job, tried, leases, checkpoints, ended, unacked, attempts, logs, unique, reserved, reserving, events,
  lines = unpack(KEYS)
local base, not_after = tonumber(ARGV[1]), tonumber(ARGV[2])

local now = time_ms()
local at = text(now)
local last_arrival = tonumber(redis.call('GET', clock) or 0)
local reply, scheduled_entries, expiry_entries, heartbeat_entries, run_entries = {}, {}, {}, {}, {}
local put_in = {} -- id -> the generation that this call put in

-- find_earlier returns the word for a job that must stay as it is; else nil, and the last attempt of an earlier
-- generation that has ended.
local function find_earlier(id, generation)
  if put_in[id] then return put_in[id] >= generation and 'DUPLICATE' or 'BUSY' end
  local e, class = read_ended(ended, id), read_start(job .. id)
  class = class or e and e.class
  if not class then return nil end
  if tonumber(class.generation) >= generation then return 'DUPLICATE' end
  if not e then return 'BUSY' end
  if redis.call('ZSCORE', outbox, outbox_member(id, class.generation, e.run.attempt)) then return 'BUSY' end
  return nil, tonumber(e.run.attempt)
end

for i = 3, #ARGV, 20 do
  local id, generation, tier, priority = ARGV[i], ARGV[i + 1], ARGV[i + 2], tonumber(ARGV[i + 3])
  local class_rest, arrived, descriptor, payload = ARGV[i + 4], tonumber(ARGV[i + 5]), ARGV[i + 6], ARGV[i + 7]
  local attempt, retries, first_claim, due = ARGV[i + 8], ARGV[i + 9], ARGV[i + 10], tonumber(ARGV[i + 11])
  local token, started, end_state, queue_name = ARGV[i + 12], ARGV[i + 13], ARGV[i + 14], ARGV[i + 15]
  local is_killed, reason, bytes = end_state == 'NEED_DISCARD', ARGV[i + 16], #payload
  local t = parse_tried(nil)
  t.crashes = tonumber(ARGV[i + 17])
  local lease_ms, run_ends = tonumber(ARGV[i + 18]), tonumber(ARGV[i + 19])
  local is_cancelled = end_state ~= '' and not is_killed
  local word, earlier_attempt = find_earlier(id, tonumber(generation))
  word = word or now > not_after and 'LATE' or 'OK'
  if word == 'OK' then
    -- An earlier generation goes. The first write removes, so that a full Redis takes what follows.
    redis.call('DEL', job .. id, attempts .. id, logs .. id)
    local had_end = redis.call('HDEL', ended .. slice_of(id), id) == 1
    if had_end and redis.call('HLEN', ended .. slice_of(id)) == 1 then redis.call('DEL', ended .. slice_of(id)) end
    redis.call('HDEL', tried, id)
    redis.call('HDEL', checkpoints, id)
    put_in[id] = tonumber(generation)
    if earlier_attempt then attempt = text(math.max(tonumber(attempt), earlier_attempt)) end
    if arrived == 0 then arrived = math.max(now, last_arrival) end
    last_arrival = math.max(last_arrival, arrived)
    local score = text(priority * base + arrived)
    local class = parse_class(table.concat({tier, queue_name, generation, class_rest}, ' '))
    local head = table.concat({text(arrived), score, text(bytes), descriptor}, ' ')
    redis.call('SET', job .. id, class.text .. '\n' .. head .. '\n' .. payload)
    local is_fresh = first_claim == '0'
    local run = format_run(attempt, retries, first_claim, is_fresh and '0' or started, '0', '-')
    local state, cause = 'PENDING', nil
    if token ~= '' and not is_killed then
      state = 'PROCESSING'
      count_living(class, 1, bytes)
      local lease = class.text .. ' ' .. format_run(attempt, retries, first_claim, started, '0', token)
      redis.call('HSET', leases, id, lease .. (is_cancelled and ' cancel' or '') .. '\n' .. head)
      if t.crashes > 0 then redis.call('HSET', tried, id, format_tried(t, run)) end
      heartbeat_entries[#heartbeat_entries + 1], heartbeat_entries[#heartbeat_entries + 2] = text(now + lease_ms), id
      run_ends = run_ends == 0 and now + 3600000 or math.max(run_ends, now + 10000)
      run_entries[#run_entries + 1], run_entries[#run_entries + 2] = text(run_ends), id
      begin_run(class)
      if class.unique and class.unique_while ~= 'w' then
        take_unique(unique, job, ended, id, class, arrived, now, false)
      end
    elseif is_cancelled or is_killed then
      state, cause = end_state, is_killed and 'KILLED' or nil
      local detail = format_detail({
        cause = cause or '-', error = is_killed and reason or '', log_bytes = 0, progress = '',
      }, '')
      add_outbox_bytes(bytes)
      note_end(id, class, attempt, end_line(end_state, at, '-', class, run), at, head, detail, at)
    else
      local is_held = class.unique and take_unique(unique, job, ended, id, class, arrived, now, true)
      if is_held then due = held_from + due end
      if due > now then
        state = is_held and held_state or 'SCHEDULED'
        scheduled_entries[#scheduled_entries + 1], scheduled_entries[#scheduled_entries + 2] = text(due), id
      else
        add_entry(class, score, id, head)
      end
      if class.expires and is_fresh then
        expiry_entries[#expiry_entries + 1], expiry_entries[#expiry_entries + 2] = text(class.expires), id
      end
      count_living(class, 1, bytes)
      count_waiting(class, state == 'PENDING', is_fresh, 1, bytes)
      if attempt ~= '0' then redis.call('HSET', tried, id, format_tried(t, run)) end
    end
    note_event(events, id, tier, state, attempt, cause)
  end
  if word == 'OK' or word == 'DUPLICATE' then places.free(reserved, reserving, id) end -- the job itself counts now
  reply[#reply + 1] = word
end

bulk('ZADD', scheduled, scheduled_entries)
bulk('ZADD', expiries, expiry_entries)
bulk('ZADD', heartbeat_deadlines, heartbeat_entries)
bulk('ZADD', run_deadlines, run_entries)
write_ends(outbox, ended, unacked, tried, checkpoints, reserved)
if last_arrival > 0 then redis.call('SET', clock, text(last_arrival)) end
write_counters(counters, owners)
publish(events, at)
write_entries(queue, queues, doorbell, job, lines)
return reply
