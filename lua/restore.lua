-- restore: puts in jobs that SQL has: living jobs that Redis lost, and dead jobs in their next generation. No capacity
--        limits it.
-- KEYS   queue scheduled heartbeat_deadlines run_deadlines outbox counters owners clock doorbell job attempts events
-- ARGV[1] base: a score is priority * base + arrival
-- ARGV[2] not_after: a time of Redis in ms; a call that comes later does nothing
-- per job (n = 3, 18, ...):
-- ARGV[n+0] id: the job
-- ARGV[n+1] generation: the generation to put in
-- ARGV[n+2] tier: the name of the tier
-- ARGV[n+3] priority: of the tier
-- ARGV[n+4] max_retries: of the job
-- ARGV[n+5] arrived: ms | 0 now
-- ARGV[n+6] descriptor: the rest of the head: 'type owner trace' and, if the job has any, ' options'
-- ARGV[n+7] payload: JSON
-- ARGV[n+8] attempt: the number of the last attempt | 0 none
-- ARGV[n+9] retries: how many retries are spent
-- ARGV[n+10] first_claim: when the generation was first claimed, in ms | 0 never
-- ARGV[n+11] due: when the job may run, in ms | 0 at once
-- ARGV[n+12] holder: the process that ran the job | '' the job waits
-- ARGV[n+13] started: when the latest attempt began, in ms | 0 there was none
-- ARGV[n+14] end_state: '' the job goes on | 'CANCELLED' a cancel was answered: a waiting job ends at once, a running
--        job with its attempt
-- REPLY  per job: OK | DUPLICATE (that generation, or a later one, is there) | BUSY (an earlier one lives) |
--        LATE (not_after has passed)
-- TWICE  the generation decides: one that is there answers DUPLICATE
-- A job that was running comes back as running, in the hands of its dead holder: the crashed watch takes it back and
-- counts the retry.
local queue, scheduled, heartbeat_deadlines, run_deadlines, outbox, counters, owners, clock, doorbell, job, attempts,
  events = unpack(KEYS)
local base, not_after = tonumber(ARGV[1]), tonumber(ARGV[2])

local now = time_ms()
local last_arrival = tonumber(redis.call('GET', clock) or 0)
local ended_states = {COMPLETED = true, FAILED = true, CANCELLED = true}
local reply, queue_entries, scheduled_entries, heartbeat_entries, run_entries = {}, {}, {}, {}, {}

-- find_earlier returns the word for a job that must stay as it is; else nil, and the last attempt of an earlier
-- generation that has ended.
local function find_earlier(id, generation)
  local m = redis.call('HMGET', job .. id, 'head', 'state', 'attempt')
  local head, state, attempt = m[1], m[2], m[3]
  if not head then return nil end
  if tonumber(string.match(head, '^%S+ (%d+)') or generation) >= generation then return 'DUPLICATE' end
  if not ended_states[state] or redis.call('ZSCORE', outbox, id) then return 'BUSY' end
  return nil, tonumber(attempt or 0)
end

for i = 3, #ARGV, 15 do
  local id, generation, tier, priority = ARGV[i], ARGV[i + 1], ARGV[i + 2], tonumber(ARGV[i + 3])
  local max_retries, arrived, descriptor, payload = ARGV[i + 4], tonumber(ARGV[i + 5]), ARGV[i + 6], ARGV[i + 7]
  local attempt, retries, first_claim, due = ARGV[i + 8], ARGV[i + 9], ARGV[i + 10], tonumber(ARGV[i + 11])
  local holder, started, end_state = ARGV[i + 12], ARGV[i + 13], ARGV[i + 14]
  local is_cancelled = end_state ~= ''
  local word, earlier_attempt = find_earlier(id, tonumber(generation))
  word = word or now > not_after and 'LATE' or 'OK'
  if word == 'OK' then
    -- An earlier generation goes. The first write removes, so that a full Redis takes what follows.
    redis.call('DEL', job .. id, attempts .. id)
    if earlier_attempt then attempt = text(math.max(tonumber(attempt), earlier_attempt)) end
    if arrived == 0 then arrived = math.max(now, last_arrival) end
    last_arrival = math.max(last_arrival, arrived)
    local score = text(priority * base + arrived)
    local head = table.concat({tier, generation, max_retries, text(arrived), score, descriptor}, ' ')
    redis.call('HSET', job .. id, 'head', head, 'payload', payload)
    if attempt ~= '0' then redis.call('HSET', job .. id, 'attempt', attempt) end
    if retries ~= '0' then redis.call('HSET', job .. id, 'retries', retries) end
    if first_claim ~= '0' then redis.call('HSET', job .. id, 'first', first_claim, 'started', started) end
    if holder ~= '' or not is_cancelled then count_living(tier, head, 1, #payload) end
    local state = 'PENDING'
    if holder ~= '' then
      state = 'PROCESSING'
      redis.call('HSET', job .. id, 'token', holder .. ':0')
      if is_cancelled then redis.call('HSET', job .. id, 'cancel', '1') end
      heartbeat_entries[#heartbeat_entries + 1], heartbeat_entries[#heartbeat_entries + 2] = text(now), id
      run_entries[#run_entries + 1], run_entries[#run_entries + 2] = text(now + 3600000), id
      change_counter(tier, 'running', 1)
    elseif is_cancelled then
      state = end_state
      redis.call('HSET', job .. id, 'ended', text(now))
      redis.call('ZADD', outbox, text(now), id)
      add_outbox_bytes(payload_bytes(job .. id))
    elseif due > now then
      state = 'SCHEDULED'
      scheduled_entries[#scheduled_entries + 1], scheduled_entries[#scheduled_entries + 2] = text(due), id
      change_counter(tier, 'scheduled', 1)
      if first_claim == '0' then
        change_counter(tier, 'delayed', 1)
        change_counter(tier, 'delayedbytes', #payload)
      end
    else
      queue_entries[#queue_entries + 1], queue_entries[#queue_entries + 2] = score, id
      change_counter(tier, 'ready', 1)
      if first_claim == '0' then change_counter(tier, 'fresh', 1) end
    end
    if state ~= 'PENDING' then redis.call('HSET', job .. id, 'state', state) end
    note_event(events, id, tier, state, attempt)
  end
  reply[#reply + 1] = word
end

bulk('ZADD', queue, queue_entries)
bulk('ZADD', scheduled, scheduled_entries)
bulk('ZADD', heartbeat_deadlines, heartbeat_entries)
bulk('ZADD', run_deadlines, run_entries)
if last_arrival > 0 then redis.call('SET', clock, text(last_arrival)) end
write_counters(counters, owners)
publish(events, text(now))
if #queue_entries > 0 then ring(doorbell) end
return reply
