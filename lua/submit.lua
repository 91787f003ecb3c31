-- submit: accepts new jobs: into their queue at their score or, delayed, into scheduled.
-- KEYS   queue queues scheduled expiries counters owners clock doorbell job tried leases ended idempotency unique
--        events lines
-- ARGV[1] base: a score is priority * base + arrival
-- ARGV[2] not_after: a time of Redis in ms; a call that comes later accepts nothing
-- ARGV[3] key_ttl_ms: how long an Idempotency-Key is kept
-- ARGV[4] shares: 'tier fresh delayed delayedbytes living bytes' of each tier, the smallest share first: how much of
--        each limit the tier may fill
-- per job (n = 5, 10, ...):
-- ARGV[n+0] id: the job
-- ARGV[n+1] submit_class: 'tier queue max_retries owner max_run_ms priority limit delay_ms quota queue_limit', which
--        most jobs of a call share; owner '-' = none, '~' and a hash = a stranger's address; limit is the number of
--        fresh or delayed jobs at which the tier is full, queue_limit the same of the queue; quota and queue_limit '-'
--        = any number of jobs. Behind it, if the job has a line, ' line=<key>', if the job must be claimed by a time,
--        ' exp=<ms>', if it has a callback, ' callback=<its id>', and if it has a unique key, ' uniq=<option of the
--        class> on max_wait_ms held_limit': on says what to do if another job holds the key; max_wait_ms = how long
--        after its arrival a replaced job is due at the latest, 0 = whenever; held_limit = the number of delayed jobs
--        at which the tier is full
-- ARGV[n+2] descriptor: the rest of the head: 'type trace' and, if the job has any, ' options'
-- ARGV[n+3] payload: JSON
-- ARGV[n+4] key_and_body: 'key body': the Idempotency-Key and the hash of the request's body | '' no Idempotency-Key
-- REPLY  per job: OK arrived | HELD arrived (it waits for the holder of its unique key) | UNIQUE id (that job holds the
--        key) | TAKEN id (the same; nothing is accepted) | REPLACED id due (that job has the payload now, and is due
--        then; 0 = at once, or HELD) | QUOTA (that many of its owner's jobs live) | FULL (its queue is full: queue; its
--        line is full: line; its tier's share is taken: fresh, delayed, delayedbytes, living or bytes) | LATE
--        (not_after has passed, or Redis lacks reserved places) | DUPLICATE arrived | REPLAY id (that job has the
--        Idempotency-Key) | MISMATCH (the same, and with another body)
-- TWICE  the id decides: a job that is there answers DUPLICATE and stays as it is. A submit that made no job is decided
--        anew
local queue, queues, scheduled, expiries, counters, owners, clock, doorbell, job, tried, leases, ended, idempotency,
  unique, events, lines = unpack(KEYS)
local base, not_after, key_ttl, shares = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], ARGV[4]

local now = time_ms()
local arrived = math.max(now, tonumber(redis.call('GET', clock) or 0))
local at = text(arrived)
local reply, records, scheduled_entries, expiry_entries = {}, {}, {}, {}
local events_wanted = has_listeners(events)

local room = open_room(counters, owners, lines, shares)

-- A submit rarely comes twice: only if any id of the call is known, earlier_answer asks for each job.
local known_heads = {} -- id -> the head of a job that Redis has
local function find_known()
  local job_keys, by_slice, slices = {}, {}, {}
  for i = 5, #ARGV, 5 do
    local id = ARGV[i]
    job_keys[#job_keys + 1] = job .. id
    local slice_name = slice_of(id)
    if not by_slice[slice_name] then by_slice[slice_name], slices[#slices + 1] = {}, slice_name end
    table.insert(by_slice[slice_name], id)
  end
  for _, slice_name in ipairs(slices) do
    local ids = by_slice[slice_name]
    for n, stored in pairs(read_column(ended .. slice_name, ids)) do
      if stored then known_heads[ids[n]] = string.match(stored, '\n([^\n]*)\n') or '' end
    end
  end
  if bulk_keys('EXISTS', job_keys) == 0 then return end
  for i = 5, #ARGV, 5 do
    local id = ARGV[i]
    local class, head = read_start(job .. id)
    if class then known_heads[id] = head end
  end
end
find_known()

-- earlier_answer returns the word for a submit that was answered before, or nil.
local function earlier_answer(id, idempotency_key, body)
  local head = known_heads[id]
  if head then return 'DUPLICATE ' .. (string.match(head, '^%d+') or '0') end
  local stored = idempotency_key and redis.call('GET', idempotency .. idempotency_key)
  if not stored then return nil end
  local first_id = string.sub(stored, 1, 36)
  if first_id == id then return 'DUPLICATE 0' end -- Redis has forgotten the job, so the job has ended
  if string.sub(stored, 38) == body then return 'REPLAY ' .. first_id end
  return 'MISMATCH'
end

-- read_all_keys reads the states of the keys of all lines of the call, once.
local has_keys = false
local function read_all_keys()
  if has_keys then return end
  local keys, last = {}, nil
  for i = 5, #ARGV, 5 do
    local submit_class = ARGV[i + 1]
    if submit_class ~= last then keys[#keys + 1] = string.match(submit_class, ' line=(%S+)') end
    last = submit_class
  end
  has_keys = true
  read_keys(lines, keys)
end

-- read_submit_class parses a submit_class once per call: most jobs of a call share one.
local submit_classes = {} -- submit_class as text -> its parts
local function read_submit_class(submit_class)
  local tier, queue_name, max_retries, owner, max_run, priority, limit, delay, quota, queue_limit, rest =
    string.match(submit_class, '^(%S+) (%S+) (%d+) (%S+) (%d+) (%d+) (%d+) (%d+) (%S+) (%S+)(.*)$')
  local score = text(priority * base + arrived)
  local class_text = table.concat({tier, queue_name, '1', max_retries, owner, max_run}, ' ')
  local line_option, after_line = string.match(rest, '^( line=%S+)(.*)$')
  rest = after_line or rest
  local expiry = string.match(rest, '^ exp=%d+') or ''
  rest = string.sub(rest, #expiry + 1)
  local callback = string.match(rest, '^ callback=%S+') or ''
  local option, on, max_wait, held_limit =
    string.match(string.sub(rest, #callback + 1), '^( uniq=%S+) (%S+) (%d+) (%d+)$')
  class_text = class_text .. (line_option or '') .. (option or '') .. expiry .. callback
  local class = {
    tier = tier, queue = queue_name, owner = owner, limit = tonumber(limit), delay = tonumber(delay),
    quota = tonumber(quota), queue_limit = tonumber(queue_limit), score = score, class_line = class_text .. '\n',
    head_start = at .. ' ' .. score .. ' ', expires = string.match(expiry, '%d+'),
  }
  class.due = text(now + class.delay)
  if line_option then
    class.line = parse_class(class_text)
    read_all_keys()
    class.state = key_states[class.line.line]
  end
  if option then
    class.unique, class.on, class.max_wait, class.held_limit = parse_class(class_text), on, tonumber(max_wait),
      tonumber(held_limit)
    class.priority = tonumber(priority)
  end
  submit_classes[submit_class] = class
  return class
end

-- add_now puts a job into its place at once: a later job of the call may replace it.
local function add_now(class, score, id, head)
  local n = redis.call('ZADD', ready_key(class, queue, queues, lines), score, id)
  if not class.line then return ring(doorbell, class.queue) end
  local line = touch(class)
  line.offset, line.change = offset_of(head), line.change + n
end

-- replace gives a job that was never claimed another payload, and the time of its new submit. A HELD job gets another
-- tier and queue too. It returns the word.
local function replace(id, old, old_head, old_score, class, descriptor, payload)
  local bytes, of, is_held = #payload, room.share_of[class.tier], is_held_score(old_score)
  if bytes > bytes_of(old_head) and of and room.is_full('bytes', of.bytes) then return 'FULL bytes' end
  local since, score = string.match(old_head, '^(%d+) (%d+)')
  if is_held then score = text(class.priority * base + tonumber(since)) end
  local due = class.delay > 0 and now + class.delay or 0
  if class.max_wait > 0 then due = math.min(due, tonumber(since) + class.max_wait) end
  if due <= now then due = 0 end
  count_living(old, -1, bytes_of(old_head))
  count_waiting(old, not old_score, true, -1, bytes_of(old_head))
  count_living(class.unique, 1, bytes)
  count_waiting(class.unique, not is_held and due == 0, true, 1, bytes)
  room.add('bytes', class.tier, math.max(bytes - bytes_of(old_head), 0))
  local head = table.concat({since, score, text(bytes), descriptor}, ' ')
  redis.call('SET', job .. id, class.class_line .. head .. '\n' .. payload)
  if old.expires then redis.call('ZREM', expiries, id) end
  if class.expires then redis.call('ZADD', expiries, class.expires, id) end
  if is_held then
    redis.call('ZADD', scheduled, text(held_from + due), id)
    note_event(events, id, class.tier, 'HELD')
    return 'REPLACED ' .. id .. ' 0'
  end
  if due > 0 then
    take_ready(queue, queues, lines, old, id)
    redis.call('ZADD', scheduled, text(due), id)
  elseif old_score then
    redis.call('ZREM', scheduled, id)
    add_now(class.unique, score, id, head)
    local t = parse_tried(redis.call('HGET', tried, id))
    redis.call('HSET', tried, id, format_tried(t, format_run(t.run.attempt, '0', '0', t.run.started, text(now), '-')))
  elseif old.line ~= class.unique.line then
    take_ready(queue, queues, lines, old, id)
    add_now(class.unique, score, id, head)
  end
  note_event(events, id, class.tier, due > 0 and 'SCHEDULED' or 'PENDING')
  return 'REPLACED ' .. id .. ' ' .. text(due)
end

-- find_replaceable returns the class, the head and the score in scheduled of a job that was never claimed. A requeued
-- job keeps the payload of its dead letter.
local function find_replaceable(id)
  local class, head = read_start(job .. id)
  if not class or class.generation ~= '1' or redis.call('HEXISTS', leases, id) == 1 then return nil end
  if parse_tried(redis.call('HGET', tried, id)).run.first_claim ~= '0' then return nil end
  return class, head, redis.call('ZSCORE', scheduled, id)
end

-- ask_holder looks who holds the unique key of a submit. It returns the word for a submit that makes no job; else nil
-- and, if the job is to be HELD, what the key has.
local function ask_holder(class, descriptor, payload)
  local key = unique .. class.unique.unique
  local found = read_unique(key)
  if not found then return nil end
  local is_timed = redis.call('PTTL', key) > 0
  if not is_timed and not lives(job, ended, found.id, found.generation) then return nil end
  if class.on == 'return' then return 'UNIQUE ' .. found.id end
  if class.on == 'refuse' or is_timed then return 'TAKEN ' .. found.id end
  if class.on == 'replace' then
    local old, head, score = find_replaceable(found.id)
    if old and old.tier == class.tier and old.queue == class.queue then
      return replace(found.id, old, head, score, class, descriptor, payload)
    end
  end
  local last = found.behind[#found.behind]
  if last then
    local old, head, score = find_replaceable(last)
    if old and is_held_score(score) then return replace(last, old, head, score, class, descriptor, payload) end
  end
  return nil, found
end

-- accept_unique writes a new job that has a unique key at once: the next job of the call may have the same key.
local function accept_unique(id, class, record, head, holder)
  local key = unique .. class.unique.unique
  redis.call('SET', job .. id, record)
  if class.expires then redis.call('ZADD', expiries, class.expires, id) end
  if not holder then
    store_unique(key, id, class.unique, {}, arrived, now)
    if class.delay > 0 then
      redis.call('ZADD', scheduled, class.due, id)
    else
      add_now(class.unique, class.score, id, head)
    end
    return
  end
  holder.behind[#holder.behind + 1] = id
  store_behind(key, holder)
  redis.call('ZADD', scheduled, text(held_from + (class.delay > 0 and now + class.delay or 0)), id)
end

local is_written = false -- the call has changed a job
for i = 5, #ARGV, 5 do
  local id, descriptor, payload, key_and_body = ARGV[i], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]
  local class = submit_classes[ARGV[i + 1]] or read_submit_class(ARGV[i + 1])
  local tier, delay, bytes = class.tier, class.delay, #payload
  local idempotency_key, body
  if key_and_body ~= '' then
    idempotency_key, body = string.match(key_and_body, '^(%S+) (.*)$')
  end
  local word = earlier_answer(id, idempotency_key, body) or 'OK'
  local holder -- what the unique key has, if the job is HELD behind its holder
  if word == 'OK' and (now > not_after or not room.is_whole) then
    word = 'LATE'
  elseif word == 'OK' and class.unique then
    word, holder = ask_holder(class, descriptor, payload)
    word = word or 'OK'
    is_written = is_written or string.sub(word, 1, 8) == 'REPLACED'
  end
  if word == 'OK' and room.quota_spent(class) then
    word = 'QUOTA'
  elseif word == 'OK' then
    local limit = room.full_limit(class, holder)
    if limit then word = 'FULL ' .. limit end
  end
  if word == 'OK' then
    local head = class.head_start .. text(bytes) .. ' ' .. descriptor
    local is_ready, record = delay == 0 and not holder, class.class_line .. head .. '\n' .. payload
    word, known_heads[id], is_written = (holder and 'HELD ' or 'OK ') .. at, head, true
    count_living(class, 1, bytes)
    count_waiting(class, is_ready, true, 1, bytes)
    room.take(class, is_ready, bytes)
    if class.unique then
      accept_unique(id, class, record, head, holder)
    else
      records[#records + 1] = job .. id
      records[#records + 1] = record
      if class.expires then
        expiry_entries[#expiry_entries + 1], expiry_entries[#expiry_entries + 2] = class.expires, id
      end
      if is_ready then
        add_entry(class.line or class, class.score, id, head)
      else
        scheduled_entries[#scheduled_entries + 1], scheduled_entries[#scheduled_entries + 2] = class.due, id
      end
    end
    if events_wanted then
      note_event(events, id, tier, holder and 'HELD' or delay == 0 and 'PENDING' or 'SCHEDULED')
    end
    if idempotency_key then redis.call('SET', idempotency .. idempotency_key, id .. ' ' .. body, 'PX', key_ttl) end
  end
  reply[#reply + 1] = word
end

if is_written then
  bulk_keys('MSET', records)
  bulk('ZADD', scheduled, scheduled_entries)
  bulk('ZADD', expiries, expiry_entries)
  redis.call('SET', clock, at)
  write_counters(counters, owners)
  publish(events, text(now))
end
write_entries(queue, queues, doorbell, job, lines)
return reply
