-- audit: one look at jobs: each is held to the place that its state gives it; what is safe is put right, what nobody can explain is set aside.
-- KEYS   queue scheduled beats maxtimes outbox counters owners doorbell quarantine job attempts events
-- ARGV   longest_ms; per job: id outcomes (what SQL has of it: 'generation outcome generation outcome ...'; '' = nothing)
-- REPLY  per job: OK | REPAIRED kinds | REPORTED kinds | QUARANTINED kind | EMPTY (no such job and nothing of it, or in quarantine already)
-- TWICE  it acts on what it finds: what was put right is not found again
local queue, scheduled, beats, maxtimes, outbox, counters, owners, doorbell, quarantine, job, attempts, events = unpack(KEYS)
local longest = tonumber(ARGV[1]) -- the longest that any tier lets a job run
local now = time_ms()
local at = text(now)
local ended = {COMPLETED = true, NEED_DISCARD = true, FAILED = true, CANCELLED = true}
local ours = {FAILED = 'NEED_DISCARD'} -- SQL's words for an outcome, where ours differs until it is acknowledged
local whole = '^' .. string.rep('%S+ ', 7) .. '%S' -- a head's eight parts: with fewer no process can read what became of the job
local reply = {}

local wrong, lost -- of the job that is looked at: the kinds of what is put right; whether its payload is gone
local function note(kind) wrong[#wrong + 1] = kind end

local function leave(key, id, misplaced)
  if misplaced and redis.call('ZREM', key, id) == 1 then note('misplaced') end
end

local function enter(key, id, there, score)
  if there then return false end
  redis.call('ZADD', key, score, id)
  note('missing')
  return true
end

local function places(id)
  return {
    queue = redis.call('ZSCORE', queue, id), scheduled = redis.call('ZSCORE', scheduled, id), beats = redis.call('ZSCORE', beats, id),
    maxtimes = redis.call('ZSCORE', maxtimes, id), outbox = redis.call('ZSCORE', outbox, id), quarantine = redis.call('ZSCORE', quarantine, id),
  }
end

local function leave_all(id, is)
  leave(queue, id, is.queue)
  leave(scheduled, id, is.scheduled)
  leave(beats, id, is.beats)
  leave(maxtimes, id, is.maxtimes)
  leave(outbox, id, is.outbox)
end

local function set_aside(id, is, kind) -- where a person finds it, and no worker; told once
  leave_all(id, is)
  if is.quarantine and #wrong == 0 then return 'EMPTY' end
  redis.call('ZADD', quarantine, at, id)
  return 'QUARANTINED ' .. kind
end

local function gone(id, is, outcomes) -- there is no hash
  local over = string.find(outcomes, ' C') -- COMPLETED and CANCELLED are for good; after a FAILED there may be another life
  if not over and (is.quarantine or is.queue or is.scheduled or is.beats or is.maxtimes or is.outbox) then
    return set_aside(id, is, 'no_job')
  end
  leave_all(id, is)
  leave(quarantine, id, is.quarantine)
  if redis.call('DEL', attempts .. id) == 1 then note('history') end
  return #wrong > 0 and 'REPAIRED ' .. table.concat(wrong, ' ') or 'EMPTY'
end

-- SQL has the outcome of a job that waits: Redis went back in time. Nobody needs to run it again.
local function overtake(id, is, m, tier, waits, outcome)
  local key = job .. id
  redis.call('ZREM', queue, id)
  redis.call('ZREM', scheduled, id)
  redis.call('DEL', attempts .. id) -- SQL has those too
  count(tier, waits and 'ready' or 'scheduled', -1)
  if not m[4] then count(tier, waits and 'fresh' or 'delayed', -1) end
  live(tier, m[1], -1, bytes_of(key, true))
  if not waits and not m[4] then count(tier, 'delayedbytes', -payload_of(key)) end
  redis.call('HSET', key, 'state', ours[outcome] or outcome, 'ended', at)
  if outcome == 'COMPLETED' then redis.call('HSET', key, 'payload', '') else weigh(payload_of(key)) end
  redis.call('ZADD', outbox, at, id)
  tell(events, id, tier, outcome, m[3])
  note('overtaken')
  is.queue, is.scheduled, is.outbox, m[7] = false, false, at, at
  return ours[outcome] or outcome
end

local function hold_lease(id, m) -- without all of these nobody could end a running job, nor take it back
  local key = job .. id
  if m[3] and m[4] and m[5] and m[6] then return end
  local last = redis.call('LINDEX', attempts .. id, '-1')
  m[3] = m[3] or text(tonumber(string.match(last or '', '^(%d+) ') or 0) + 1)
  m[4], m[5], m[6] = m[4] or m[5] or at, m[5] or m[4] or at, m[6] or 'nobody:0'
  redis.call('HSET', key, 'attempt', m[3], 'first', m[4], 'started', m[5], 'token', m[6])
  note('lease')
end

local function hold_times(id, m, over) -- first <= started <= ended, and an end where it has ended
  local key = job .. id
  local first, started, last = tonumber(m[4] or 0), tonumber(m[5] or 0), tonumber(m[7] or 0)
  local untimely = true
  if not over and m[7] then
    redis.call('HDEL', key, 'ended')
  elseif first > started then
    redis.call('HSET', key, 'started', text(first))
  elseif over and last == 0 then
    redis.call('HSET', key, 'ended', text(math.max(started, now)))
  elseif over and last < started then
    redis.call('HSET', key, 'ended', text(started))
  else
    untimely = false
  end
  if untimely then note('times') end
end

local function hold_end(id, is, state, ttl, has) -- ended and, as far as this look can see, not in SQL yet
  local key = job .. id
  if ttl >= 0 then
    redis.call('PERSIST', key)
    note('ttl')
  end
  local left_over = state == 'COMPLETED' and payload_of(key) > 0
  if not has or left_over then redis.call('HSET', key, 'payload', '') end
  if left_over then note('payload') end
  lost = not has and is.outbox
  if enter(outbox, id, is.outbox, at) and (ttl >= 0 or not has) then -- it was acknowledged once: SQL is asked again
    weigh(redis.call('HSTRLEN', key, 'result') + payload_of(key))
  end
end

local function look(id, outcomes)
  local key = job .. id
  local is = places(id)
  local history = redis.call('TYPE', attempts .. id).ok
  if history ~= 'none' and history ~= 'list' then -- every script that writes a line of it would fail, and with it its whole call
    redis.call('DEL', attempts .. id)
    note('history')
  end
  local kind = redis.call('TYPE', key).ok
  if kind == 'none' then return gone(id, is, ' ' .. outcomes) end
  if kind ~= 'hash' then return set_aside(id, is, 'type') end
  local m = redis.call('HMGET', key, 'head', 'state', 'attempt', 'first', 'started', 'token', 'ended', 'retries')
  local tier, generation, max_retries, _, score
  if m[1] then
    tier, generation, max_retries, _, score = parse(m[1])
  end
  local state, has, ttl = m[2] or 'PENDING', redis.call('HEXISTS', key, 'payload') == 1, redis.call('PTTL', key)
  local waits, rests, runs = state == 'PENDING', state == 'SCHEDULED', state == 'PROCESSING'
  if not tier or not string.match(m[1], whole) then return set_aside(id, is, 'head') end
  if not waits and not rests and not runs and not ended[state] then return set_aside(id, is, 'state') end
  if (waits or rests) and not has then return set_aside(id, is, 'no_payload') end

  local outcome = (waits or rests) and string.match(' ' .. outcomes .. ' ', ' ' .. generation .. ' (%u+) ')
  if outcome then
    state = overtake(id, is, m, tier, waits, outcome)
    waits, rests = false, false
  end
  local acknowledged = ended[state] and ttl >= 0 and not has
  leave(queue, id, is.queue and not waits)
  leave(scheduled, id, is.scheduled and not rests)
  leave(beats, id, is.beats and not runs)
  leave(maxtimes, id, is.maxtimes and not runs)
  leave(outbox, id, is.outbox and (not ended[state] or acknowledged))
  leave(quarantine, id, is.quarantine)
  if ttl >= 0 and not ended[state] then
    redis.call('PERSIST', key)
    note('ttl')
  end
  if waits then
    if enter(queue, id, is.queue, score) then ring(doorbell) end
    if is.queue and tonumber(is.queue) ~= tonumber(score) then
      redis.call('ZADD', queue, score, id)
      note('score')
    end
  elseif rests then
    enter(scheduled, id, is.scheduled, at)
  elseif runs then
    enter(beats, id, is.beats, at) -- expired: the watch takes it back by its two looks, unless its holder beats
    hold_lease(id, m)
    enter(maxtimes, id, is.maxtimes, text(tonumber(m[5]) + longest))
    lost = not has
  elseif acknowledged then
    if redis.call('DEL', attempts .. id) == 1 then note('history') end
  else
    hold_end(id, is, state, ttl, has)
  end
  hold_times(id, m, ended[state])
  if tonumber(m[8] or 0) > tonumber(max_retries) then
    redis.call('HSET', key, 'retries', max_retries)
    note('retries')
  end
  if #wrong > 0 then return 'REPAIRED ' .. table.concat(wrong, ' ') .. (lost and ' payload_lost' or '') end
  return lost and 'REPORTED ' .. 'payload_lost' or 'OK'
end

for i = 2, #ARGV, 2 do
  wrong, lost = {}, false
  reply[#reply + 1] = look(ARGV[i], ARGV[i + 1])
end

settle(counters, owners)
publish(events, at)
return reply
