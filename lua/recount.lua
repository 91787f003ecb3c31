-- recount: holds a partition's own keys to their types, and its counters and owners to its sets; they are put right where the sets can be counted in one step.
-- KEYS   queue scheduled beats maxtimes outbox counters owners clock doorbell quarantine crashed stuck job
-- ARGV   limit (how many jobs one step may count; 0 = none, the types only)
-- REPLY  per finding: REPAIRED kind detail | REPORTED kind detail
-- TWICE  it acts on what it finds: what was put right is not found again
local queue, scheduled, beats, maxtimes, outbox, counters, owners, clock, doorbell, quarantine, crashed, stuck, job = unpack(KEYS)
local limit = tonumber(ARGV[1])
local reply = {}

-- A key of another type fails every script that uses it. What it holds is nobody's of ours, and the audit fills the sets again from the jobs.
local function hold_type(key, name, kind)
  local is = redis.call('TYPE', key).ok
  if is ~= 'none' and is ~= kind then
    redis.call('DEL', key)
    reply[#reply + 1] = 'REPAIRED type ' .. name .. ' was a ' .. is
  elseif redis.call('PTTL', key) >= 0 then
    redis.call('PERSIST', key)
    reply[#reply + 1] = 'REPAIRED ttl ' .. name
  end
end

hold_type(queue, 'queue', 'zset')
hold_type(scheduled, 'scheduled', 'zset')
hold_type(beats, 'beats', 'zset')
hold_type(maxtimes, 'maxtimes', 'zset')
hold_type(outbox, 'outbox', 'zset')
hold_type(counters, 'counters', 'hash')
hold_type(owners, 'owners', 'hash')
hold_type(clock, 'clock', 'string')
hold_type(doorbell, 'doorbell', 'list')
hold_type(quarantine, 'quarantine', 'zset')
hold_type(crashed, 'suspects:crashed', 'zset')
hold_type(stuck, 'suspects:stuck', 'zset')
if redis.call('LLEN', doorbell) > 1 then
  redis.call('LTRIM', doorbell, '0', '0')
  reply[#reply + 1] = 'REPAIRED doorbell more than one token'
end

local is, all = {}, {} -- the counters as they stand, by their names; and summed over the tiers
local fields = redis.call('HGETALL', counters)
for i = 1, #fields, 2 do
  if not string.match(fields[i + 1], '^-?%d+$') then -- it fails every script that counts
    redis.call('HDEL', counters, fields[i])
    reply[#reply + 1] = 'REPAIRED counter ' .. fields[i] .. ' was no number'
    fields[i + 1] = 0
  end
  is[fields[i]] = tonumber(fields[i + 1])
  local what = string.match(fields[i], ':(%l+)$')
  if what then all[what] = (all[what] or 0) + is[fields[i]] end
end

local held, most = {}, 0 -- the living jobs of each owner, as they stand; and of all
fields = redis.call('HGETALL', owners)
for i = 1, #fields, 2 do
  local n = string.match(fields[i + 1], '^%d+$') and #fields[i + 1] < 16 and tonumber(fields[i + 1]) or 0
  if n == 0 then -- whoever counts to nought removes the field
    redis.call('HDEL', owners, fields[i])
    reply[#reply + 1] = 'REPAIRED counter owner ' .. fields[i] .. ' was no number of jobs'
  else
    held[fields[i]], most = n, most + n
  end
end
if limit == 0 then return reply end

local function differ(field, got, want, exact)
  if got == want then return end
  if exact and want == 0 then redis.call('HDEL', counters, field) end
  if exact and want ~= 0 then redis.call('HSET', counters, field, text(want)) end
  reply[#reply + 1] = (exact and 'REPAIRED' or 'REPORTED') .. ' counter ' .. field .. ' was ' .. text(got) .. ', counted ' .. text(want)
end

local function differ_owner(owner, got, want)
  if got == want then return end
  if want == 0 then redis.call('HDEL', owners, owner) else redis.call('HSET', owners, owner, text(want)) end
  reply[#reply + 1] = 'REPAIRED counter owner ' .. owner .. ' was ' .. text(got) .. ', counted ' .. text(want)
end

local function sorted(set)
  local names = {}
  for name in pairs(set) do names[#names + 1] = name end
  table.sort(names)
  return names
end

local want = {}
local function add(field, n) want[field] = (want[field] or 0) + n end

local function tally(ids, state, what, untried)
  for _, id in ipairs(ids) do
    local key = job .. id
    local m = redis.call('TYPE', key).ok == 'hash' and redis.call('HMGET', key, 'head', 'state', 'first') or {}
    local tier = m[1] and parse(m[1])
    if tier and (m[2] or 'PENDING') == state then
      add(tier .. ':' .. what, 1)
      local bytes = bytes_of(key, true)
      live(tier, m[1], 1, bytes)
      add(tier .. ':bytes', bytes)
      add('bytes', bytes)
      if untried and not m[3] then
        add(tier .. ':' .. untried, 1)
        add(untried, 1)
        if untried == 'delayed' then
          add(tier .. ':delayedbytes', payload_of(key))
          add('delayedbytes', payload_of(key))
        end
      end
    end
  end
end

local ready, rest, running = redis.call('ZCARD', queue), redis.call('ZCARD', scheduled), redis.call('ZCARD', beats)
local undrained = redis.call('ZCARD', outbox)
if ready + rest + running <= limit then
  tally(redis.call('ZRANGE', queue, '0', '-1'), 'PENDING', 'ready', 'fresh')
  tally(redis.call('ZRANGE', scheduled, '0', '-1'), 'SCHEDULED', 'scheduled', 'delayed')
  tally(redis.call('ZRANGE', beats, '0', '-1'), 'PROCESSING', 'running')
  for field in pairs(is) do
    if field ~= 'acknowledged' and field ~= 'outbox_bytes' then add(field, 0) end
  end
  for _, field in ipairs(sorted(want)) do differ(field, is[field] or 0, want[field], true) end
  for owner in pairs(held) do owned[owner] = owned[owner] or 0 end
  for _, owner in ipairs(sorted(owned)) do differ_owner(owner, held[owner] or 0, owned[owner]) end
else
  if most > ready + rest + running then differ('owners (all)', most, ready + rest + running) end
  differ('ready (all)', all.ready or 0, ready)
  differ('scheduled (all)', all.scheduled or 0, rest)
  differ('running (all)', all.running or 0, running)
  differ('fresh', is.fresh or 0, all.fresh or 0)
  differ('delayed', is.delayed or 0, all.delayed or 0)
  differ('bytes', is.bytes or 0, all.bytes or 0)
  differ('delayedbytes', is.delayedbytes or 0, all.delayedbytes or 0)
end

if undrained <= limit then
  local bytes = 0
  for _, id in ipairs(redis.call('ZRANGE', outbox, '0', '-1')) do
    local key = job .. id
    if redis.call('TYPE', key).ok == 'hash' then bytes = bytes + redis.call('HSTRLEN', key, 'result') + payload_of(key) end
  end
  differ('outbox_bytes', is.outbox_bytes or 0, bytes, true)
end
return reply
