-- reserve: keeps places for jobs that SQL is about to have, for all jobs of a call or for none. restore gives the jobs
--        their places.
-- KEYS   counters owners job ended reserved reserving lines
-- ARGV[1] not_after: a time of Redis in ms; a call that comes later does nothing
-- ARGV[2] shares: 'tier fresh delayed delayedbytes living bytes' of each tier, the smallest share first: how much of
--        each limit the tier may fill
-- ARGV[3] is_forced: 1 no limit refuses: SQL has the jobs already | 0
-- ARGV[4] token: of a process that has reserved all places anew: from now on they are all there, unless Redis has lost
--        its data meanwhile | '' none
-- per job (n = 5, 8, ...):
-- ARGV[n+0] id: the job
-- ARGV[n+1] place_class: 'counts_as tier queue owner generation limit quota queue_limit', which most jobs of a call
--        share: counts_as as in reserved, the three limits as in submit. Behind it, if the job has a
--        line, ' line=<key>', and if a batch owes the job, ' of=<batch>'
-- ARGV[n+2] bytes: of the payload
-- REPLY  per job: OK | DUPLICATE (it has a place already, or Redis has the job in this generation or a later one) |
--        QUOTA | FULL (the limit, as submit names it) | LATE (not_after has passed, or places are missing) | EMPTY (a
--        job before it was refused). Unless every job is OK or DUPLICATE, the call has reserved nothing
-- TWICE  the id decides: a job that has a place answers DUPLICATE, and keeps the place
local counters, owners, job, ended, reserved, reserving, lines = unpack(KEYS)
local not_after, shares, is_forced, token = tonumber(ARGV[1]), ARGV[2], ARGV[3] == '1', ARGV[4]
local now = time_ms()
local at = text(now)
local room = open_room(counters, owners, lines, shares)
local reply, entries, times = {}, {}, {}

local classes = {} -- place_class -> its parts
local function read_place_class(place_class)
  local counts_as, tier, queue, owner, generation, limit, quota, queue_limit, rest =
    string.match(place_class, '^(%S+) (%S+) (%S+) (%S+) (%d+) (%d+) (%S+) (%S+)(.*)$')
  local class = {
    counts_as = counts_as, tier = tier, queue = queue, owner = owner, generation = tonumber(generation),
    limit = tonumber(limit), quota = tonumber(quota), queue_limit = tonumber(queue_limit),
    delay = counts_as == 'f' and 0 or 1, rest = rest,
    text = table.concat({counts_as, tier, queue, owner, generation}, ' '), line = false,
  }
  local line_key = string.match(rest, '^ line=(%S+)')
  if line_key then
    class.line = {line_name = tier .. ':' .. line_key .. ':' .. queue}
    read_keys(lines, {line_key})
    class.state = key_states[line_key]
  end
  classes[place_class] = class
  return class
end

local placed = {} -- id -> true, for the jobs of this call
local is_refused = false
for i = 5, #ARGV, 3 do
  local id, class, bytes = ARGV[i], classes[ARGV[i + 1]] or read_place_class(ARGV[i + 1]), tonumber(ARGV[i + 2])
  local word = 'OK'
  if is_refused then
    word = 'EMPTY'
  elseif now > not_after or not is_forced and not room.is_whole then
    word, is_refused = 'LATE', true
  elseif placed[id] or redis.call('HEXISTS', reserved, id) == 1 then
    word, times[#times + 1], times[#times + 2] = 'DUPLICATE', at, id
  elseif places.has_job(job, ended, id, class.generation) then
    word = 'DUPLICATE'
  elseif not is_forced and room.quota_spent(class) then
    word, is_refused = 'QUOTA', true
  else
    local limit = not is_forced and room.full_limit(class, false)
    if limit then word, is_refused = 'FULL ' .. limit, true end
  end
  if word == 'OK' then
    local stored = class.text .. ' ' .. text(bytes) .. class.rest
    places.change(places.parse(stored), 1)
    room.take(class, class.counts_as == 'f', bytes)
    entries[#entries + 1], entries[#entries + 2] = id, stored
    times[#times + 1], times[#times + 2], placed[id] = at, id, true
  end
  reply[#reply + 1] = word
end
if is_refused then return reply end

bulk('ZADD', reserving, times)
bulk('HSET', reserved, entries)
write_counters(counters, owners)
if token ~= '' and redis.call('HGET', counters, '~') == token then
  redis.call('HDEL', counters, '~')
  redis.call('HSET', counters, '-', '1')
end
return reply
