-- audit: looks at jobs once: the script holds each job to the place that the job's state gives it, repairs what is
--        safe to repair, and sets aside what nobody can explain.
-- KEYS   queue scheduled heartbeat_deadlines run_deadlines outbox counters owners doorbell quarantine job attempts
--        events
-- ARGV[1] max_run_ms: the longest that any tier lets a job run
-- per job (n = 2, 4, ...):
-- ARGV[n+0] id: the job
-- ARGV[n+1] outcomes: what SQL has of the job: 'generation outcome generation outcome ...' | '' nothing
-- REPLY  per job: OK | REPAIRED findings | REPORTED findings | QUARANTINED finding | EMPTY (no such job and nothing of
--        it, or in quarantine already)
-- TWICE  the script acts on what it finds: it does not find again what it repaired
local queue, scheduled, heartbeat_deadlines, run_deadlines, outbox, counters, owners, doorbell, quarantine, job,
  attempts, events = unpack(KEYS)
local max_run = tonumber(ARGV[1])
local now = time_ms()
local at = text(now)
local ended_states = {COMPLETED = true, NEED_DISCARD = true, FAILED = true, CANCELLED = true}
-- SQL's words for an outcome, where Redis has another word until the job is acknowledged.
local redis_states = {FAILED = 'NEED_DISCARD'}
-- A head has eight parts: from fewer no process can read what became of the job.
local whole_head = '^' .. string.rep('%S+ ', 7) .. '%S'
local reply = {}

-- repairs has the findings that audit_job repaired on the present job; payload_lost says whether its payload is lost.
local repairs, payload_lost
local function add_repair(finding) repairs[#repairs + 1] = finding end

local function remove_if_misplaced(key, id, misplaced)
  if misplaced and redis.call('ZREM', key, id) == 1 then add_repair('misplaced') end
end

local function add_if_missing(key, id, present, score)
  if present then return false end
  redis.call('ZADD', key, score, id)
  add_repair('missing')
  return true
end

-- find_places returns the job's score in each set, false where the set does not have the job.
local function find_places(id)
  return {
    queue = redis.call('ZSCORE', queue, id),
    scheduled = redis.call('ZSCORE', scheduled, id),
    heartbeat_deadlines = redis.call('ZSCORE', heartbeat_deadlines, id),
    run_deadlines = redis.call('ZSCORE', run_deadlines, id),
    outbox = redis.call('ZSCORE', outbox, id),
    quarantine = redis.call('ZSCORE', quarantine, id),
  }
end

local function remove_everywhere(id, places)
  remove_if_misplaced(queue, id, places.queue)
  remove_if_misplaced(scheduled, id, places.scheduled)
  remove_if_misplaced(heartbeat_deadlines, id, places.heartbeat_deadlines)
  remove_if_misplaced(run_deadlines, id, places.run_deadlines)
  remove_if_misplaced(outbox, id, places.outbox)
end

-- set_aside moves a job to the quarantine, where a person finds it and no worker does. A job that is there already
-- answers EMPTY.
local function set_aside(id, places, finding)
  remove_everywhere(id, places)
  if places.quarantine and #repairs == 0 then return 'EMPTY' end
  redis.call('ZADD', quarantine, at, id)
  return 'QUARANTINED ' .. finding
end

-- audit_without_hash removes what is left of a job whose hash is gone. COMPLETED and CANCELLED are final outcomes;
-- after a FAILED there may have been another generation, so the sets may know more than SQL.
local function audit_without_hash(id, places, outcomes)
  local is_final = string.find(outcomes, ' C')
  local is_placed = places.queue or places.scheduled or places.heartbeat_deadlines or places.run_deadlines
  if not is_final and (places.quarantine or is_placed or places.outbox) then return set_aside(id, places, 'no_job') end
  remove_everywhere(id, places)
  remove_if_misplaced(quarantine, id, places.quarantine)
  if redis.call('DEL', attempts .. id) == 1 then add_repair('history') end
  return #repairs > 0 and 'REPAIRED ' .. table.concat(repairs, ' ') or 'EMPTY'
end

-- end_overtaken ends a waiting job with the outcome that SQL has of it: Redis went back in time, and nobody needs to
-- run the job again.
local function end_overtaken(id, places, hash, tier, is_pending, outcome)
  local key = job .. id
  redis.call('ZREM', queue, id)
  redis.call('ZREM', scheduled, id)
  redis.call('DEL', attempts .. id) -- SQL has those too
  change_counter(tier, is_pending and 'ready' or 'scheduled', -1)
  if not hash.first_claim then change_counter(tier, is_pending and 'fresh' or 'delayed', -1) end
  count_living(tier, hash.head, -1, living_bytes(key, true))
  if not is_pending and not hash.first_claim then change_counter(tier, 'delayedbytes', -payload_bytes(key)) end
  redis.call('HSET', key, 'state', redis_states[outcome] or outcome, 'ended', at)
  if outcome == 'COMPLETED' then redis.call('HSET', key, 'payload', '') else add_outbox_bytes(payload_bytes(key)) end
  redis.call('ZADD', outbox, at, id)
  note_event(events, id, tier, outcome, hash.attempt)
  add_repair('overtaken')
  places.queue, places.scheduled, places.outbox, hash.ended = false, false, at, at
  return redis_states[outcome] or outcome
end

-- repair_lease fills in the fields without which nobody could end a running job, nor take it back.
local function repair_lease(id, hash)
  local key = job .. id
  if hash.attempt and hash.first_claim and hash.started and hash.token then return end
  local last_line = redis.call('LINDEX', attempts .. id, '-1')
  hash.attempt = hash.attempt or text(tonumber(string.match(last_line or '', '^(%d+) ') or 0) + 1)
  hash.first_claim, hash.started = hash.first_claim or hash.started or at, hash.started or hash.first_claim or at
  hash.token = hash.token or 'nobody:0'
  redis.call('HSET', key, 'attempt', hash.attempt, 'first', hash.first_claim, 'started', hash.started,
    'token', hash.token)
  add_repair('lease')
end

-- repair_times holds the times to first <= started <= ended, and to an end exactly where the job has ended.
local function repair_times(id, hash, has_ended)
  local key = job .. id
  local first_claim, started = tonumber(hash.first_claim or 0), tonumber(hash.started or 0)
  local ended = tonumber(hash.ended or 0)
  local is_wrong = true
  if not has_ended and hash.ended then
    redis.call('HDEL', key, 'ended')
  elseif first_claim > started then
    redis.call('HSET', key, 'started', text(first_claim))
  elseif has_ended and ended == 0 then
    redis.call('HSET', key, 'ended', text(math.max(started, now)))
  elseif has_ended and ended < started then
    redis.call('HSET', key, 'ended', text(started))
  else
    is_wrong = false
  end
  if is_wrong then add_repair('times') end
end

-- repair_ended holds a job that has ended to the outbox. As far as this look can see, SQL does not have the job yet.
local function repair_ended(id, places, state, ttl, has_payload)
  local key = job .. id
  if ttl >= 0 then
    redis.call('PERSIST', key)
    add_repair('ttl')
  end
  local has_leftover = state == 'COMPLETED' and payload_bytes(key) > 0
  if not has_payload or has_leftover then redis.call('HSET', key, 'payload', '') end
  if has_leftover then add_repair('payload') end
  payload_lost = not has_payload and places.outbox
  local was_acknowledged = ttl >= 0 or not has_payload -- then SQL is asked again
  if add_if_missing(outbox, id, places.outbox, at) and was_acknowledged then
    add_outbox_bytes(redis.call('HSTRLEN', key, 'result') + payload_bytes(key))
  end
end

-- audit_job looks at one job and returns its word and findings.
local function audit_job(id, outcomes)
  local key = job .. id
  local places = find_places(id)
  local history_type = redis.call('TYPE', attempts .. id).ok
  -- A history of another type fails every script that appends a line to it, and with it the whole call.
  if history_type ~= 'none' and history_type ~= 'list' then
    redis.call('DEL', attempts .. id)
    add_repair('history')
  end
  local key_type = redis.call('TYPE', key).ok
  if key_type == 'none' then return audit_without_hash(id, places, ' ' .. outcomes) end
  if key_type ~= 'hash' then return set_aside(id, places, 'type') end
  local m = redis.call('HMGET', key, 'head', 'state', 'attempt', 'first', 'started', 'token', 'ended', 'retries')
  local hash = {head = m[1], attempt = m[3], first_claim = m[4], started = m[5], token = m[6], ended = m[7]}
  local tier, generation, max_retries, _, score
  if hash.head then
    tier, generation, max_retries, _, score = parse_head(hash.head)
  end
  local state, retries = m[2] or 'PENDING', tonumber(m[8] or 0)
  local has_payload, ttl = redis.call('HEXISTS', key, 'payload') == 1, redis.call('PTTL', key)
  local is_pending, is_scheduled, is_running = state == 'PENDING', state == 'SCHEDULED', state == 'PROCESSING'
  local is_known = is_pending or is_scheduled or is_running or ended_states[state]
  if not tier or not string.match(hash.head, whole_head) then return set_aside(id, places, 'head') end
  if not is_known then return set_aside(id, places, 'state') end
  if (is_pending or is_scheduled) and not has_payload then return set_aside(id, places, 'no_payload') end

  local outcome = (is_pending or is_scheduled) and string.match(' ' .. outcomes .. ' ', ' ' .. generation .. ' (%u+) ')
  if outcome then
    state = end_overtaken(id, places, hash, tier, is_pending, outcome)
    is_pending, is_scheduled = false, false
  end
  local has_ended = ended_states[state]
  local is_acknowledged = has_ended and ttl >= 0 and not has_payload
  remove_if_misplaced(queue, id, places.queue and not is_pending)
  remove_if_misplaced(scheduled, id, places.scheduled and not is_scheduled)
  remove_if_misplaced(heartbeat_deadlines, id, places.heartbeat_deadlines and not is_running)
  remove_if_misplaced(run_deadlines, id, places.run_deadlines and not is_running)
  remove_if_misplaced(outbox, id, places.outbox and (not has_ended or is_acknowledged))
  remove_if_misplaced(quarantine, id, places.quarantine)
  if ttl >= 0 and not has_ended then
    redis.call('PERSIST', key)
    add_repair('ttl')
  end
  if is_pending then
    if add_if_missing(queue, id, places.queue, score) then ring(doorbell) end
    if places.queue and tonumber(places.queue) ~= tonumber(score) then
      redis.call('ZADD', queue, score, id)
      add_repair('score')
    end
  elseif is_scheduled then
    add_if_missing(scheduled, id, places.scheduled, at)
  elseif is_running then
    -- The deadline has passed: the watch takes the job back by its two looks, unless the holder sends a heartbeat.
    add_if_missing(heartbeat_deadlines, id, places.heartbeat_deadlines, at)
    repair_lease(id, hash)
    add_if_missing(run_deadlines, id, places.run_deadlines, text(tonumber(hash.started) + max_run))
    payload_lost = not has_payload
  elseif is_acknowledged then
    if redis.call('DEL', attempts .. id) == 1 then add_repair('history') end
  else
    repair_ended(id, places, state, ttl, has_payload)
  end
  repair_times(id, hash, has_ended)
  if retries > tonumber(max_retries) then
    redis.call('HSET', key, 'retries', max_retries)
    add_repair('retries')
  end
  if #repairs > 0 then return 'REPAIRED ' .. table.concat(repairs, ' ') .. (payload_lost and ' payload_lost' or '') end
  return payload_lost and 'REPORTED ' .. 'payload_lost' or 'OK'
end

for i = 2, #ARGV, 2 do
  repairs, payload_lost = {}, false
  reply[#reply + 1] = audit_job(ARGV[i], ARGV[i + 1])
end

write_counters(counters, owners)
publish(events, at)
return reply
