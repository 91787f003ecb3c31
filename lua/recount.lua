-- recount: holds a partition's own keys to their types, and its counters, owners and unacked to its sets. It repairs
--        the counts where the sets can be counted in one step.
-- KEYS   queue queues scheduled expiries heartbeat_deadlines run_deadlines outbox counters owners clock doorbell
--        quarantine crashed stuck job tried leases checkpoints ended unacked reserved reserving lines
-- ARGV[1] limit: how many jobs one step may count | 0 no job, the script looks at the types only
-- ARGV[2] names: of the declared queues, with a space between them; '' none
-- REPLY  per finding: REPAIRED kind detail | REPORTED kind detail
-- TWICE  the script acts on what it finds: it does not find again what it repaired
local queue, queues, scheduled, expiries, heartbeat_deadlines, run_deadlines, outbox, counters, owners, clock, doorbell,
  quarantine, crashed, stuck, job, tried, leases, checkpoints, ended, unacked, reserved, reserving,
  lines = unpack(KEYS)
local limit, names = tonumber(ARGV[1]), 'main ' .. ARGV[2]
local reply = {}

-- repair_type deletes a key of another type, which fails every script that uses it. tierq did not write what the key
-- holds, and the audit fills the sets again from the jobs. Only keys that age may have a time to live.
local function repair_type(key, name, wanted_type, ages)
  local stored_type = redis.call('TYPE', key).ok
  if stored_type ~= 'none' and stored_type ~= wanted_type then
    redis.call('DEL', key)
    reply[#reply + 1] = 'REPAIRED type ' .. name .. ' was a ' .. stored_type
  elseif not ages and redis.call('PTTL', key) >= 0 then
    redis.call('PERSIST', key)
    reply[#reply + 1] = 'REPAIRED ttl ' .. name
  end
end

local queue_names = {}
for name in string.gmatch(names, '%S+') do
  queue_names[#queue_names + 1] = name
  repair_type(key_of(name, queue, queues), key_of(name, 'queue', 'queue:'), 'zset')
  repair_type(key_of(name, doorbell, doorbell .. ':'), key_of(name, 'doorbell', 'doorbell:'), 'list')
  if redis.call('LLEN', key_of(name, doorbell, doorbell .. ':')) > 1 then
    redis.call('LTRIM', key_of(name, doorbell, doorbell .. ':'), '0', '0')
    reply[#reply + 1] = 'REPAIRED ' .. key_of(name, 'doorbell', 'doorbell:') .. ' more than one token'
  end
end
repair_type(scheduled, 'scheduled', 'zset')
repair_type(expiries, 'expiries', 'zset')
repair_type(heartbeat_deadlines, 'heartbeat_deadlines', 'zset')
repair_type(run_deadlines, 'run_deadlines', 'zset')
repair_type(outbox, 'outbox', 'zset')
repair_type(counters, 'counters', 'hash')
repair_type(owners, 'owners', 'hash')
repair_type(tried, 'tried', 'hash')
repair_type(leases, 'leases', 'hash')
repair_type(checkpoints, 'checkpoints', 'hash')
repair_type(unacked, 'unacked', 'hash')
repair_type(reserved, 'reserved', 'hash')
repair_type(reserving, 'reserving', 'zset')
repair_type(clock, 'clock', 'string')
repair_type(quarantine, 'quarantine', 'zset')
repair_type(crashed, 'suspects:crashed', 'zset')
repair_type(stuck, 'suspects:stuck', 'zset')
repair_type(lines .. 'waiting', 'lines:waiting', 'zset')
repair_type(lines .. 'parked', 'lines:parked', 'zset')
repair_type(lines .. 'keys', 'lines:keys', 'hash')
repair_type(lines .. 'virtual', 'lines:virtual', 'hash')
repair_type(lines .. 'limits', 'lines:limits', 'hash')
local homes = redis.call('HGETALL', lines .. 'virtual')
for i = 1, #homes, 2 do
  repair_type(lines .. 'tags:' .. homes[i], 'lines:tags:' .. homes[i], 'hash')
end
local minute = math.floor(time_ms() / 60000)
for m = minute - 5, minute do
  repair_type(lines .. 'spent:' .. text(m), 'lines:spent:' .. text(m), 'hash', true)
end

local stored_counters = {} -- counter -> its value
local tier_sums = {} -- counter without its tier -> the sum over the tiers
local fields = redis.call('HGETALL', counters)
for i = 1, #fields, 2 do
  -- A counter that is no number fails every script that changes it.
  if not string.match(fields[i + 1], '^-?%d+$') then
    redis.call('HDEL', counters, fields[i])
    reply[#reply + 1] = 'REPAIRED counter ' .. fields[i] .. ' was no number'
    fields[i + 1] = 0
  end
  stored_counters[fields[i]] = tonumber(fields[i + 1])
  local counter = string.match(fields[i], '^[^@#].*:(%l+)$')
  if counter then tier_sums[counter] = (tier_sums[counter] or 0) + stored_counters[fields[i]] end
end

local stored_owners, owners_sum = {}, 0 -- owner -> how many of its jobs live; how many jobs of all owners live
fields = redis.call('HGETALL', owners)
for i = 1, #fields, 2 do
  local n = string.match(fields[i + 1], '^%d+$') and #fields[i + 1] < 16 and tonumber(fields[i + 1]) or 0
  if n == 0 then -- write_counters removes the field of an owner whose count comes to zero
    redis.call('HDEL', owners, fields[i])
    reply[#reply + 1] = 'REPAIRED counter owner ' .. fields[i] .. ' was no number of jobs'
  else
    stored_owners[fields[i]], owners_sum = n, owners_sum + n
  end
end
if limit == 0 then return reply end

-- compare_counter reports a counter that differs from what was counted, and repairs it if the count is exact.
local function compare_counter(field, stored, counted, is_exact)
  if stored == counted then return end
  if is_exact and counted == 0 then redis.call('HDEL', counters, field) end
  if is_exact and counted ~= 0 then redis.call('HSET', counters, field, text(counted)) end
  local word = is_exact and 'REPAIRED' or 'REPORTED'
  reply[#reply + 1] = word .. ' counter ' .. field .. ' was ' .. text(stored) .. ', counted ' .. text(counted)
end

-- compare_owner repairs an owner's count that differs from what was counted.
local function compare_owner(owner, stored, counted)
  if stored == counted then return end
  if counted == 0 then redis.call('HDEL', owners, owner) else redis.call('HSET', owners, owner, text(counted)) end
  reply[#reply + 1] = 'REPAIRED counter owner ' .. owner .. ' was ' .. text(stored) .. ', counted ' .. text(counted)
end

local function sorted(set)
  local names = {}
  for name in pairs(set) do names[#names + 1] = name end
  table.sort(names)
  return names
end

local recounted = {} -- counter -> its value by the sets
local function add_recounted(field, n) recounted[field] = (recounted[field] or 0) + n end

-- add_recounted_job counts a job for its tier and, unless it is in main, for its queue.
local function add_recounted_job(class, counter)
  add_recounted(class.tier .. ':' .. counter, 1)
  if class.queue ~= 'main' then add_recounted('@' .. class.queue .. ':' .. counter, 1) end
end

-- recount_living counts a living job for its tier's counter, its bytes and its owner.
local function recount_living(id, class, head, counter, log_bytes)
  local bytes = bytes_of(head) + checkpoint_bytes(checkpoints, id) + log_bytes
  count_living(class, 1, bytes)
  add_recounted_job(class, counter)
  add_recounted(class.tier .. ':bytes', bytes)
  add_recounted('bytes', bytes)
end

-- recount_waiting counts the waiting jobs of a set. A job that was never claimed also counts for unclaimed_counter.
local function recount_waiting(ids, counter, unclaimed_counter)
  local running, tried_texts = read_column(leases, ids), read_column(tried, ids)
  for n, id in ipairs(ids) do
    local class, head = nil, nil
    if redis.call('TYPE', job .. id).ok == 'string' and not running[n] then class, head = read_start(job .. id) end
    if class then
      local t = parse_tried(tried_texts[n])
      recount_living(id, class, head, counter, t.log_bytes)
      if t.run.first_claim == '0' then
        add_recounted_job(class, unclaimed_counter)
        add_recounted(unclaimed_counter, 1)
        if unclaimed_counter == 'delayed' then
          add_recounted(class.tier .. ':delayedbytes', bytes_of(head))
          add_recounted('delayedbytes', bytes_of(head))
        end
      end
    end
  end
end

-- recount_places counts the reserved places, and removes those that cannot be read.
local function recount_places()
  local stored = redis.call('HGETALL', reserved)
  for i = 1, #stored, 2 do
    local place = places.parse(stored[i + 1])
    if not place then
      redis.call('HDEL', reserved, stored[i])
      reply[#reply + 1] = 'REPAIRED place ' .. stored[i] .. ' cannot be read'
    else
      count_living(place, 1, place.bytes)
      add_recounted(place.tier .. ':reserved', 1)
      add_recounted(place.tier .. ':bytes', place.bytes)
      add_recounted('bytes', place.bytes)
      local unclaimed_counter = ({f = 'fresh', d = 'delayed'})[place.counts_as]
      if unclaimed_counter then
        add_recounted_job(place, unclaimed_counter)
        add_recounted(unclaimed_counter, 1)
      end
      if place.counts_as == 'd' then
        add_recounted(place.tier .. ':delayedbytes', place.bytes)
        add_recounted('delayedbytes', place.bytes)
      end
      if place.counts_as == 'f' and place.line then
        add_recounted('#' .. place.tier .. ':' .. place.line .. ':' .. place.queue .. ':reserved', 1)
      end
    end
  end
end

-- recount_running counts the jobs of a set that have a lease, also for the keys of their lines.
local running_of = {} -- key of lines -> how many of its attempts run
local function recount_running(ids)
  for n, stored in pairs(read_column(leases, ids)) do
    local lease, head = parse_lease(stored)
    if lease then
      recount_living(ids[n], lease.class, head, 'running', lease.log_bytes)
      local line_key = lease.class.line
      if line_key then running_of[line_key] = (running_of[line_key] or 0) + 1 end
    end
  end
end

-- recount_keys repairs how many attempts of a key run, and the job that a strict key is behind.
local function recount_keys()
  local keys, stored = {}, redis.call('HGETALL', lines .. 'keys')
  for i = 1, #stored, 2 do keys[#keys + 1] = stored[i] end
  for key in pairs(running_of) do keys[#keys + 1] = key end
  read_keys(lines, keys)
  local woken = {}
  for _, key in ipairs(sorted(key_states)) do
    local s, counted = key_states[key], running_of[key] or 0
    if s.running ~= counted then
      reply[#reply + 1] = 'REPAIRED line ' .. key .. ' runs ' .. text(s.running) .. ', counted ' .. text(counted)
      s.running, s.is_changed, woken[#woken + 1] = counted, true, key
    end
    if s.behind ~= '-' and not redis.call('ZSCORE', scheduled, s.behind) then
      reply[#reply + 1] = 'REPAIRED line ' .. key .. ' behind ' .. s.behind
      s.behind, s.is_changed, woken[#woken + 1] = '-', true, key
    end
  end
  write_entries(queue, queues, doorbell, job, lines, woken)
end

local ready_count, scheduled_count = 0, redis.call('ZCARD', scheduled)
local line_names = redis.call('ZRANGE', lines .. 'waiting', '0', '-1')
for _, name in ipairs(queue_names) do
  ready_count = ready_count + redis.call('ZCARD', key_of(name, queue, queues))
end
for _, name in ipairs(line_names) do
  local tier, line_key, queue_name = string.match(name, '^([^:]+):([^:]+):(.+)$')
  local is_in_queue = tier and redis.call('ZSCORE', key_of(queue_name, queue, queues), '@' .. tier .. ':' .. line_key)
  ready_count = ready_count + redis.call('ZCARD', lines .. 'jobs:' .. name) - (is_in_queue and 1 or 0)
end
local running_count, outbox_count = redis.call('ZCARD', heartbeat_deadlines), redis.call('ZCARD', outbox)
local living_count = ready_count + scheduled_count + running_count + redis.call('HLEN', reserved)
if living_count <= limit then
  for _, name in ipairs(queue_names) do
    recount_waiting(redis.call('ZRANGE', key_of(name, queue, queues), '0', '-1'), 'ready', 'fresh')
  end
  for _, name in ipairs(line_names) do
    recount_waiting(redis.call('ZRANGE', lines .. 'jobs:' .. name, '0', '-1'), 'ready', 'fresh')
  end
  recount_waiting(redis.call('ZRANGE', scheduled, '0', '-1'), 'scheduled', 'delayed')
  recount_running(redis.call('ZRANGE', heartbeat_deadlines, '0', '-1'))
  recount_keys()
  recount_places()
  for field in pairs(stored_counters) do
    if field ~= 'acknowledged' and field ~= 'outbox_bytes' and string.match(field, '^[%w@#]') then
      add_recounted(field, 0) -- else it is a mark of the reserved places
    end
  end
  for _, field in ipairs(sorted(recounted)) do
    compare_counter(field, stored_counters[field] or 0, recounted[field], true)
  end
  for owner in pairs(stored_owners) do owner_changes[owner] = owner_changes[owner] or 0 end
  for _, owner in ipairs(sorted(owner_changes)) do
    compare_owner(owner, stored_owners[owner] or 0, owner_changes[owner])
  end
else
  if owners_sum > living_count then compare_counter('owners (all)', owners_sum, living_count) end
  compare_counter('ready (all)', tier_sums.ready or 0, ready_count)
  compare_counter('scheduled (all)', tier_sums.scheduled or 0, scheduled_count)
  compare_counter('running (all)', tier_sums.running or 0, running_count)
  compare_counter('fresh', stored_counters.fresh or 0, tier_sums.fresh or 0)
  compare_counter('delayed', stored_counters.delayed or 0, tier_sums.delayed or 0)
  compare_counter('bytes', stored_counters.bytes or 0, tier_sums.bytes or 0)
  compare_counter('delayedbytes', stored_counters.delayedbytes or 0, tier_sums.delayedbytes or 0)
end

-- find_lost puts the completed jobs of a slice back into the outbox that it lacks. unacked says that there are some;
-- SQL takes an outcome that it has once more without a change.
local function find_lost(slice_name)
  local fields = redis.call('HGETALL', ended .. slice_name)
  for i = 1, #fields, 2 do
    local id = fields[i]
    local e = parse_ended(fields[i + 1])
    local member = e and outbox_member(id, e.class.generation, e.run.attempt)
    if e and e.state == 'COMPLETED' and not redis.call('ZSCORE', outbox, member) then
      redis.call('ZADD', outbox, e.at, member)
      reply[#reply + 1] = 'REPAIRED missing ' .. id
    end
  end
end

-- count_outbox returns the bytes that wait for SQL, and how many jobs of each slice wait. It gives members the names
-- by which acknowledge looks for their jobs.
local function count_outbox()
  local bytes, counted = 0, {}
  local members = redis.call('ZRANGE', outbox, '0', '-1', 'WITHSCORES')
  for i = 1, #members, 2 do
    local id = string.sub(members[i], 1, 36)
    local e, head, detail = read_ended(ended, id)
    if e then
      local result, log_bytes = parse_detail(detail)
      bytes = bytes + #result + log_bytes + (e.state ~= 'COMPLETED' and bytes_of(head) or 0)
      counted[slice_of(id)] = (counted[slice_of(id)] or 0) + 1
      local member = outbox_member(id, e.class.generation, e.run.attempt)
      if member ~= members[i] then
        redis.call('ZREM', outbox, members[i])
        redis.call('ZADD', outbox, members[i + 1], member)
        reply[#reply + 1] = 'REPAIRED misplaced ' .. id
      end
    end
  end
  return bytes, counted
end

-- recount_outbox holds outbox_bytes, unacked and the times to live of slices to the jobs in the outbox.
local function recount_outbox()
  local stored, stored_unacked = redis.call('HGETALL', unacked), {}
  local _, counted = count_outbox()
  for i = 1, #stored, 2 do
    local slice_name, n = stored[i], tonumber(stored[i + 1]) or 0
    stored_unacked[slice_name] = n
    if n > (counted[slice_name] or 0) then find_lost(slice_name) end
  end
  local bytes
  bytes, counted = count_outbox()
  compare_counter('outbox_bytes', stored_counters.outbox_bytes or 0, bytes, true)
  for slice_name, n in pairs(stored_unacked) do
    local right = counted[slice_name] or 0
    if right == 0 then
      redis.call('HDEL', unacked, slice_name)
      redis.call('PEXPIRE', ended .. slice_name, '3600000')
    end
    if n ~= right then
      if right > 0 then redis.call('HSET', unacked, slice_name, text(right)) end
      reply[#reply + 1] = 'REPAIRED unacked ' .. slice_name .. ' was ' .. text(n) .. ', counted ' .. text(right)
    end
  end
  for slice_name, right in pairs(counted) do
    if not stored_unacked[slice_name] then
      redis.call('HSET', unacked, slice_name, text(right))
      reply[#reply + 1] = 'REPAIRED unacked ' .. slice_name .. ' was 0, counted ' .. text(right)
    end
    if redis.call('PERSIST', ended .. slice_name) == 1 and stored_unacked[slice_name] == right then
      reply[#reply + 1] = 'REPAIRED ttl ' .. slice_name
    end
  end
end
if outbox_count <= limit then recount_outbox() end
return reply
