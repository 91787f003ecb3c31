-- audit: looks at jobs once: the script holds each job to the places that its texts give it, repairs what is safe to
--        repair, and sets aside jobs whose texts are torn or missing.
-- KEYS   queue queues scheduled expiries heartbeat_deadlines run_deadlines outbox counters owners doorbell quarantine
--        job tried leases checkpoints ended unacked attempts logs unique reserved events lines
-- ARGV[1] max_run_ms: the longest that any tier lets a job run
-- per job (n = 2, 5, ...):
-- ARGV[n+0] id: the job | '@tier:key' a line
-- ARGV[n+1] outcomes: what SQL has of the job: 'generation outcome generation outcome ...' | '' nothing
-- ARGV[n+2] met_in: the queue in which the walk met the job | '@' and the name of the line in which it met the job | ''
--        it met the job elsewhere | of a line: its queue
-- REPLY  per job: OK | REPAIRED findings | REPORTED findings | QUARANTINED finding | EMPTY (no such job and nothing of
--        it, or in quarantine already)
-- TWICE  the script acts on what it finds: it does not find again what it repaired
local queue, queues, scheduled, expiries, heartbeat_deadlines, run_deadlines, outbox, counters, owners, doorbell,
  quarantine, job, tried, leases, checkpoints, ended, unacked, attempts, logs, unique, reserved, events,
  lines = unpack(KEYS)
local max_run = tonumber(ARGV[1])
local now = time_ms()
local at = text(now)
-- SQL's words for an outcome, where Redis has another word until the job is acknowledged.
local redis_states = {FAILED = 'NEED_DISCARD'}
local reply = {}

-- repairs has the findings that audit_job repaired on the present job; payload_lost says whether its payload is lost.
local repairs, payload_lost
local function add_repair(finding) repairs[#repairs + 1] = finding end

local function remove_if_misplaced(key, member, misplaced)
  if misplaced and redis.call('ZREM', key, member) == 1 then add_repair('misplaced') end
end

local function add_if_missing(key, member, present, score)
  if present then return end
  redis.call('ZADD', key, score, member)
  add_repair('missing')
end

-- remove_leftover removes what a column has of a job that has no place for it.
local function remove_leftover(key, id)
  if redis.call('HDEL', key, id) == 1 then add_repair('leftover') end
end

-- key_named returns the key of a queue, or of a line if '@' stands before the name.
local function key_named(name)
  local line_name = string.match(name, '^@(.+)$')
  if line_name then return lines .. 'jobs:' .. line_name end
  return key_of(name, queue, queues)
end

-- find_places returns the job's score in each set, false where the set does not have the job. place names the queue or
-- the line of the job.
local function find_places(id, place, class)
  return {
    place = place, class = class,
    queue = redis.call('ZSCORE', key_named(place), id),
    scheduled = redis.call('ZSCORE', scheduled, id),
    expiries = redis.call('ZSCORE', expiries, id),
    heartbeat_deadlines = redis.call('ZSCORE', heartbeat_deadlines, id),
    run_deadlines = redis.call('ZSCORE', run_deadlines, id),
    quarantine = redis.call('ZSCORE', quarantine, id),
    outbox = redis.call('ZSCORE', outbox, id), -- of a first attempt; take_outbox looks at the others
  }
end

-- leave_place takes a job out of its queue, or its line.
local function leave_place(id, places)
  remove_if_misplaced(key_named(places.place), id, places.queue)
  if places.queue and places.class and places.class.line then
    local line = touch(places.class)
    line.change = line.change - 1
  end
end

-- leave_sets takes a job out of the sets where jobs wait and run.
local function leave_sets(id, places)
  remove_if_misplaced(expiries, id, places.expiries)
  leave_place(id, places)
  remove_if_misplaced(scheduled, id, places.scheduled)
  remove_if_misplaced(heartbeat_deadlines, id, places.heartbeat_deadlines)
  remove_if_misplaced(run_deadlines, id, places.run_deadlines)
end

-- leave_other_queues takes a job out of main, and of the queue or line in which the walk met it, if they are not its
-- own.
local function leave_other_queues(id, places, met_in)
  remove_if_misplaced(queue, id, places.place ~= 'main')
  remove_if_misplaced(key_named(met_in), id, met_in ~= '' and met_in ~= places.place)
end

-- set_aside moves a job to the quarantine, where a person finds it and no worker does. A job that is there already
-- answers EMPTY.
local function set_aside(id, places, finding)
  leave_sets(id, places)
  if places.quarantine and #repairs == 0 then return 'EMPTY' end
  redis.call('ZADD', quarantine, at, id)
  return 'QUARANTINED ' .. finding
end

-- audit_nothing removes what is left of a job of which Redis has no text. COMPLETED and CANCELLED are final outcomes;
-- after a FAILED there may have been another generation, so the sets may know more than SQL.
local function audit_nothing(id, places, outcomes)
  local is_final = string.find(outcomes, ' C')
  local is_placed = places.queue or places.scheduled or places.heartbeat_deadlines or places.run_deadlines
    or places.outbox
  remove_if_misplaced(outbox, id, places.outbox)
  if not is_final and (places.quarantine or is_placed) then return set_aside(id, places, 'no_job') end
  leave_sets(id, places)
  remove_if_misplaced(quarantine, id, places.quarantine)
  remove_leftover(tried, id)
  remove_leftover(checkpoints, id)
  if redis.call('DEL', attempts .. id) == 1 then add_repair('history') end
  if redis.call('DEL', logs .. id) == 1 then add_repair('log') end
  return #repairs > 0 and 'REPAIRED ' .. table.concat(repairs, ' ') or 'EMPTY'
end

-- end_overtaken ends a waiting job with the outcome that SQL has of it: Redis went back in time, and the job
-- need not run again.
local function end_overtaken(id, places, class, head, outcome)
  local t, bytes = parse_tried(redis.call('HGET', tried, id)), bytes_of(head)
  local run = t.run
  redis.call('ZREM', scheduled, id)
  take_ready(queue, queues, lines, class, id)
  redis.call('ZREM', expiries, id)
  redis.call('DEL', attempts .. id, logs .. id) -- SQL has those too
  change_counter(class.tier, 'bytes', -t.log_bytes)
  t.log_bytes = 0
  count_waiting(class, places.queue and true or not places.scheduled, run.first_claim == '0', -1, bytes)
  local run_text = format_run(run.attempt, run.retries, run.first_claim, run.started, run.due, run.token)
  local line = end_line(redis_states[outcome] or outcome, at, '-', class, run_text)
  if outcome == 'COMPLETED' then
    count_living(class, -1, bytes + checkpoint_bytes(checkpoints, id))
    redis.call('DEL', job .. id)
    note_end(id, class, run.attempt, line, at, head, format_detail(t, ''), at)
  else
    end_with_record(checkpoints, id, class, run.attempt, line, at, head, t)
  end
  note_event(events, id, class.tier, outcome, run.attempt)
  add_repair('overtaken')
end

-- audit_ended holds a job that has ended to the outbox. A job whose record is still there is not in SQL yet.
local function audit_ended(id, places, e, head, detail, has_record)
  leave_sets(id, places)
  remove_leftover(tried, id)
  remove_leftover(checkpoints, id)
  remove_leftover(leases, id)
  if e.class.unique and e.class.unique_while ~= 's' then
    local found = read_unique(unique .. e.class.unique)
    if found and found.id == id and found.generation == e.class.generation then
      free_unique(id, e.class)
      add_repair('unique')
    end
  end
  local member = outbox_member(id, e.class.generation, e.run.attempt)
  local is_in_outbox = redis.call('ZSCORE', outbox, member)
  if e.state == 'COMPLETED' then
    if has_record then
      redis.call('DEL', job .. id)
      add_repair('payload')
    end
  elseif has_record and not is_in_outbox then
    redis.call('ZADD', outbox, at, member)
    redis.call('HINCRBY', unacked, slice_of(id), '1')
    redis.call('PERSIST', ended .. slice_of(id))
    add_outbox_bytes(bytes_of(head))
    add_repair('missing')
  end
  if tonumber(e.at) < tonumber(e.run.started) then
    local line = end_line(e.state, e.run.started, e.report, e.class, e.run_text)
    redis.call('HSET', ended .. slice_of(id), id, line .. '\n' .. head .. '\n' .. detail)
    add_repair('times')
  end
  payload_lost = e.state ~= 'COMPLETED' and not has_record and is_in_outbox
  if payload_lost then redis.call('SET', job .. id, e.class.text .. '\n' .. head .. '\n') end
  if not is_in_outbox and redis.call('DEL', attempts .. id) == 1 then add_repair('history') end
  local _, log_bytes = parse_detail(detail)
  if (not is_in_outbox or log_bytes == 0) and redis.call('DEL', logs .. id) == 1 then add_repair('log') end
end

-- place_of returns the place of a text in a list, or nil.
local function place_of(list, wanted)
  for n, one in ipairs(list) do
    if one == wanted then return n end
  end
  return nil
end

-- audit_unique holds a living job to its unique key: the job holds the key, or is behind the holder. held_score is its
-- score in scheduled if it is HELD, else false.
local function audit_unique(id, class, head, held_score)
  local key = unique .. class.unique
  local found = read_unique(key)
  local behind = found and found.behind or {}
  local is_holder = found and found.id == id and found.generation == class.generation
  local place = place_of(behind, id)
  if found and not is_holder and redis.call('PTTL', key) > 0 then
    if not held_score then return end
    let_go(scheduled, tried, events, id, class, head, held_score, now) -- no job waits for a key for seconds
    add_repair('unique')
    return
  end
  local is_free = not found or is_holder or not lives(job, ended, found.id, found.generation)
  if not is_free and place or is_holder and not place and not held_score then return end
  if place then table.remove(behind, place) end
  if is_free then
    if held_score then let_go(scheduled, tried, events, id, class, head, held_score, now) end
    store_unique(key, id, class, behind, 0, now)
  else
    behind[#behind + 1] = id
    store_behind(key, found)
  end
  add_repair('unique')
end

-- spent returns how many retries are spent: no more than the generation has.
local function spent(class, retries)
  if tonumber(retries) <= class.max_retries then return retries end
  add_repair('retries')
  return text(class.max_retries)
end

-- audit_running holds a job with a lease to the sets of deadlines, and the lease to the record.
local function audit_running(id, places, lease, lease_head, class, head)
  local has_record = class ~= nil
  if not has_record then class, head = lease.class, lease_head end
  local retries = spent(class, lease.retries)
  local run = format_run(lease.attempt, retries, lease.first_claim, lease.started, lease.due, lease.token)
  local held = class.text .. ' ' .. run .. lease.options
  if held ~= lease.text or head ~= lease_head then
    redis.call('HSET', leases, id, held .. (lease.cancel and ' cancel' or '') .. '\n' .. head)
    if retries == lease.retries then add_repair('lease') end
  end
  leave_place(id, places)
  remove_if_misplaced(scheduled, id, places.scheduled)
  remove_if_misplaced(expiries, id, places.expiries)
  remove_if_misplaced(outbox, id, places.outbox)
  -- The deadline has passed: the watch takes the job back by its two looks, unless the holder sends a heartbeat.
  add_if_missing(heartbeat_deadlines, id, places.heartbeat_deadlines, at)
  local longest = class.max_run > 0 and class.max_run or max_run
  add_if_missing(run_deadlines, id, places.run_deadlines, text(tonumber(lease.started) + longest))
  if class.unique_while == 'l' then audit_unique(id, class, head, false) end
  if lease.log_bytes == 0 and redis.call('DEL', logs .. id) == 1 then add_repair('log') end
  payload_lost = not has_record
end

-- audit_expiry holds a waiting job to expiries: the set has the job if it must be claimed by a time and never was.
local function audit_expiry(id, places, class, t)
  local wanted = class.expires and t.run.first_claim == '0'
  remove_if_misplaced(expiries, id, places.expiries and not wanted)
  if wanted and tonumber(places.expiries or 0) ~= class.expires then
    redis.call('ZADD', expiries, text(class.expires), id)
    add_repair(places.expiries and 'score' or 'missing')
  end
end

-- audit_waiting holds a job that is neither running nor ended to the queue, or to scheduled.
local function audit_waiting(id, places, class, head)
  local score, stored = score_of(head), redis.call('HGET', tried, id)
  local t = parse_tried(stored)
  local retries = spent(class, t.run.retries)
  if retries ~= t.run.retries then
    local run = format_run(t.run.attempt, retries, t.run.first_claim, t.run.started, t.run.due, t.run.token)
    redis.call('HSET', tried, id, format_tried(t, run, t.report, t.word, t.at))
  end
  remove_if_misplaced(scheduled, id, places.queue and places.scheduled)
  remove_if_misplaced(outbox, id, places.outbox)
  audit_expiry(id, places, class, t)
  if not places.queue and not places.scheduled then
    add_entry(class, score, id, head)
    add_repair('missing')
  elseif places.queue and tonumber(places.queue) ~= tonumber(score) then
    add_entry(class, score, id, head)
    add_repair('score')
  end
  remove_if_misplaced(heartbeat_deadlines, id, places.heartbeat_deadlines)
  remove_if_misplaced(run_deadlines, id, places.run_deadlines)
  if t.log_bytes == 0 and redis.call('DEL', logs .. id) == 1 then add_repair('log') end
  if class.unique and class.unique_while ~= 's' then
    local held_score = not places.queue and is_held_score(places.scheduled) and places.scheduled
    audit_unique(id, class, head, held_score)
  end
end

-- audit_job looks at one job and returns its word and findings.
local function audit_job(id, outcomes, met_in)
  local key = job .. id
  local key_type = redis.call('TYPE', key).ok
  local class, head = nil, nil
  if key_type == 'string' then class, head = read_start(key) end
  local stored_lease = redis.call('HGET', leases, id)
  local lease, lease_head = parse_lease(stored_lease)
  local e, ended_head, detail = read_ended(ended, id)
  local any_class = class or lease and lease.class or e and e.class
  local place = any_class and (any_class.line and '@' .. any_class.line_name or any_class.queue)
  local places = find_places(id, place or met_in ~= '' and met_in or 'main', any_class)
  local history_type = redis.call('TYPE', attempts .. id).ok
  -- A history of another type fails every script that appends a line to it, and with it the whole call.
  if history_type ~= 'none' and history_type ~= 'list' then
    redis.call('DEL', attempts .. id)
    add_repair('history')
  end
  local log_type = redis.call('TYPE', logs .. id).ok
  if log_type ~= 'none' and log_type ~= 'list' then
    redis.call('DEL', logs .. id)
    add_repair('log')
  end
  if key_type ~= 'none' and key_type ~= 'string' then return set_aside(id, places, 'type') end
  if key_type == 'string' then
    if not class then return set_aside(id, places, 'head') end
    if redis.call('PTTL', key) >= 0 then
      redis.call('PERSIST', key)
      add_repair('ttl')
    end
  end
  if stored_lease and not lease then
    redis.call('HDEL', leases, id) -- no report could end the job: it goes back to its place
    add_repair('lease')
  end
  if e and class and tonumber(class.generation) > tonumber(e.class.generation) then
    remove_leftover(ended .. slice_of(id), id)
    e = nil
  end
  if not class and not lease and not e then return audit_nothing(id, places, ' ' .. outcomes) end
  leave_other_queues(id, places, met_in)
  local waiting_class = not e and not lease and class
  local outcome = waiting_class
    and string.match(' ' .. outcomes .. ' ', ' ' .. waiting_class.generation .. ' (%u+) ')
  remove_if_misplaced(quarantine, id, places.quarantine)
  if outcome then
    remove_if_misplaced(heartbeat_deadlines, id, places.heartbeat_deadlines)
    remove_if_misplaced(run_deadlines, id, places.run_deadlines)
    end_overtaken(id, places, class, head, outcome)
  elseif e then
    audit_ended(id, places, e, ended_head, detail, class ~= nil)
  elseif lease then
    audit_running(id, places, lease, lease_head, class, head)
  else
    audit_waiting(id, places, class, head)
  end
  if #repairs > 0 then return 'REPAIRED ' .. table.concat(repairs, ' ') .. (payload_lost and ' payload_lost' or '') end
  return payload_lost and 'REPORTED ' .. 'payload_lost' or 'OK'
end

-- audit_line holds a line to its place: one with jobs is in its queue or, if its key may not run, among the parked
-- lines of the key.
local function audit_line(tier, key, queue_name)
  local line = read_line(key, tier .. ':' .. queue_name)
  local class = {
    line = key, tier = tier, queue = queue_name, line_home = line.home, line_name = line.name,
    line_member = line.member,
  }
  read_keys(lines, {key})
  local size = redis.call('ZCARD', lines .. 'jobs:' .. line.name)
  local is_in_queue = redis.call('ZSCORE', key_of(queue_name, queue, queues), line.member) ~= false
  local is_parked = place_of(key_states[key].parked, line.home) ~= nil
  local is_known = redis.call('ZSCORE', lines .. 'parked', key) ~= false
  local counted = tonumber(redis.call('ZSCORE', lines .. 'waiting', line.name) or 0)
  if is_in_queue and is_parked then redis.call('ZREM', key_of(queue_name, queue, queues), line.member) end
  local is_placed = is_in_queue ~= is_parked and (not is_parked or is_known)
  if counted == size and (size == 0 and not is_in_queue and not is_parked or size > 0 and is_placed) then
    return size == 0 and 'EMPTY' or 'OK'
  end
  touch(class).size = size
  return 'REPAIRED line'
end

for i = 2, #ARGV, 3 do
  local id, outcomes, met_in = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local tier, key = string.match(id, '^@([^:]+):(.+)$')
  repairs, payload_lost = {}, false
  if tier then
    reply[#reply + 1] = audit_line(tier, key, met_in == '' and 'main' or met_in)
  else
    reply[#reply + 1] = audit_job(id, outcomes, met_in)
  end
end

write_ends(outbox, ended, unacked, tried, checkpoints, reserved)
write_unique(unique, job, scheduled, tried, events, now)
write_entries(queue, queues, doorbell, job, lines)
write_counters(counters, owners)
publish(events, at)
return reply
