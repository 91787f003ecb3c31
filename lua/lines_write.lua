-- This file stands behind lines.lua, in front of every script. It gives the lines whose jobs or whose keys a call has
-- changed their places and their tags.

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
    local from = math.ceil(runs_from(s, now))
    if #s.parked > 0 and from > now then
      if tonumber(redis.call('ZSCORE', lines .. 'parked', key) or -1) == from then return end
      redis.call('ZREM', lines .. 'parked', key) -- a full Redis takes what follows
      redis.call('ZADD', lines .. 'parked', from == math.huge and '+inf' or text(from), key)
      return
    end
    redis.call('ZREM', lines .. 'parked', key)
    for _, home in ipairs(s.parked) do enter_queue(queue, queues, job, lines, read_line(key, home), now) end
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
