-- submit: accepts new jobs: into their queue at their score or, delayed, into scheduled.
-- KEYS   queue queues scheduled counters owners clock doorbell job ended idempotency events
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
--        = any number of jobs
-- ARGV[n+2] descriptor: the rest of the head: 'type trace' and, if the job has any, ' options'
-- ARGV[n+3] payload: JSON
-- ARGV[n+4] key_and_body: 'key body': the Idempotency-Key and the hash of the request's body | '' no Idempotency-Key
-- REPLY  per job: OK arrived | QUOTA (that many of its owner's jobs live) | FULL (its queue is full: queue; its tier's
--        share is taken: fresh, delayed, delayedbytes, living or bytes) | LATE (not_after has passed) | DUPLICATE
--        arrived | REPLAY id (that job has the Idempotency-Key) | MISMATCH (the same, and with another body)
-- TWICE  the id decides: a job that is there answers DUPLICATE and stays as it is
local queue, queues, scheduled, counters, owners, clock, doorbell, job, ended, idempotency, events = unpack(KEYS)
local base, not_after, key_ttl, shares = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], ARGV[4]

local now = time_ms()
local arrived = math.max(now, tonumber(redis.call('GET', clock) or 0))
local at = text(arrived)
local reply, records, scheduled_entries = {}, {}, {}
local events_wanted = has_listeners(events)

-- Tiers fill a limit one after the other, the smallest share first, and each at most to its share. What a tier has
-- beyond its share (jobs that came due, were requeued or restored) keeps no other tier out.
local limits = {'fresh', 'delayed', 'delayedbytes', 'living', 'bytes'} -- in the order of the shares
local fills = {} -- limit -> list of {tier, share, n} in that order; others = what tiers without a plan have
local used = {} -- limit -> how much of it is taken, or more than that: see is_full
local counts = {} -- counter -> its value before this call

-- add_up_used computes exactly how much of a limit is taken.
local function add_up_used(limit)
  local sum = fills[limit].others
  for _, fill in ipairs(fills[limit]) do sum = math.max(sum, math.min(sum + fill.n, fill.share)) end
  used[limit] = sum
end

-- read_fills reads the counters into fills and used.
local function read_fills()
  local fields = redis.call('HGETALL', counters)
  for i = 1, #fields, 2 do counts[fields[i]] = tonumber(fields[i + 1]) end
  local function tier_count(tier, counter) return math.max(counts[tier .. ':' .. counter] or 0, 0) end
  for _, limit in ipairs(limits) do fills[limit] = {others = counts[limit] or 0} end
  for tier, a, b, c, d, e in string.gmatch(shares, '(%S+) (%d+) (%d+) (%d+) (%d+) (%d+)') do
    local tier_shares = {a, b, c, d, e}
    for i, limit in ipairs(limits) do
      local n = tier_count(tier, limit)
      -- Living jobs have no counter of their own: they are ready, scheduled or running.
      if limit == 'living' then
        n = tier_count(tier, 'ready') + tier_count(tier, 'scheduled') + tier_count(tier, 'running')
      end
      local fill = {tier = tier, share = tonumber(tier_shares[i]), n = n}
      table.insert(fills[limit], fill)
      fills[limit][tier], fills[limit].others = fill, fills[limit].others - n
    end
  end
  for _, limit in ipairs(limits) do
    fills[limit].others = math.max(fills[limit].others, 0)
    add_up_used(limit)
  end
end
read_fills()

-- add_to_fill counts what a job of this call adds to a limit. It adds all of it to used, which is at most too much.
local function add_to_fill(limit, tier, n)
  local fill = fills[limit][tier]
  if fill then fill.n = fill.n + n end
  used[limit] = used[limit] + n
end

-- is_full says whether used has reached a number. Only then is used added up exactly.
local function is_full(limit, number)
  if used[limit] >= number then add_up_used(limit) end
  return used[limit] >= number
end

-- queue_full says whether a queue has as many jobs that were never claimed as it may have.
local function queue_full(class, counter)
  if not class.queue_limit then return false end
  local name = '@' .. class.queue
  local new = counter_changes[counter] and counter_changes[counter][name] or 0
  return (counts[name .. ':' .. counter] or 0) + new >= class.queue_limit
end

-- exceeded_limit returns the limit that has no capacity for a job of this class, or nil.
local function exceeded_limit(class)
  local count_limit = class.delay == 0 and 'fresh' or 'delayed'
  if queue_full(class, count_limit) then return 'queue' end
  if is_full(count_limit, class.limit) then return count_limit end
  for _, limit in ipairs(class.delay == 0 and {'living', 'bytes'} or {'delayedbytes', 'living', 'bytes'}) do
    local fill = fills[limit][class.tier]
    if fill and is_full(limit, fill.share) then return limit end
  end
  return nil
end

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

-- quota_spent says whether as many of the owner's jobs live as the quota allows.
local living_before = {} -- owner -> how many of its jobs lived before this call
local function quota_spent(class)
  local owner = class.owner
  if not class.quota or owner == '-' then return false end
  living_before[owner] = living_before[owner] or tonumber(redis.call('HGET', owners, owner) or 0)
  return living_before[owner] + (owner_changes[owner] or 0) >= class.quota
end

-- read_submit_class parses a submit_class once per call: most jobs of a call share one.
local submit_classes = {} -- submit_class as text -> its parts
local function read_submit_class(submit_class)
  local tier, queue_name, max_retries, owner, max_run, priority, limit, delay, quota, queue_limit =
    string.match(submit_class, '^(%S+) (%S+) (%d+) (%S+) (%d+) (%d+) (%d+) (%d+) (%S+) (%S+)$')
  local score = text(priority * base + arrived)
  local class_text = table.concat({tier, queue_name, '1', max_retries, owner, max_run}, ' ')
  local class = {
    tier = tier, queue = queue_name, owner = owner, limit = tonumber(limit), delay = tonumber(delay),
    quota = tonumber(quota), queue_limit = tonumber(queue_limit), score = score, class_line = class_text .. '\n',
    head_start = at .. ' ' .. score .. ' ',
  }
  class.due = text(now + class.delay)
  submit_classes[submit_class] = class
  return class
end

for i = 5, #ARGV, 5 do
  local id, descriptor, payload, key_and_body = ARGV[i], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]
  local class = submit_classes[ARGV[i + 1]] or read_submit_class(ARGV[i + 1])
  local tier, delay, bytes = class.tier, class.delay, #payload
  local idempotency_key, body
  if key_and_body ~= '' then
    idempotency_key, body = string.match(key_and_body, '^(%S+) (.*)$')
  end
  local word = earlier_answer(id, idempotency_key, body) or 'OK'
  if word == 'OK' and now > not_after then
    word = 'LATE'
  elseif word == 'OK' and quota_spent(class) then
    word = 'QUOTA'
  elseif word == 'OK' then
    local limit = exceeded_limit(class)
    if limit then word = 'FULL ' .. limit end
  end
  if word == 'OK' then
    local head = class.head_start .. text(bytes) .. ' ' .. descriptor
    word, known_heads[id] = 'OK ' .. at, head
    records[#records + 1] = job .. id
    records[#records + 1] = class.class_line .. head .. '\n' .. payload
    count_living(class, 1, bytes)
    count_waiting(class, delay == 0, true, 1, bytes)
    add_to_fill('living', tier, 1)
    add_to_fill('bytes', tier, bytes)
    if delay == 0 then
      add_entry(class.queue, class.score, id)
      add_to_fill('fresh', tier, 1)
    else
      scheduled_entries[#scheduled_entries + 1], scheduled_entries[#scheduled_entries + 2] = class.due, id
      add_to_fill('delayed', tier, 1)
      add_to_fill('delayedbytes', tier, bytes)
    end
    if events_wanted then note_event(events, id, tier, delay == 0 and 'PENDING' or 'SCHEDULED') end
    if idempotency_key then redis.call('SET', idempotency .. idempotency_key, id .. ' ' .. body, 'PX', key_ttl) end
  end
  reply[#reply + 1] = word
end

if #records > 0 then
  bulk_keys('MSET', records)
  bulk('ZADD', scheduled, scheduled_entries)
  redis.call('SET', clock, at)
  write_counters(counters, owners)
  publish(events, text(now))
end
write_entries(queue, queues, doorbell)
return reply
