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
--   spent:<minute>        HASH tier:key:queue -> "ended ms since": how many attempts of the line ended in the minute,
--                         how much worker time the minute has of them, and from when on; tier -> the same of all its
--                         lines. The minutes count from 1970, and the key goes after six more minutes
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
      key_states[key] = {
        running = 0, next_at = 0, behind = '-', parked = {}, weight = 1, is_stored = false, is_changed = false,
      }
    end
  end
  for i, stored in pairs(read_column(lines .. 'keys', keys)) do
    local running, next_at, behind, rest = string.match(stored or '', '^(%d+) (%S+) (%S+)(.*)$')
    if running then
      local s = key_states[keys[i]]
      s.running, s.next_at, s.behind, s.is_stored = tonumber(running), tonumber(next_at), behind, true
      if #rest > 1 then
        for home in string.gmatch(rest, '%S+') do s.parked[#s.parked + 1] = home end
        s.was_parked = #s.parked > 0
      end
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
    if tag then tags[keys[i]] = {tag = tonumber(tag), mean = tonumber(mean), is_changed = false} end
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
  local was_ready = redis.call('ZREM', ready_key(class, queue, queues, lines), id) == 1
  if class.line then
    local line = touch(class)
    settled[id] = true
    if was_ready then line.change = line.change - 1 end
  end
  return was_ready
end

-- end_run counts an attempt that ends, and notes for its line how long the attempt ran. The lease has its charge. Most
-- attempts that one claim started share their lease.
local ended_runs = {} -- runs {class, ran, charge, n}: n attempts of the class ran so long; and lease -> its run
local function end_run(lease, now)
  count_running(lease.class, -1)
  if not lease.class.line then return end
  local run = ended_runs[lease]
  if not run then
    run = {class = lease.class, ran = math.max(now - tonumber(lease.started), 0), charge = lease.charge, n = 0}
    ended_runs[lease], ended_runs[#ended_runs + 1] = run, run
  end
  run.n = run.n + 1
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
    member = '@' .. tier .. ':' .. key, entries = {}, change = 0,
  }
end

local write_lines -- see below
do
  -- mean_with returns a mean that moves a fifth of the way to a value, n times.
  local function mean_with(mean, value, n) return mean and value + 0.8 ^ n * (mean - value) or value end

  -- charge_runs corrects the tags of the lines whose attempts have ended, and returns those whose scores differ now, by
  -- their queues.
  local function charge_runs(lines)
    local keys, keys_of_home, moved = {}, {}, {}
    for _, run in ipairs(ended_runs) do
      local class = run.class
      keys[#keys + 1] = class.line
      keys_of_home[class.line_home] = keys_of_home[class.line_home] or {}
      table.insert(keys_of_home[class.line_home], class.line)
    end
    read_keys(lines, keys)
    for home, some in pairs(keys_of_home) do read_tags(lines, home, some) end
    for _, run in ipairs(ended_runs) do
      local class, ran, n = run.class, run.ran, run.n
      local s, v, t = key_states[class.line], virtual_of(lines, class.line_home), tags_of(class.line_home)[class.line]
      s.running, s.is_changed = math.max(s.running - n, 0), true
      v.mean, v.is_changed = mean_with(v.mean, ran, n), true
      if t then
        local of_queue = moved[class.queue] or {}
        moved[class.queue], of_queue[class.line_name] = of_queue, of_queue[class.line_name] or {
          class = class, old = math.floor(t.tag),
        }
        t.tag, t.is_changed = t.tag + n * (ran - run.charge) / tag_ms / s.weight, true
        t.mean = mean_with(t.mean, ran, n)
      end
    end
    return moved
  end

  -- spend adds n attempts that end now to what a line, or a tier, spent in the last minutes.
  local minute_ms, minutes_kept = 60000, 6
  local spent = {} -- how many minutes before the last one, and 1 -> name -> {ended, ms, since}
  local function spend(name, ran, n, now)
    local last, from = math.floor(now / minute_ms), now - ran
    for m = math.max(math.floor(from / minute_ms), last - minutes_kept + 1), last do
      local of_minute, since = spent[last - m + 1] or {}, math.max(from, m * minute_ms)
      local of = of_minute[name] or {ended = 0, ms = 0, since = since}
      spent[last - m + 1], of_minute[name] = of_minute, of
      of.ms, of.since = of.ms + n * (math.min(now, (m + 1) * minute_ms) - since), math.min(of.since, since)
      if m == last then of.ended = of.ended + n end
    end
  end

  -- write_spent writes what the attempts that have ended spent.
  local function write_spent(lines, now)
    for _, run in ipairs(ended_runs) do
      spend(run.class.line_name, run.ran, run.n, now)
      spend(run.class.tier, run.ran, run.n, now)
    end
    for ago, of_minute in pairs(spent) do
      local minute, names, texts = math.floor(now / minute_ms) - ago + 1, {}, {}
      local key = lines .. 'spent:' .. text(minute)
      for name in pairs(of_minute) do names[#names + 1] = name end
      local is_there = redis.call('EXISTS', key) == 1
      local stored = is_there and read_values('HMGET', key, names) or {}
      for i, name in ipairs(names) do
        local of = of_minute[name]
        local ended, ms, since = string.match(stored[i] or '', '^(%d+) (%d+) (%d+)$')
        local earliest = math.min(of.since, tonumber(since) or of.since)
        texts[#texts + 1] = name
        texts[#texts + 1] = string.format('%d %d %d', of.ended + (ended or 0), of.ms + (ms or 0), earliest)
      end
      bulk('HSET', key, texts)
      if not is_there then redis.call('PEXPIRE', key, text((minute + 1 + minutes_kept) * minute_ms - now)) end
    end
  end

  -- The members of queues that the call removes and adds, by the queue: written at once.
  local removed, added = {}, {} -- name of a queue -> members; -> score, member, score, member, ...
  local function keep(list, name, value, another)
    local kept = list[name] or {}
    list[name] = kept
    local n = #kept
    kept[n + 1], kept[n + 2] = value, another
  end

  -- move_lines gives the lines in their queues the scores of their corrected tags, unless the call places them anyway.
  local function move_lines(queue, queues, moved)
    for name, of_queue in pairs(moved) do
      local members, tags = {}, {}
      for line_name, one in pairs(of_queue) do
        local class, t = one.class, tags_of(one.class.line_home)[one.class.line]
        local line, change = touched[line_name], math.floor(t.tag) - one.old
        if line then
          line.old_tag = line.old_tag or one.old
        elseif change ~= 0 then
          members[#members + 1], tags[#tags + 1] = class.line_member, change
        end
      end
      for i, score in pairs(read_values('ZMSCORE', key_of(name, queue, queues), members)) do
        if score then keep(added, name, text(score + tags[i]), members[i]) end
      end
    end
  end

  -- enter_queue puts a line into its queue, behind what its key was served already. Where no line of the tier waits,
  -- the tags begin anew with the present time.
  local busy = {} -- tier:queue -> true where the call knows that a line waits
  local function enter_queue(queue, queues, job, lines, line, now)
    if not line.offset then
      local id = redis.call('ZRANGE', lines .. 'jobs:' .. line.name, '0', '0')[1]
      local _, head = read_start(job .. (id or ''))
      if not head then return end
      line.offset = offset_of(head)
    end
    local v = virtual_of(lines, line.home)
    if not busy[line.home] then
      local key, prefix = key_of(line.queue, queue, queues), '@' .. line.tier .. ':'
      local front = redis.call('ZRANGEBYSCORE', key, text(line.offset), '+inf', 'LIMIT', '0', '1')[1]
      if not front or string.sub(front, 1, #prefix) ~= prefix then
        v.tag, v.is_changed, line_tags[line.home] = now, true, nil
        redis.call('UNLINK', lines .. 'tags:' .. line.home)
      end
      busy[line.home] = true
    end
    read_tags(lines, line.home, {line.key})
    local tags = tags_of(line.home)
    local t = tags[line.key] or {tag = v.tag}
    t.tag, t.is_changed = math.max(t.tag, v.tag), true
    tags[line.key] = t
    keep(added, line.queue, text(line.offset + math.floor(t.tag)), line.member)
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

  -- leave_queues takes the lines out of their queues that have no jobs, or whose keys may not run. It returns those
  -- that enter their queues, and writes how many jobs each line has.
  local function leave_queues(queue, queues, lines, now)
    local list, names, by_queue, entering = {}, {}, {}, {}
    for _, line in pairs(touched) do
      list[#list + 1], names[#names + 1] = line, line.name
      keep(by_queue, line.queue, line)
    end
    local empty, counts = {}, {}
    for i, counted in pairs(read_values('ZMSCORE', lines .. 'waiting', names)) do
      local line = list[i]
      line.size = line.size or (tonumber(counted) or 0) + line.change
      if line.size <= 0 and counted then empty[#empty + 1] = line.name end
      if line.size > 0 and line.size ~= tonumber(counted) then
        counts[#counts + 1], counts[#counts + 2] = text(line.size), line.name
      end
    end
    for name, of_queue in pairs(by_queue) do
      local members = {}
      for n, line in ipairs(of_queue) do members[n] = line.member end
      for n, score in pairs(read_values('ZMSCORE', key_of(name, queue, queues), members)) do
        local line, s = of_queue[n], key_states[of_queue[n].key]
        local is_parked = unpark(s, line.home)
        if line.size <= 0 then
          if score then keep(removed, name, line.member) end
        elseif runs_from(s, now) > now then
          if score then keep(removed, name, line.member) end
          s.parked[#s.parked + 1], s.is_changed = line.home, true
        elseif is_parked or not score then
          entering[#entering + 1] = line
        else
          busy[line.home] = true
          local t = line.old_tag and tags_of(line.home)[line.key]
          local change = t and math.floor(t.tag) - line.old_tag or 0
          if change ~= 0 then keep(added, name, text(score + change), line.member) end
        end
      end
    end
    bulk('ZREM', lines .. 'waiting', empty)
    bulk('ZADD', lines .. 'waiting', counts)
    for name, members in pairs(removed) do bulk('ZREM', key_of(name, queue, queues), members) end
    return entering
  end

  -- wake puts the parked lines of a key into their queues if the key may run.
  local function wake(queue, queues, job, lines, key, now)
    local s = key_states[key]
    if #s.parked == 0 and not s.was_parked then return end
    local from = runs_from(s, now)
    if #s.parked > 0 and from > now then
      redis.call('ZADD', lines .. 'parked', from == math.huge and '+inf' or text(math.ceil(from)), key)
      return
    end
    for _, home in ipairs(s.parked) do enter_queue(queue, queues, job, lines, read_line(key, home), now) end
    redis.call('ZREM', lines .. 'parked', key)
    if #s.parked > 0 then s.parked, s.is_changed = {}, true end
  end

  -- tag_text writes a tag and a mean.
  local function tag_text(of)
    return of.mean and string.format('%.4f %.3f', of.tag, of.mean) or string.format('%.4f -', of.tag)
  end

  -- write_keys writes the states of keys and the tags that the call changed.
  local function write_keys(lines, now)
    local idle, stored = {}, {}
    for key, s in pairs(key_states) do
      local is_idle = s.running == 0 and #s.parked == 0 and s.behind == '-' and s.next_at <= now
      if s.is_changed and is_idle and s.is_stored then
        idle[#idle + 1] = key
      elseif s.is_changed and not is_idle then
        local parked = table.concat(s.parked, ' ')
        stored[#stored + 1] = key
        stored[#stored + 1] = string.format('%d %.3f %s %s', s.running, s.next_at, s.behind, parked)
      end
    end
    bulk('HDEL', lines .. 'keys', idle)
    bulk('HSET', lines .. 'keys', stored)
    for home, tags in pairs(line_tags) do
      local texts = {}
      for key, t in pairs(tags) do
        if t and t.is_changed then texts[#texts + 1], texts[#texts + 2] = key, tag_text(t) end
      end
      bulk('HSET', lines .. 'tags:' .. home, texts)
    end
    local texts = {}
    for home, v in pairs(virtuals) do
      if v.is_changed then texts[#texts + 1], texts[#texts + 2] = home, tag_text(v) end
    end
    bulk('HSET', lines .. 'virtual', texts)
  end

  -- write_lines puts the lines whose jobs or whose keys the call changed into their places. woken are keys to look at.
  function write_lines(queue, queues, doorbell, job, lines, woken)
    local is_idle = not next(touched) and #ended_runs + #begun + #woken == 0
    if is_idle and not next(backing_off) then return end
    local now = time_ms()
    local moved, keys = charge_runs(lines), {}
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
      for i = 1, #line.entries, 200 do
        line.change = line.change + redis.call('ZADD', lines .. 'jobs:' .. line.name, slice(line.entries, i))
      end
    end
    for key, s in pairs(key_states) do
      if settled[s.behind] then s.behind, s.is_changed = '-', true end
      local id = backing_off[key]
      if id and s.limits and s.limits.strict then s.behind, s.is_changed = id, true end
    end
    move_lines(queue, queues, moved)
    local entering, keys_of_home = leave_queues(queue, queues, lines, now), {}
    for _, line in ipairs(entering) do keep(keys_of_home, line.home, line.key) end
    for home, some in pairs(keys_of_home) do read_tags(lines, home, some) end
    for _, line in ipairs(entering) do enter_queue(queue, queues, job, lines, line, now) end
    for key in pairs(key_states) do wake(queue, queues, job, lines, key, now) end
    for name, members in pairs(added) do
      bulk('ZADD', key_of(name, queue, queues), members)
      ring(doorbell, name)
    end
    write_keys(lines, now)
    write_spent(lines, now)
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
