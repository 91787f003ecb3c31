-- This file stands behind the prelude, in front of every script. It puts the ready jobs into their places: a job
-- without a line into its queue, a job with a line into the line, which stands in the queue as one member.
--
-- A line has the ready jobs of one key that are in one tier and one queue. Its name is "tier:key:queue", its member in
-- the queue "@tier:key", and its score there the tier's priority * base + the line's tag. The names of its keys begin
-- with lines:
--   jobs:<name>           ZSET id -> score: the jobs of the line
--   waiting               ZSET name -> number of jobs, of every line that has any
--   tags:<tier>:<queue>   HASH key -> "tag mean": the tag up to which the key was served, and how long its attempts run
--                         on average, in ms ('-' = none has ended)
--   virtual               HASH tier:queue -> "tag mean": the highest tag that was claimed, and the mean of all keys
--   keys                  HASH key -> "running next behind tier:queue ...": how many of its attempts run, the time of
--                         its rate in ms, the job that it is behind ('-' = none), and its parked lines
--   limits                HASH key -> "running weight interval burst waiting strict paused_until"
--   parked                ZSET key -> the time in ms from which the key may run again, '+inf' = another event tells
-- A tag counts worker time: one per 16 ms and weight. A line that is claimed from is charged the mean of its key; the
-- end of the attempt corrects the charge by what the attempt really took. A line whose key may not run is parked: it
-- is out of the queue until the key may.
local tag_ms = 16

local key_states = {} -- key -> its state, read once per call
local function parse_limits(stored)
  local running, weight, interval, burst, waiting, strict, paused_until =
    string.match(stored, '^(%d+) (%d+) (%S+) (%d+) (%d+) ([01]) (%d+)$')
  if not running then return nil end
  return {
    running = tonumber(running), weight = tonumber(weight), interval = tonumber(interval), burst = tonumber(burst),
    waiting = tonumber(waiting), strict = strict == '1', paused_until = tonumber(paused_until),
  }
end

-- read_keys reads the states of some keys that the call does not have yet.
local function read_keys(lines, wanted)
  local keys = {}
  for _, key in ipairs(wanted) do
    if not key_states[key] then
      keys[#keys + 1] = key
      key_states[key] = {running = 0, next_at = 0, behind = '-', parked = {}, weight = 1}
    end
  end
  for i, stored in pairs(read_column(lines .. 'keys', keys)) do
    local running, next_at, behind, rest = string.match(stored or '', '^(%d+) (%S+) (%S+)(.*)$')
    if running then
      local s = key_states[keys[i]]
      s.running, s.next_at, s.behind, s.is_stored = tonumber(running), tonumber(next_at), behind, true
      for home in string.gmatch(rest, '%S+') do s.parked[#s.parked + 1] = home end
      s.was_parked = #s.parked > 0
    end
  end
  for i, stored in pairs(read_column(lines .. 'limits', keys)) do
    local s = key_states[keys[i]]
    s.limits = parse_limits(stored or '')
    s.weight = s.limits and math.max(s.limits.weight, 1) or 1
  end
end

-- runs_from returns the time from which on a key may start one more attempt.
local function runs_from(s, now)
  local l = s.limits
  if not l then return now end
  if l.paused_until > now then return l.paused_until end
  if l.running > 0 and s.running >= l.running then return math.huge end
  if l.strict and (s.running > 0 or s.behind ~= '-') then return math.huge end
  -- The rate is GCRA (ATM Forum TM 4.0, "virtual scheduling"): next_at is the theoretical arrival time.
  if l.interval > 0 then return math.max(now, s.next_at - l.interval * (l.burst - 1)) end
  return now
end

-- start_one counts an attempt of a key that starts now.
local function start_one(s, now)
  s.running, s.is_changed = s.running + 1, true
  if s.limits and s.limits.interval > 0 then s.next_at = math.max(s.next_at, now) + s.limits.interval end
end

local line_tags = {} -- home -> key -> {tag, mean}
local function tags_of(home)
  line_tags[home] = line_tags[home] or {}
  return line_tags[home]
end

-- read_tags reads the tags of some keys in a tier and queue that the call does not have yet.
local function read_tags(lines, home, wanted)
  local tags, keys = tags_of(home), {}
  for _, key in ipairs(wanted) do
    if tags[key] == nil then keys[#keys + 1], tags[key] = key, false end
  end
  for i, stored in pairs(read_column(lines .. 'tags:' .. home, keys)) do
    local tag, mean = string.match(stored or '', '^(%S+) (%S+)$')
    if tag then tags[keys[i]] = {tag = tonumber(tag), mean = tonumber(mean)} end
  end
end

local virtuals = {} -- tier:queue -> {tag, mean}
local function virtual_of(lines, home)
  if not virtuals[home] then
    local tag, mean = string.match(redis.call('HGET', lines .. 'virtual', home) or '', '^(%S+) (%S+)$')
    virtuals[home] = {tag = tonumber(tag) or 0, mean = tonumber(mean)}
  end
  return virtuals[home]
end

-- ready_key returns the key of the set in which the ready jobs of a class stand.
local function ready_key(class, queue, queues, lines)
  if class.line then return lines .. 'jobs:' .. class.line_name end
  return key_of(class.queue, queue, queues)
end

-- take_ready takes a job out of its place, and returns whether it was ready.
local function take_ready(queue, queues, lines, class, id)
  if class.line then
    touch(class)
    settled[id] = true
  end
  return redis.call('ZREM', ready_key(class, queue, queues, lines), id) == 1
end

-- end_run counts an attempt that ends, and notes for the key of its line how long it ran. The lease has its charge.
local ended_runs = {} -- class, ran, charge, class, ran, charge, ...
local function end_run(lease, now)
  count_running(lease.class, -1)
  if not lease.class.line then return end
  local n = #ended_runs
  ended_runs[n + 1], ended_runs[n + 2] = lease.class, math.max(now - tonumber(lease.started), 0)
  ended_runs[n + 3] = lease.charge
end

-- begin_run counts an attempt that goes on: Redis had lost it.
local begun = {} -- classes
local function begin_run(class)
  count_running(class, 1)
  if class.line then begun[#begun + 1] = class end
end

-- back_off notes that a job waits in scheduled for its next attempt: a strict key starts no other meanwhile.
local backing_off = {} -- key -> id
local function back_off(class, id)
  if class.line then backing_off[class.line] = id end
end

-- read_line returns the line of a key that is in "tier:queue".
local function read_line(key, home)
  local tier, queue_name = string.match(home, '^([^:]+):(.+)$')
  return {
    key = key, tier = tier, queue = queue_name, home = home, name = table.concat({tier, key, queue_name}, ':'),
    member = '@' .. tier .. ':' .. key, entries = {},
  }
end

local write_lines -- see below
do
  -- mean_with returns a mean that moves a fifth of the way to a new value.
  local function mean_with(mean, value) return mean and mean + 0.2 * (value - mean) or value end

  -- charge_runs corrects the tags of the lines whose attempts have ended.
  local function charge_runs(lines)
    local keys_of_home = {}
    for i = 1, #ended_runs, 3 do
      local class = ended_runs[i]
      keys_of_home[class.line_home] = keys_of_home[class.line_home] or {}
      table.insert(keys_of_home[class.line_home], class.line)
      read_keys(lines, {class.line})
    end
    for home, keys in pairs(keys_of_home) do read_tags(lines, home, keys) end
    for i = 1, #ended_runs, 3 do
      local class, ran, charge = ended_runs[i], ended_runs[i + 1], ended_runs[i + 2]
      local s, v, t = key_states[class.line], virtual_of(lines, class.line_home), tags_of(class.line_home)[class.line]
      s.running, s.is_changed = math.max(s.running - 1, 0), true
      v.mean, v.is_changed = mean_with(v.mean, ran), true
      if t then
        touch(class).old_tag = touch(class).old_tag or math.floor(t.tag)
        t.tag, t.mean, t.is_changed = t.tag + (ran - charge) / tag_ms / s.weight, mean_with(t.mean, ran), true
      end
    end
  end

  -- enter_queue puts a line into its queue, behind what its key was served already. Where no line of the tier waits,
  -- the tags begin anew with the present time.
  local function enter_queue(queue, queues, doorbell, job, lines, line, now)
    local id = redis.call('ZRANGE', lines .. 'jobs:' .. line.name, '0', '0')[1]
    if not line.offset then
      local _, head = read_start(job .. (id or ''))
      if not head then return end
      line.offset = offset_of(head)
    end
    local key = key_of(line.queue, queue, queues)
    local front = redis.call('ZRANGEBYSCORE', key, text(line.offset), '+inf', 'LIMIT', '0', '1')[1]
    local v, prefix = virtual_of(lines, line.home), '@' .. line.tier .. ':'
    if not front or string.sub(front, 1, #prefix) ~= prefix then
      v.tag, v.is_changed, line_tags[line.home] = now, true, nil
      redis.call('UNLINK', lines .. 'tags:' .. line.home)
    end
    read_tags(lines, line.home, {line.key})
    local tags = tags_of(line.home)
    local t = tags[line.key] or {tag = v.tag}
    t.tag, t.is_changed = math.max(t.tag, v.tag), true
    tags[line.key] = t
    redis.call('ZADD', key, text(line.offset + math.floor(t.tag)), line.member)
    ring(doorbell, line.queue)
  end

  -- unpark takes a line off the list of its key's parked lines, and returns whether it was there.
  local function unpark(s, home)
    for n, one in ipairs(s.parked) do
      if one == home then
        table.remove(s.parked, n)
        s.is_changed = true
        return true
      end
    end
    return false
  end

  -- place_line puts a line where it belongs: nowhere without jobs, else into its queue, or among its key's parked
  -- lines.
  local function place_line(queue, queues, doorbell, job, lines, line, now)
    local s, key = key_states[line.key], key_of(line.queue, queue, queues)
    local size = redis.call('ZCARD', lines .. 'jobs:' .. line.name)
    if size == 0 then
      redis.call('ZREM', key, line.member)
      redis.call('ZREM', lines .. 'waiting', line.name)
      unpark(s, line.home)
      return
    end
    redis.call('ZADD', lines .. 'waiting', text(size), line.name)
    local score, is_parked = redis.call('ZSCORE', key, line.member), unpark(s, line.home)
    if runs_from(s, now) > now then
      if score then redis.call('ZREM', key, line.member) end
      s.parked[#s.parked + 1], s.is_changed = line.home, true
    elseif is_parked or not score then
      enter_queue(queue, queues, doorbell, job, lines, line, now)
    elseif line.old_tag then
      local t = tags_of(line.home)[line.key]
      local new = t and tonumber(score) - line.old_tag + math.floor(t.tag)
      if new and new ~= tonumber(score) then redis.call('ZADD', key, text(new), line.member) end
    end
  end

  -- wake puts the parked lines of a key into their queues if the key may run.
  local function wake(queue, queues, doorbell, job, lines, key, now)
    local s = key_states[key]
    local from = runs_from(s, now)
    if #s.parked > 0 and from > now then
      redis.call('ZADD', lines .. 'parked', from == math.huge and '+inf' or text(math.ceil(from)), key)
      return
    end
    if #s.parked == 0 and not s.was_parked then return end
    for _, home in ipairs(s.parked) do
      enter_queue(queue, queues, doorbell, job, lines, read_line(key, home), now)
    end
    redis.call('ZREM', lines .. 'parked', key)
    if #s.parked > 0 then s.parked, s.is_changed = {}, true end
  end

  -- write_keys writes the states of keys and the tags that the call changed.
  local function write_keys(lines, now)
    for key, s in pairs(key_states) do
      local is_idle = s.running == 0 and #s.parked == 0 and s.behind == '-' and s.next_at <= now
      if s.is_changed and is_idle and s.is_stored then
        redis.call('HDEL', lines .. 'keys', key)
      elseif s.is_changed and not is_idle then
        local stored = {text(s.running), string.format('%.3f', s.next_at), s.behind, table.concat(s.parked, ' ')}
        redis.call('HSET', lines .. 'keys', key, table.concat(stored, ' '))
      end
      s.is_stored, s.is_changed = not is_idle, false
    end
    for home, tags in pairs(line_tags) do
      for key, t in pairs(tags) do
        if t and t.is_changed then
          local mean = t.mean and string.format('%.3f', t.mean) or '-'
          redis.call('HSET', lines .. 'tags:' .. home, key, string.format('%.4f', t.tag) .. ' ' .. mean)
        end
      end
    end
    for home, v in pairs(virtuals) do
      if v.is_changed then
        local mean = v.mean and string.format('%.3f', v.mean) or '-'
        redis.call('HSET', lines .. 'virtual', home, string.format('%.4f', v.tag) .. ' ' .. mean)
      end
    end
  end

  -- write_lines puts the lines whose jobs or whose keys the call changed into their places. woken are keys to look at.
  function write_lines(queue, queues, doorbell, job, lines, woken)
    local is_idle = not next(touched) and #ended_runs + #begun + #woken == 0
    if is_idle and not next(backing_off) then return end
    local now = time_ms()
    charge_runs(lines)
    local keys = {}
    for _, key in ipairs(woken) do keys[#keys + 1] = key end
    for _, line in pairs(touched) do keys[#keys + 1] = line.key end
    for key in pairs(backing_off) do keys[#keys + 1] = key end
    for _, class in ipairs(begun) do keys[#keys + 1] = class.line end
    read_keys(lines, keys)
    for _, class in ipairs(begun) do
      local s = key_states[class.line]
      s.running, s.is_changed = s.running + 1, true
    end
    for _, line in pairs(touched) do
      bulk('ZADD', lines .. 'jobs:' .. line.name, line.entries)
    end
    for key, s in pairs(key_states) do
      if settled[s.behind] then s.behind, s.is_changed = '-', true end
      local id = backing_off[key]
      if id and s.limits and s.limits.strict then s.behind, s.is_changed = id, true end
    end
    for _, line in pairs(touched) do place_line(queue, queues, doorbell, job, lines, line, now) end
    for key in pairs(key_states) do wake(queue, queues, doorbell, job, lines, key, now) end
    write_keys(lines, now)
  end
end

-- write_entries puts the jobs that add_entry kept into their places, and rings.
local function write_entries(queue, queues, doorbell, job, lines, woken)
  for name, entries in pairs(queue_entries) do
    bulk('ZADD', key_of(name, queue, queues), entries)
    ring(doorbell, name)
  end
  write_lines(queue, queues, doorbell, job, lines, woken or {})
end

-- take_waiting takes a job that waits out of its place, or out of scheduled, and returns what tried has of it.
local function take_waiting(queue, queues, scheduled, expiries, tried, lines, id, class, head)
  local is_ready = take_ready(queue, queues, lines, class, id)
  redis.call('ZREM', scheduled, id)
  if class.expires then redis.call('ZREM', expiries, id) end
  local t = parse_tried(redis.call('HGET', tried, id))
  count_waiting(class, is_ready, t.run.first_claim == '0', -1, bytes_of(head))
  return t
end

-- expire_waiting ends a waiting job for which is_expired is true.
local function expire_waiting(queue, queues, scheduled, expiries, tried, lines, checkpoints, events, id, class, head,
    at)
  local t = take_waiting(queue, queues, scheduled, expiries, tried, lines, id, class, head)
  end_waiting(checkpoints, id, class, head, 'EXPIRED', at, t)
  note_event(events, id, class.tier, 'EXPIRED', t.run.attempt)
end
