-- log: the holders of leases add lines to the logs of their jobs.
-- KEYS   counters job leases logs events
-- per line (n = 1, 7, ...):
-- ARGV[n+0] id: the job
-- ARGV[n+1] attempt: of the lease
-- ARGV[n+2] token: of the lease
-- ARGV[n+3] number: of the line; a lease counts its lines from 1 | '0' one more than the last line
-- ARGV[n+4] age_ms: how long ago the line was written
-- ARGV[n+5] line: 'level n text attrs', n = the bytes of the text | '' the line of this number is lost
-- REPLY  per line: OK | LOST (not the stored lease; nothing is written)
-- TWICE  a line whose number the log has, or has passed, is not added again; a line with the number '0' is
-- A line in Redis is 'attempt number at level n text attrs'. Where numbers are missing stands one line of the level
-- GAP, whose text says how many lines are lost: its number is that of the last of them. A log that is too long loses
-- its oldest lines behind the first ones.
local counters, job, leases, logs, events = unpack(KEYS)
local now = time_ms()
local reply = {}

-- The bounds of a job's log, the size of a log after it was cut, and how many of its first lines stay.
local most_lines, most_bytes = 2000, 262144
local kept_lines, kept_bytes = 1800, 229376
local first_lines, first_bytes = 100, 65536

local found, ids = {}, {} -- id -> its lease, its head, the number of its last line, and the lines to add
local function log_of(id)
  if not found[id] then
    local lease, head = parse_lease(redis.call('HGET', leases, id))
    local last = redis.call('LRANGE', logs .. id, '-1', '-1')[1]
    local attempt, last_number = string.match(last or '', '^(%d+) (%d+) ')
    local is_same = lease and attempt == lease.attempt
    found[id] = {lease = lease, head = head, last = is_same and tonumber(last_number) or 0, lines = {}, bytes = 0}
    ids[#ids + 1] = id
  end
  return found[id]
end

local function add_line(log, number, at, rest)
  local line = table.concat({log.lease.attempt, text(number), at, rest}, ' ')
  log.lines[#log.lines + 1], log.bytes = line, log.bytes + #line
end

-- gap_of is what a line says of n lost lines.
local function gap_of(n) return 'GAP ' .. text(#text(n)) .. ' ' .. text(n) end

for i = 1, #ARGV, 6 do
  local id, attempt, token = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local number, age, line = tonumber(ARGV[i + 3]), tonumber(ARGV[i + 4]), ARGV[i + 5]
  local log, at = log_of(id), text(now - age)
  local word = 'LOST'
  if log.lease and log.lease.attempt == attempt and log.lease.token == token then
    word = 'OK'
    if number == 0 then number = log.last + 1 end
    if number > log.last then
      local gap = number - log.last - (line == '' and 0 or 1)
      if gap > 0 then add_line(log, log.last + gap, at, gap_of(gap)) end
      if line ~= '' then add_line(log, number, at, line) end
      log.last = number
    end
  end
  reply[#reply + 1] = word
end

-- keeps_first says how many lines stay at the beginning of a log.
local function keeps_first(stored)
  local n, bytes = 0, 0
  while n < first_lines and n < #stored and bytes + #stored[n + 1] <= first_bytes do
    n = n + 1
    bytes = bytes + #stored[n]
  end
  return n
end

-- shorten takes the oldest lines behind the first ones out of a log, and puts a GAP in their place. It returns how many
-- bytes the log has then.
local function shorten(id, bytes)
  local stored = redis.call('LRANGE', logs .. id, '0', '-1')
  local beginning, lines, lost = keeps_first(stored), #stored, 0
  local n, start = beginning, nil
  while n < #stored and (lines > kept_lines or bytes > kept_bytes) do
    n = n + 1
    local of, gap = string.match(stored[n], '^(%d+ %d+ %d+ )GAP %d+ (%d+)$')
    start, lost = of or string.match(stored[n], '^%d+ %d+ %d+ '), lost + tonumber(gap or 1)
    lines, bytes = lines - 1, bytes - #stored[n]
  end
  local first_entries = {start .. gap_of(lost)}
  for k = beginning, 1, -1 do first_entries[#first_entries + 1] = stored[k] end
  redis.call('LTRIM', logs .. id, text(n), '-1')
  bulk('LPUSH', logs .. id, first_entries)
  return bytes + #first_entries[1]
end

for _, id in ipairs(ids) do
  local log = found[id]
  local lease = log.lease
  if #log.lines > 0 then
    local bytes = lease.log_bytes + log.bytes
    bulk('RPUSH', logs .. id, log.lines)
    if bytes > most_bytes or redis.call('LLEN', logs .. id) > most_lines then bytes = shorten(id, bytes) end
    redis.call('HSET', leases, id, extras.lease(lease, bytes, lease.progress, log.head))
    change_counter(lease.class.tier, 'bytes', bytes - lease.log_bytes)
    note_event(events, id, lease.class.tier, 'LOG', lease.attempt)
  end
end

write_counters(counters)
publish(events, text(now))
return reply
