-- This file stands behind the prelude, in front of every script. It and lines_write.lua put the ready jobs into their
-- places: a job without a line into its queue, a job with a line into the line, which stands in the queue as one
-- member.
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

-- bound_rate cuts the time of a rate to the highest that starts by now can have given it. A clock that was ahead, or
-- other limits, may have left a later one.
local function bound_rate(s)
  local l = s.limits
  local latest = l and l.interval > 0 and time_ms() + l.interval * l.burst
  if latest and s.next_at > latest + 1 then s.next_at, s.is_changed = latest, true end
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
    bound_rate(s)
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
