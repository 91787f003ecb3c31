-- The prelude stands in front of every script. It has the functions that several scripts share.
--
-- A job is spread over a few keys, so that a script reads and writes the jobs of a call with one command per key:
--   job .. id       STRING "class\nhead\npayload": a living job; also an ended one until SQL has it, unless COMPLETED
--   tried           HASH id -> "run laters in_row since crashes report word at cause error": a job that was tried or
--                   delayed
--   leases          HASH id -> "lease\nhead": a running job
--   checkpoints     HASH id -> "attempt number checkpoint": what a handler saved
--   ended .. slice  HASH id -> "state ended report class run\nhead\ncause n\n", then the error of n bytes, then the
--                   result: an ended job
-- class = "tier queue generation max_retries owner max_run_ms [options]" is the same for a whole generation, and for
-- most jobs of a call. head = "arrived score bytes type trace [options]"; bytes is the length of the payload. run =
-- "attempt retries first started due token". lease = class, run, "for=" with the ms that the lease lives without a
-- heartbeat (unless restore wrote the lease), "charge=" if the job has a line, "log=" if the job has a log, "progress="
-- if the holder told how far the attempt is, and "cancel" if a user asked to cancel the job. In tried, "log=" stands
-- behind the crashes, and in an end "log=" and "progress=" stand behind n.
-- docs/KEYS.md explains each word.

-- text writes an integer as decimal digits, exact to 2^53. tostring would turn 15 digits into 1e+14.
local function text(n) return string.format('%d', n) end

local function time_us()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

local function time_ms() return math.floor(time_us() / 1000) end

-- key_of returns the key of a queue: main has a key of its own, the key of any other queue is a prefix and its name.
local function key_of(name, main_key, prefix)
  if name == 'main' then return main_key end
  return prefix .. name
end

-- slice_of names the slice of an id: the 256 ms of its UUIDv7 time.
local function slice_of(id) return string.sub(id, 1, 11) end

-- read_class_options reads the options of a class, "name=value" in a fixed order, into its parts. It returns false for
-- another text. line is the key of the job's line. uniq is the job's unique key: a hash, and while what the job holds
-- the key: 'w' it waits, 'l' it lives, 's' and a number = so many seconds from its arrival. exp is the time in ms by
-- which the job must be claimed. callback is the id of the job that SQL will owe when the job has ended, unless
-- CANCELLED.
local function read_class_options(class, options)
  local before_callback, callback = string.match(options, '^(.*) callback=(%S+)$')
  if callback then
    class.callback, options = callback, before_callback
    if options == '' then return true end
  end
  local key, after_line = string.match(options, '^ line=(%S+)(.*)$')
  local rest = after_line or options
  if key then
    class.line = key
    class.line_home = class.tier .. ':' .. class.queue
    class.line_name = class.tier .. ':' .. key .. ':' .. class.queue
    class.line_member = '@' .. class.tier .. ':' .. key
    if rest == '' then return true end
  end
  local hash, mode, seconds, after_unique = string.match(rest, '^ uniq=(%x+)%.([wls])(%d*)(.*)$')
  if hash then
    class.unique, class.unique_while, class.unique_ms = hash, mode, (tonumber(seconds) or 0) * 1000
    rest = after_unique
  end
  local expires = string.match(rest, '^ exp=(%d+)$')
  class.expires = expires and tonumber(expires)
  return expires ~= nil or rest == ''
end

-- parsed has the texts that the call has parsed, by their kinds: text -> its parts.
local parsed = {bare_classes = {}, classes = {}, leases = {}, runs = {}, end_lines = {}}

-- parse_class parses a class, once per call: most jobs of a call share one, or at least what stands before its options.
-- It returns nil for another text.
local function parse_class(class_text)
  local class = parsed.classes[class_text]
  if class then return class end
  local options_at = string.find(class_text, ' %l+=')
  local bare_text = options_at and string.sub(class_text, 1, options_at - 1) or class_text
  local bare = parsed.bare_classes[bare_text]
  if not bare then
    local tier, queue, generation, max_retries, owner, max_run =
      string.match(bare_text, '^(%S+) (%S+) (%d+) (%d+) (%S+) (%d+)$')
    if not tier then return nil end
    bare = {
      tier = tier, queue = queue, generation = generation, max_retries = tonumber(max_retries), owner = owner,
      max_run = tonumber(max_run),
    }
    parsed.bare_classes[bare_text] = bare
  end
  class = {
    text = class_text, tier = bare.tier, queue = bare.queue, generation = bare.generation,
    max_retries = bare.max_retries, owner = bare.owner, max_run = bare.max_run, line = false, line_home = false,
    line_name = false, line_member = false, unique = false, unique_while = false, unique_ms = false, expires = false,
    callback = false,
  }
  if options_at and not read_class_options(class, string.sub(class_text, options_at)) then return nil end
  parsed.classes[class_text] = class
  return class
end

-- parse_run returns the parts of a run. first_claim is '0' for a generation that was never claimed. The first attempts
-- of one claim share a run.
local function parse_run(run_text)
  local run = parsed.runs[run_text]
  if not run then
    local attempt, retries, first_claim, started, due, token =
      string.match(run_text, '^(%d+) (%d+) (%d+) (%d+) (%d+) (%S+)$')
    run = {
      attempt = attempt, retries = retries, first_claim = first_claim, started = started, due = due, token = token,
    }
    parsed.runs[run_text] = run
  end
  return run
end

local function format_run(attempt, retries, first_claim, started, due, token)
  return table.concat({attempt, retries, first_claim, started, due, token}, ' ')
end

-- extras has functions for the words that only jobs with a log or a progress have. It is one name, because Lua allows
-- a script 200.
local extras = {}

-- extras.parse parses " log=<bytes> progress=<text>", of which both words may be absent. It returns the bytes of the
-- job's log, 0 without a log, and the progress, '' without any; nil for another text.
function extras.parse(words)
  if words == '' then return 0, '' end
  local bytes, after_log = string.match(words, '^ log=(%d+)(.*)$')
  local rest = after_log or words
  local progress = string.match(rest, '^ progress=(%S+)$')
  if rest ~= '' and not progress then return nil end
  return tonumber(bytes or 0), progress or ''
end

-- extras.format is the reverse of extras.parse.
function extras.format(log_bytes, progress)
  return (log_bytes > 0 and ' log=' .. text(log_bytes) or '') .. (progress ~= '' and ' progress=' .. progress or '')
end

-- parse_lease parses what leases has of a job. It parses each lease once per call: the first attempts of one claim
-- share one. It returns nil for another text.
local function parse_lease(stored)
  local cut = stored and string.find(stored, '\n', 1, true)
  if not cut then return nil end
  local lease_text, head = string.sub(stored, 1, cut - 1), string.sub(stored, cut + 1)
  local lease = parsed.leases[lease_text]
  if not lease then
    local bare, cancel = lease_text, string.sub(lease_text, -7) == ' cancel'
    if cancel then bare = string.sub(lease_text, 1, -8) end
    local class, run_text, options = string.match(bare, '^(.*) (%d+ %d+ %d+ %d+ %d+ [^ ]+)(.*)$')
    class = class and parse_class(class)
    if not class then return nil end
    local lease_for, after_for = string.match(options, '^ for=(%d+)(.*)$')
    local charge, after_charge = string.match(after_for or options, '^ charge=(%d+)(.*)$')
    local log_bytes, progress = extras.parse(after_charge or after_for or options)
    if not log_bytes then return nil end
    local run = parse_run(run_text)
    lease = {
      text = bare, class = class, run_text = run_text, attempt = run.attempt, retries = run.retries,
      first_claim = run.first_claim, started = run.started, due = run.due, token = run.token, cancel = cancel,
      length_word = lease_for and ' for=' .. lease_for or '', charge_word = charge and ' charge=' .. charge or '',
      lease_for = tonumber(lease_for or 0), charge = tonumber(charge or 0), options = options, log_bytes = log_bytes,
      progress = progress,
    }
    parsed.leases[lease_text] = lease
  end
  return lease, head
end

-- extras.lease returns what leases gets of a job whose log, progress or length has changed.
function extras.lease(lease, log_bytes, progress, head, length_word)
  return table.concat({
    lease.class.text, ' ', lease.run_text, length_word or lease.length_word, lease.charge_word,
    extras.format(log_bytes, progress), lease.cancel and ' cancel' or '', '\n', head,
  })
end

-- extras.keep gives what tried or an end keeps of a job the log and the progress that the job's lease has.
function extras.keep(t, lease)
  t.log_bytes, t.progress = lease.log_bytes, lease.progress
  return t
end

-- bytes_of returns the length of the payload, which the head tells.
local function bytes_of(head) return tonumber(string.match(head, '^%d+ %d+ (%d+) ') or 0) end

local function score_of(head) return string.match(head, '^%d+ (%d+) ') end

-- parse_start parses a record, or the beginning of one: it returns the parts of the class and the head, or nil.
local function parse_start(record)
  local class, head = string.match(record, '^([^\n]*)\n(%d+ %d+ %d+ %S+ %S[^\n]*)\n')
  class = class and parse_class(class)
  if not class then return nil end
  return class, head
end

-- read_start reads the class and the head of a job without its payload. Few heads are longer than 4096 bytes.
local function read_start(key)
  local class, head = parse_start(redis.call('GETRANGE', key, '0', '4095'))
  if not class and redis.call('STRLEN', key) > 4096 then return parse_start(redis.call('GET', key)) end
  return class, head
end

-- parse_tried parses what tried has of a job. A job that it does not have was neither claimed nor delayed. A text of an
-- earlier version lacks the crashes, and has the report, which is no number, in their place. progress is that of an
-- attempt that ends.
local function parse_tried(stored)
  local run, laters, in_row, since, crashes, report, word, at, cause, err =
    string.match(stored or '0 0 0 0 0 - 0 0 0 0 - - 0 - ',
      '^(%d+ %d+ %d+ %d+ %d+ %S+) (%d+) (%d+) (%d+) (%d+) (%S+) (%S+) (%d+) (%S+) (.*)$')
  if not run then
    local before, log_bytes, after = string.match(stored, '^(%d+ %d+ %d+ %d+ %d+ %S+ [%d ]+) log=(%d+)( .*)$')
    local start, rest = string.match(stored, '^(%d+ %d+ %d+ %d+ %d+ %S+ %d+ %d+ %d+) (%D.*)$')
    if not before then return parse_tried(start and start .. ' 0 ' .. rest) end
    local t = parse_tried(before .. after)
    t.log_bytes = tonumber(log_bytes)
    return t
  end
  return {
    run = parse_run(run), laters = tonumber(laters), in_row = tonumber(in_row), since = tonumber(since),
    crashes = tonumber(crashes), report = report, word = word, at = at, cause = cause, error = err, log_bytes = 0,
    progress = '',
  }
end

-- format_tried is the reverse of parse_tried, with another run. report, word and at are the answer that the run's
-- holder got; another run has none.
local function format_tried(t, run, report, word, at)
  local crashes_and_log = text(t.crashes) .. extras.format(t.log_bytes, '')
  return table.concat({
    run, text(t.laters), text(t.in_row), text(t.since), crashes_and_log, report or '-', word or '-', at or '0',
    t.cause, t.error,
  }, ' ')
end

-- change_counter notes that a tier's counter grows by n. write_counters writes what was noted.
local counter_changes = {} -- counter -> tier -> n
local function change_counter(tier, counter, n)
  local tiers = counter_changes[counter]
  if not tiers then
    tiers = {}
    counter_changes[counter] = tiers
  end
  tiers[tier] = (tiers[tier] or 0) + n
end

-- count_living counts a job that begins to live (n = 1) or ceases to live (n = -1) for its owner, and the bytes that
-- the job keeps in Redis for its tier. The owner of a stranger's job is '~' and the hash of an address.
local owner_changes = {} -- owner -> how many more of its jobs live; below zero = how many fewer
local function count_living(class, n, bytes)
  change_counter(class.tier, 'bytes', n * bytes)
  if class.owner ~= '-' then owner_changes[class.owner] = (owner_changes[class.owner] or 0) + n end
end

-- count_job counts n more or fewer jobs for their tier and, unless they are in main, for their queue. A queue's
-- counters begin with '@' and a line's with '#', as no tier does.
local function count_job(class, counter, n)
  change_counter(class.tier, counter, n)
  if class.queue ~= 'main' then change_counter('@' .. class.queue, counter, n) end
end

local function count_running(class, n) count_job(class, 'running', n) end

-- count_waiting counts n more or fewer jobs that wait: ready, or scheduled with a delay. A job that was never claimed
-- has a limit of its own.
local function count_waiting(class, is_ready, is_fresh, n, bytes)
  count_job(class, is_ready and 'ready' or 'scheduled', n)
  if not is_fresh then return end
  count_job(class, is_ready and 'fresh' or 'delayed', n)
  if not is_ready then change_counter(class.tier, 'delayedbytes', n * bytes) end
end

-- add_outbox_bytes counts the bytes of results and payloads that wait for SQL.
local outbox_bytes_change = 0
local function add_outbox_bytes(n) outbox_bytes_change = outbox_bytes_change + n end

-- write_counters is a script's last write: it moves the counters in the same step as the jobs. A script whose jobs
-- neither begin nor cease to live passes no owners.
local function write_counters(counters, owners)
  if outbox_bytes_change ~= 0 then redis.call('HINCRBY', counters, 'outbox_bytes', text(outbox_bytes_change)) end
  for counter, tiers in pairs(counter_changes) do
    local sum = 0
    for tier, n in pairs(tiers) do
      local is_queue, field = string.match(tier, '^[@#]') ~= nil, tier .. ':' .. counter -- or a line
      if not is_queue then sum = sum + n end
      local left = n == 0 or redis.call('HINCRBY', counters, field, text(n))
      if is_queue and left == 0 then redis.call('HDEL', counters, field) end -- names of queues come and go
    end
    -- Admission limits the sums of these four over all tiers.
    local is_limited = counter == 'fresh' or counter == 'delayed' or counter == 'bytes' or counter == 'delayedbytes'
    if sum ~= 0 and is_limited then redis.call('HINCRBY', counters, counter, text(sum)) end
  end
  -- An owner's count falls below zero when a job ends that was never counted. The count then starts again at zero.
  for owner, n in pairs(owner_changes) do
    if n ~= 0 and redis.call('HINCRBY', owners, owner, text(n)) <= 0 then redis.call('HDEL', owners, owner) end
  end
end

-- ring puts a token on a queue's doorbell, unless one lies there: workers that block on the doorbell wake up. doorbell
-- is that of main.
local function ring(doorbell, name)
  local bell = key_of(name, doorbell, doorbell .. ':')
  if redis.call('LLEN', bell) == 0 then redis.call('RPUSH', bell, '1') end
end

-- touch notes that write_entries has to look at the line of a class, and returns what is noted.
local touched = {} -- name -> line
local settled = {} -- ids of jobs that are no longer backing off
local function touch(class)
  local line = touched[class.line_name]
  if not line then
    line = {
      key = class.line, tier = class.tier, queue = class.queue, name = class.line_name, member = class.line_member,
      home = class.line_home, entries = {}, change = 0, offset = false, old_tag = false, size = false,
    }
    touched[class.line_name] = line
  end
  return line
end

-- offset_of returns what the scores of a tier begin with: the head has the arrival and the score.
local function offset_of(head)
  local arrived, score = string.match(head, '^(%d+) (%d+)')
  return score - arrived
end

-- add_entry keeps a job for write_entries, which puts all jobs of a call into their places.
local queue_entries = {} -- name of a queue -> score, id, score, id, ...
local function add_entry(class, score, id, head)
  local entries = queue_entries[class.queue]
  if class.line then
    local line = touch(class)
    line.offset, entries, settled[id] = offset_of(head), line.entries, true
  elseif not entries then
    entries = {}
    queue_entries[class.queue] = entries
  end
  entries[#entries + 1], entries[#entries + 2] = score, id
end

-- has_listeners says whether a process listens to a channel. It asks Redis once per call of a script.
local listener_cache = {} -- channel -> true or false
local function has_listeners(channel)
  if listener_cache[channel] == nil then listener_cache[channel] = redis.call('EXISTS', channel) == 1 end
  return listener_cache[channel]
end

-- note_event keeps an event for publish, if a process listens to the channel.
local pending_events = {} -- channel -> lines of "id tier status attempt cause"
local function note_event(channel, id, tier, status, attempt, cause)
  if not has_listeners(channel) then return end
  local lines = pending_events[channel] or {}
  lines[#lines + 1] = table.concat({id, tier, status, attempt or '0', cause or '-'}, ' ')
  pending_events[channel] = lines
end

-- note_alarm keeps an event for operators, who hear only of jobs that died or were taken back. Alarms have a channel
-- of their own, so that a listener to alarms does not make the scripts publish every event.
local function note_alarm(alarms, id, tier, status, attempt, cause)
  if status == 'FAILED' or cause == 'HEARTBEAT_STOPPED' or cause == 'MAX_TIME_EXCEEDED' then
    note_event(alarms, id, tier, status, attempt, cause)
  end
end

-- make_ready makes a scheduled job ready: write_entries puts it at its own place. The job's waiting counts from due on.
-- It returns what tried gets of a job that was never claimed, nil for a job of which tried keeps what it has.
local function make_ready(events, id, class, head, t, due)
  local run, is_first = t.run, t.run.first_claim == '0'
  count_waiting(class, false, is_first, -1, bytes_of(head))
  count_waiting(class, true, is_first, 1, 0)
  add_entry(class, score_of(head), id, head)
  note_event(events, id, class.tier, 'PENDING', run.attempt)
  if not is_first then return nil end
  return format_tried(t, format_run(run.attempt, run.retries, '0', run.started, due, run.token))
end

-- publish sends a channel's pending events as one message. A server that forbids PUBLISH does not fail the script.
local function publish(channel, at)
  if pending_events[channel] then
    redis.pcall('PUBLISH', channel, at .. '\n' .. table.concat(pending_events[channel], '\n'))
  end
end

-- slice returns up to 200 arguments, from the i-th on. One command for many jobs costs a fraction of one command per
-- job, in Redis and in its AOF; unpack of more than some thousand values fails.
local function slice(args, i) return unpack(args, i, math.min(i + 199, #args)) end

-- bulk runs ZADD, ZREM, HSET or HDEL for any number of arguments.
local function bulk(command, key, args)
  for i = 1, #args, 200 do redis.call(command, key, slice(args, i)) end
end

-- bulk_keys runs MSET, DEL or EXISTS for any number of arguments and returns the sum of the numbers that it answers.
local function bulk_keys(command, args)
  local sum = 0
  for i = 1, #args, 200 do
    local n = redis.call(command, slice(args, i))
    if type(n) == 'number' then sum = sum + n end
  end
  return sum
end

-- read_values returns the values of any number of fields of a hash (HMGET) or members of a sorted set (ZMSCORE) in
-- their order, false where there is none.
local function read_values(command, key, names)
  local found = {}
  for i = 1, #names, 200 do
    for n, value in ipairs(redis.call(command, key, slice(names, i))) do found[i + n - 1] = value end
  end
  return found
end

-- read_column is read_values for a hash that mostly does not exist.
local function read_column(key, ids)
  if #ids == 0 or redis.call('EXISTS', key) == 0 then return {} end
  return read_values('HMGET', key, ids)
end

local function drop_from_column(key, ids)
  if #ids > 0 and redis.call('EXISTS', key) == 1 then bulk('HDEL', key, ids) end
end

-- checkpoint_bytes returns the length of a job's checkpoint.
local has_checkpoints -- nil until it is known
local function checkpoint_bytes(checkpoints, id)
  if has_checkpoints == nil then has_checkpoints = redis.call('EXISTS', checkpoints) == 1 end
  local stored = has_checkpoints and redis.call('HGET', checkpoints, id)
  return stored and #stored - #(string.match(stored, '^%d+ %d+ ') or '') or 0
end

-- record_attempt appends a line to a job's history and keeps the last 50. The err of a LATER is "until_ms reason".
local function record_attempt(attempts, attempt, started, finished, outcome, token, err)
  local worker = string.match(token, '^(.*):') or ''
  redis.call('RPUSH', attempts, table.concat({attempt, started, finished, outcome, worker, err}, ' '))
  redis.call('LTRIM', attempts, -50, -1)
end

-- outbox_member names an end in the outbox: most jobs are in their first generation and end with their first attempt.
local function outbox_member(id, generation, attempt)
  if generation == '1' and attempt == '1' then return id end
  return id .. ' ' .. generation .. ' ' .. attempt
end

-- end_line is the first line of what is kept of an ended job. report is what the job's holder reported, '-' for an end
-- without a report.
local function end_line(state, at, report, class, run)
  return table.concat({state, at, report, class.text, run}, ' ')
end

-- parse_ended parses what is kept of an ended job: it returns the parts of the first line, the head and the detail; nil
-- for another text. The jobs that one call ended mostly share their first line, which is parsed once per call.
local function parse_ended(stored)
  local cut = stored and string.find(stored, '\n', 1, true)
  local second_cut = cut and string.find(stored, '\n', cut + 1, true)
  if not second_cut then return nil end
  local line = string.sub(stored, 1, cut - 1)
  local ended_by = parsed.end_lines[line]
  if not ended_by then
    local state, at, report, class, run = string.match(line, '^(%S+) (%d+) (%S+) (.*) (%d+ %d+ %d+ %d+ %d+ %S+)$')
    class = class and parse_class(class)
    if not class then return nil end
    ended_by = {state = state, at = at, report = report, class = class, run = parse_run(run), run_text = run}
    parsed.end_lines[line] = ended_by
  end
  return ended_by, string.sub(stored, cut + 1, second_cut - 1), string.sub(stored, second_cut + 1)
end

-- format_detail is the rest of what is kept of an ended job: the cause and the error of its latest failed attempt, the
-- size of its log, its last progress, and its result.
local function format_detail(t, result)
  return table.concat({
    t.cause, ' ', text(#t.error), extras.format(t.log_bytes, t.progress), '\n', t.error, result,
  })
end

-- parse_detail returns the result and the bytes of the log.
local function parse_detail(detail)
  local n, words, rest = string.match(detail, '^%S+ (%d+)([^\n]*)\n(.*)$')
  if not rest then return '', 0 end
  return string.sub(rest, n + 1), words == '' and 0 or extras.parse(words) or 0
end

-- free_unique notes that a job lets go of its unique key. write_unique frees the keys that a call noted.
local freed = {} -- id, class, id, class, ...
local function free_unique(id, class)
  local n = #freed
  freed[n + 1], freed[n + 2] = id, class
end

-- note_end keeps the end of a job for write_ends. line is its end_line. The outbox shows the end to drainers from
-- visible_at on.
local end_entries = {} -- slice -> id, text, id, text, ...
local ended_ids, outbox_entries = {}, {}
local kept_places = {} -- id, place, id, place, ...: a job's callback takes over its place
local function note_end(id, class, attempt, line, at, head, detail, visible_at)
  local slice_name = slice_of(id)
  local entries = end_entries[slice_name]
  if not entries then
    entries = {'-', at} -- the field '-' tells forget when the last job of the slice ended
    end_entries[slice_name] = entries
  end
  local n, m, e = #entries, #ended_ids, #outbox_entries
  entries[n + 1], entries[n + 2] = id, line .. '\n' .. head .. '\n' .. detail
  ended_ids[m + 1] = id
  outbox_entries[e + 1], outbox_entries[e + 2] = visible_at, outbox_member(id, class.generation, attempt)
  if class.unique then free_unique(id, class) end
  if class.callback and string.sub(line, 1, 9) ~= 'CANCELLED' then
    local bytes = bytes_of(head)
    local k = #kept_places
    local place = {'l', class.tier, 'main', class.owner, '1', text(bytes), 'end=' .. id .. ':' .. class.generation}
    kept_places[k + 1], kept_places[k + 2] = class.callback, table.concat(place, ' ')
    change_counter(class.tier, 'reserved', 1)
    count_living(class, 1, bytes)
  end
end

-- write_ends writes the ends that note_end kept. A slice has no time to live while SQL lacks one of its jobs.
local function write_ends(outbox, ended, unacked, tried, checkpoints, reserved)
  for slice_name, entries in pairs(end_entries) do
    bulk('HSET', ended .. slice_name, entries)
    local n = #entries / 2 - 1
    if redis.call('HINCRBY', unacked, slice_name, text(n)) == n then redis.call('PERSIST', ended .. slice_name) end
  end
  bulk('ZADD', outbox, outbox_entries)
  drop_from_column(tried, ended_ids)
  drop_from_column(checkpoints, ended_ids)
  bulk('HSET', reserved, kept_places)
end

-- end_with_record ends a job without a result. t has the cause and the error of its latest failed attempt. Its record
-- stays until SQL has the payload.
local function end_with_record(checkpoints, id, class, attempt, line, at, head, t)
  local bytes = bytes_of(head) + t.log_bytes
  count_living(class, -1, bytes + checkpoint_bytes(checkpoints, id))
  add_outbox_bytes(bytes)
  note_end(id, class, attempt, line, at, head, format_detail(t, ''), at)
end

-- end_waiting ends a job that take_waiting took: without a report, with the attempts that it had.
local function end_waiting(checkpoints, id, class, head, state, at, t)
  local run = t.run
  local run_text = format_run(run.attempt, run.retries, run.first_claim, run.started, run.due, run.token)
  end_with_record(checkpoints, id, class, run.attempt, end_line(state, at, '-', class, run_text), at, head, t)
end

-- is_expired says whether the time by which a waiting job must be claimed has passed, and nobody has claimed it.
local function is_expired(class, tried_text, now)
  return class.expires and class.expires <= now and parse_tried(tried_text).run.first_claim == '0'
end

-- read_ended returns parse_ended of a job, if Redis still has its end.
local function read_ended(ended, id) return parse_ended(redis.call('HGET', ended .. slice_of(id), id)) end

-- A unique key is a STRING, unique .. hash -> "id generation" of its holder, then the ids of the jobs behind the
-- holder, oldest first. Those are HELD; only a job that came back, from an attempt or after a loss, waits or runs
-- behind another holder. A key for seconds has a time to live, and no job is behind its holder.
--
-- A HELD job waits in scheduled for the end of its key's holder. Its score is held_from, a time that never comes, plus
-- the time from which it may run, if it has a delay. held_from is no round number: the embedded Redis writes those with
-- an exponent, which its Lua does not read.
local held_from, held_state = 4000000000000001, 'HELD'

local function is_held_score(score) return score and tonumber(score) >= held_from end

-- read_unique returns the parts of what a unique key has, or nil.
local function read_unique(key)
  local id, generation, rest = string.match(redis.call('GET', key) or '', '^(%S+) (%d+)(.*)$')
  if not id then return nil end
  local behind = {}
  for behind_id in string.gmatch(rest, '%S+') do behind[#behind + 1] = behind_id end
  return {id = id, generation = generation, behind = behind}
end

-- store_behind writes which jobs are behind the holder of a unique key.
local function store_behind(key, found)
  redis.call('SET', key, table.concat({found.id, found.generation, table.concat(found.behind, ' ')}, ' '))
end

-- store_unique gives a unique key to a job that arrived then, with the jobs that are behind it. The key of a job that
-- holds it for seconds is not stored once these have passed.
local function store_unique(key, id, class, behind, arrived, now)
  local value = table.concat({id, class.generation, table.concat(behind, ' ')}, ' ')
  local left = math.min(arrived, now) + class.unique_ms - now -- an arrival of a clock that was ahead counts as now
  if class.unique_while ~= 's' then
    redis.call('SET', key, value)
  elseif left > 0 then
    redis.call('SET', key, value, 'PX', text(left))
  end
end

-- take_unique_again gives a job that waits again the unique key that it had freed at its claim. If another job has the
-- key, the job is behind that one.
local function take_unique_again(unique, id, class, now)
  if class.unique_while ~= 'w' then return end
  local key = unique .. class.unique
  local found = read_unique(key)
  if not found then
    store_unique(key, id, class, {}, 0, now)
  elseif found.id ~= id and redis.call('PTTL', key) < 0 then
    found.behind[#found.behind + 1] = id
    store_behind(key, found)
  end
end

-- let_go makes a HELD job wait in its queue, or in scheduled until it is due.
local function let_go(scheduled, tried, events, id, class, head, score, now)
  local ready_at = tonumber(score) - held_from
  redis.call('ZREM', scheduled, id)
  if ready_at > now then
    redis.call('ZADD', scheduled, text(ready_at), id)
    note_event(events, id, class.tier, 'SCHEDULED')
    return
  end
  local t = parse_tried(redis.call('HGET', tried, id))
  local text_of_tried = make_ready(events, id, class, head, t, text(now))
  if text_of_tried then redis.call('HSET', tried, id, text_of_tried) end
end

-- pass_on gives a unique key to the first of the jobs behind its holder. A HELD job waits in its queue from now on.
-- Without any job it deletes the key.
local function pass_on(key, behind, job, scheduled, tried, events, now)
  while #behind > 0 do
    local id = table.remove(behind, 1)
    local score = redis.call('ZSCORE', scheduled, id)
    local class, head = read_start(job .. id)
    if class and class.unique then
      if is_held_score(score) then let_go(scheduled, tried, events, id, class, head, score, now) end
      store_unique(key, id, class, behind, 0, now)
      return
    end
  end
  redis.call('DEL', key)
end

-- write_unique frees the unique keys that free_unique noted. A key that another job holds, or another generation of the
-- job, stays, and the job is no longer behind the holder. write_entries comes after it.
local function write_unique(unique, job, scheduled, tried, events, now)
  for i = 1, #freed, 2 do
    local id, class = freed[i], freed[i + 1]
    local key = unique .. class.unique
    local found = read_unique(key)
    if found and found.id == id and found.generation == class.generation then
      if class.unique_while ~= 's' then pass_on(key, found.behind, job, scheduled, tried, events, now) end
    elseif found then
      for n, behind_id in ipairs(found.behind) do
        if behind_id == id then
          table.remove(found.behind, n)
          store_behind(key, found)
          break
        end
      end
    end
  end
end

-- lives says whether a generation of a job has not ended.
local function lives(job, ended, id, generation)
  local class, e = read_start(job .. id), read_ended(ended, id)
  return class ~= nil and class.generation == generation and not (e and e.class.generation == generation)
end

-- take_unique gives a restored job its unique key and returns false. If another living job holds the key, the job is
-- behind that one, and take_unique returns whether it is HELD: one that runs goes on. A job that would hold the key for
-- seconds, or whose key is held for seconds, goes on without the key.
local function take_unique(unique, job, ended, id, class, arrived, now, can_wait)
  local key = unique .. class.unique
  local found = read_unique(key)
  if found and found.id ~= id and redis.call('PTTL', key) > 0 then return false end
  local is_taken = found and found.id ~= id and lives(job, ended, found.id, found.generation)
  if not is_taken then
    store_unique(key, id, class, found and found.behind or {}, arrived, now)
  elseif class.unique_while ~= 's' then
    found.behind[#found.behind + 1] = id
    store_behind(key, found)
    return can_wait
  end
  return false
end
