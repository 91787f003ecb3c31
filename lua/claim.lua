-- claim: hands the best ready jobs of some queues to one process, or to one worker elsewhere, as leases.
-- KEYS   queue queues scheduled expiries heartbeat_deadlines run_deadlines outbox counters owners claims doorbell
--        quarantine job tried leases checkpoints ended unacked unique reserved events lines
-- ARGV[1] nonce: the name of the process | of the worker elsewhere
-- ARGV[2] number: the number of the claim; a process counts its claims upwards | '~' and the id that a worker elsewhere
--        gave its claim
-- ARGV[3] max: how many leases to hand out at most
-- ARGV[4] bound: the highest score to hand out | '+inf' any score
-- ARGV[5] max_bytes: how many bytes of records to hand out at most; one job may have more
-- ARGV[6] names: of the queues, with a space between them
-- ARGV[7] band: the step between the scores of two tiers, which then do not overlap | 0 tiers may overlap
-- ARGV[8] low: the lowest score to hand out | '-inf' any score
-- ARGV[9] delivery: '<repeat>-<name>': how often a worker elsewhere had sent its claim before, and the name of the
--        answer that it waits for | '-' the claim is the process' own
-- ARGV[10] not_after: a time of Redis in ms; a claim by id that comes later does nothing | 0 any time
-- ARGV[11] order: of the queues inside a tier: 'oldest' = the one with the oldest job goes first, unless the claim
--        meets a line; then, and with 'named', it is the first of names that has any; where tiers may overlap it is
--        always 'oldest'
-- ARGV[12] limited: '<number>:<n>' of some bands, with a space between them: at most n jobs of the band are handed
--        out beyond the common ones; '<number>:-' none of them is, because the band is paused | '' of no band. A band
--        has the scores from number * band on
-- ARGV[13] common: how many jobs may be handed out beyond those of ARGV[12] | '-' any number
-- per tier (n = 14, 17, ...):
-- ARGV[n+0] tier: the name of the tier | '*' any tier that has no arguments of its own
-- ARGV[n+1] heartbeat_timeout_ms: how long from now the lease lives without a heartbeat
-- ARGV[n+2] max_run_ms: how long from now the attempt may run, unless the job's class says it
-- REPLY  next (score of the best job left that this caller may get, or ''), then four lists: the different leases of
--        the call, and of each job which of them it has, its id and its record; then the checkpoints, an id and a text
--        in turn; then '1' if jobs were passed over for want of slots, else ''; then the tiers of the jobs that the
--        call ended, because nobody had claimed them by their time; then the jobs that have crashed, an id and how
--        often in turn; then Redis' time in ms | EMPTY | LATE (not_after has passed)
-- TWICE  the number of the process' last claim answers the same leases, a lower number answers EMPTY. So does the last
--        delivery of a claim by id, and an earlier one: one that was answered before, or that has a lower repeat.
--        Another delivery of an id that found jobs within 60 s answers those that still run: with new tokens, so that a
--        late release of an earlier answer finds them taken
-- A job whose expiry has passed before its first claim is not handed out: the claim that meets it ends it, in the place
-- of a lease. The doorbell rings if jobs are behind it.
-- Over several queues the best tier comes first. Inside a tier one queue comes first, as order says, and another queue
-- when that one has no more jobs of the tier. Where tiers may overlap, all queues are in one order, and no band is
-- limited.
local queue, queues, scheduled, expiries, heartbeat_deadlines, run_deadlines, outbox, counters, owners, claims,
  doorbell, quarantine, job, tried, leases, checkpoints, ended, unacked, unique, reserved, events, lines = unpack(KEYS)
local nonce, number, max, bound, max_bytes = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])
local names, band, low, delivery, not_after = ARGV[6], tonumber(ARGV[7]), ARGV[8], ARGV[9], tonumber(ARGV[10])
local order, limited, common = ARGV[11], ARGV[12], tonumber(ARGV[13]) or math.huge
local by_name = order == 'named' and band > 0
local now = time_ms()

-- claims has the number of the process' last claim, or the deliveries of the claim by id with a comma between them, the
-- last one at the end; then the ids.
local claim_id = string.match(number, '^~(.*)$')
local function repeat_of(name) return tonumber(string.match(name, '^(%d+)-') or 0) end
local known, last_ids = string.match(redis.call('GET', claims) or '', '^(%S+)(.*)$')
local is_repeat, token = known == number, nonce .. ':' .. number
local last_token = token
if claim_id then
  if now > not_after then return {'LATE'} end
  local latest = known and string.match(known, '[^,]+$')
  local was_answered = known and string.find(',' .. known .. ',', ',' .. delivery .. ',', 1, true)
  local is_overtaken = latest and repeat_of(delivery) < repeat_of(latest)
  if was_answered and latest ~= delivery or is_overtaken then return {'EMPTY'} end
  is_repeat, token = latest ~= nil, nonce .. ':' .. claim_id .. '.' .. delivery
  last_token = nonce .. ':' .. claim_id .. '.' .. (latest or '')
elseif known and tonumber(number) < tonumber(known) then
  return {'EMPTY'}
end

local deadlines = {} -- tier -> when a lease that starts now expires
local function read_deadlines()
  for i = 14, #ARGV, 3 do
    local tier, heartbeat_timeout, max_run = ARGV[i], ARGV[i + 1], ARGV[i + 2]
    deadlines[tier] = {
      heartbeat = text(now + heartbeat_timeout), run = text(now + max_run), lease_for = ' for=' .. heartbeat_timeout,
    }
  end
end
local function deadline_of(class) return deadlines[class.tier] or deadlines['*'] end

-- places are the queues of the claim. Of each, read is how many jobs from the score low on were read, and head the
-- score behind them, as a text; nil = there is none, or it is not known.
local places = {}
for name in string.gmatch(names, '%S+') do
  places[#places + 1] = {name = name, low = low, read = 0, taken = {}}
end

-- own has how many jobs of a band may be handed out beside the common ones, and paused has the paused bands.
local own, paused, has_limits = {}, {}, limited ~= '' or common < math.huge
for number, n in string.gmatch(limited, '(%d+):(%S+)') do
  if n == '-' then paused[tonumber(number)] = true else own[tonumber(number)] = tonumber(n) end
end
local function band_of(score) return math.floor(tonumber(score) / band) end

-- room_in returns how many more jobs of a band may be handed out.
local function room_in(number) return paused[number] and 0 or (own[number] or 0) + common end

-- take_room counts n jobs of a band: first those of its own, then common ones.
local function take_room(number, n)
  local of_its_own = math.min(own[number] or 0, n)
  if of_its_own > 0 then own[number] = own[number] - of_its_own end
  common = common - (n - of_its_own)
end

-- read_head reads the score of the job behind those that were read. A line from which jobs were read may come first.
local function read_head(place)
  place.head = redis.call('ZRANGEBYSCORE', key_of(place.name, queue, queues), place.low, '+inf', 'WITHSCORES', 'LIMIT',
    text(place.read), '1')[2]
  local front = place.candidates and place.candidates[place.candidates.first]
  if front and (not place.head or front.score <= tonumber(place.head)) then place.head = text(front.score) end
end

-- pass_over moves the head of a place past the bands of which no more jobs may be handed out. was_passed_over says
-- whether it passed jobs of a band that is not paused.
local was_passed_over = false
local function pass_over(place)
  while has_limits and place.head and room_in(band_of(place.head)) <= 0 do
    local number = band_of(place.head)
    was_passed_over = was_passed_over or not paused[number]
    place.is_passed_over = place.is_passed_over or not paused[number]
    place.low, place.read, place.candidates = text((number + 1) * band), 0, place.candidates and {first = 1, last = 0}
    read_head(place)
  end
end

local ready, scores, homes = {}, {}, {} -- the jobs that were read, best first; their scores; their places
local picks = {} -- number of a job that was read -> the line that it was read from

local pick_from -- see below
do
  -- insert_candidate puts a candidate to the others of its place, which are in order from first to last.
  local function insert_candidate(candidates, c)
    local n, score, member = candidates.last, c.score, c.member
    while n >= candidates.first do
      local other = candidates[n]
      if other.score < score or other.score == score and other.member <= member then break end
      candidates[n + 1], n = other, n - 1
    end
    candidates[n + 1], candidates.last = c, candidates.last + 1
  end

  -- read_candidates reads more members of a queue that has lines: jobs and lines.
  local function read_candidates(place, upto, most)
    local found = redis.call('ZRANGEBYSCORE', key_of(place.name, queue, queues), place.low, upto, 'WITHSCORES', 'LIMIT',
      text(place.read), text(most))
    local keys, keys_of_home = {}, {}
    for i = 1, #found, 2 do
      local c = {member = found[i], score = tonumber(found[i + 1])}
      local tier, key = string.match(c.member, '^@([^:]+):(.+)$')
      if tier then
        local home = tier .. ':' .. place.name
        c.line = {
          line = key, tier = tier, queue = place.name, line_home = home, line_member = c.member,
          line_name = tier .. ':' .. key .. ':' .. place.name, ids = {}, at = 1, taken = {},
        }
        keys[#keys + 1] = key
        keys_of_home[home] = keys_of_home[home] or {}
        table.insert(keys_of_home[home], key)
        by_name = band > 0
      end
      insert_candidate(place.candidates, c)
      place.last = c.score
    end
    place.read, place.is_read = place.read + #found / 2, #found < 2 * most
    place.expected = math.ceil(most / math.max(#keys, 1)) + 1
    read_keys(lines, keys)
    for home, some in pairs(keys_of_home) do read_tags(lines, home, some) end
  end

  -- unknown_run is what an attempt is charged before any attempt of the tier has ended, in ms: lines then take turns.
  local unknown_run = 1000

  -- open_line computes, before the first job of a line is read, what each of its jobs is charged.
  local function open_line(line, score)
    local s, t, v = key_states[line.line], tags_of(line.line_home)[line.line], virtual_of(lines, line.line_home)
    line.offset = band > 0 and band_of(score) * band or 0
    t = t or {tag = score - line.offset}
    tags_of(line.line_home)[line.line] = t
    line.charge = math.floor((t.mean or v.mean or unknown_run) + 0.5)
    line.tag, line.step = t.tag, line.charge / tag_ms / s.weight
    if s.limits and not s.trial then
      s.trial = {running = s.running, next_at = s.next_at, behind = s.behind, limits = s.limits}
    end
    line.trial, line.is_open = s.trial, true
  end

  -- next_of returns the next job of a line, and reads a few more where it must: at first as many as the claim takes of
  -- each line if all lines get as many.
  local function next_of(place, line)
    if line.at > #line.ids and not line.is_read then
      local n = #line.ids
      local wanted = math.min(n == 0 and place.expected or 3 * n, 100)
      local found = redis.call('ZRANGE', lines .. 'jobs:' .. line.line_name, text(n), text(n + wanted - 1))
      for _, id in ipairs(found) do line.ids[#line.ids + 1] = id end
      line.is_read = #found < wanted
    end
    return line.ids[line.at]
  end

  -- may_start says whether the key of a line may start one more attempt. A key without limits has no trial.
  local function may_start(line) return not line.trial or runs_from(line.trial, now) <= now end

  -- pick_job reads the next job of a line, unless its key may not start one more, and puts the line back behind the
  -- charge of the job.
  local function pick_job(place, c)
    local line, n = c.line, #ready + 1
    if not line.is_open then open_line(line, c.score) end
    touch(line).offset = line.offset
    local id = may_start(line) and next_of(place, line)
    if not id then return end
    ready[n], scores[n], homes[n], picks[n] = id, c.score, place, line
    line.at = line.at + 1
    if line.trial then start_one(line.trial, now) end
    line.tag = line.tag + line.step
    if may_start(line) and next_of(place, line) then
      c.score = math.min(line.offset + math.floor(line.tag), band > 0 and line.offset + band - 1 or math.huge)
      insert_candidate(place.candidates, c)
    end
  end

  -- pick_from is read_from for a queue that has lines.
  function pick_from(place, upto, most)
    local before, is_open = #ready, string.sub(upto, 1, 1) == '('
    local highest = upto == '+inf' and math.huge or tonumber((string.gsub(upto, '^%(', '')))
    place.is_read, place.last = false, place.last or -math.huge
    while #ready < most do
      local candidates = place.candidates
      local c = candidates[candidates.first]
      if not place.is_read and (not c or c.score > place.last) then
        read_candidates(place, upto, most - #ready + 1)
        c = candidates[candidates.first]
      end
      if not c or c.score > highest or is_open and c.score == highest then break end
      candidates[candidates.first], candidates.first = nil, candidates.first + 1
      if c.line then
        pick_job(place, c)
      else
        local n = #ready + 1
        ready[n], scores[n], homes[n] = c.member, c.score, place
      end
    end
    read_head(place)
    return #ready - before
  end
end

-- read_from reads jobs of a place whose score is at most upto, until there are most, and looks at one more. It returns
-- how many it has read.
local function read_from(place, upto, most)
  if place.candidates then return pick_from(place, upto, most) end
  local before = #ready
  local found = redis.call('ZRANGEBYSCORE', key_of(place.name, queue, queues), place.low, upto, 'WITHSCORES', 'LIMIT',
    text(place.read), text(most - #ready + 1))
  for i = 1, #found, 2 do
    if string.byte(found[i]) == 64 then -- '@': a line
      place.candidates = {first = 1, last = 0}
      return pick_from(place, upto, most)
    end
  end
  place.head = nil
  for i = 1, #found, 2 do
    local n = #ready + 1
    if n > most then
      place.head = found[i + 1]
    else
      ready[n], scores[n], homes[n], place.read = found[i], found[i + 1], place, place.read + 1
    end
  end
  return #ready - before
end

-- highest is the bound as a number.
local highest = tonumber(bound)
if bound == '+inf' then highest = math.huge elseif bound == '-inf' then highest = -math.huge end

-- best_two returns the place to read next, and the lowest head of the others. It is the place with the lowest head, or
-- by name the first one that has a job of the best tier. If is_any, heads above the bound count, and names do not.
local function best_two(is_any)
  local function rank(score) return by_name and not is_any and math.floor(score / band) or score end
  local best, second
  for _, place in ipairs(places) do
    local score = tonumber(place.head)
    if score and (is_any or score <= highest) then
      if not best or rank(score) < rank(tonumber(best.head)) then
        best, second = place, best and best.head
      elseif not second or score < tonumber(second) then
        second = place.head
      end
    end
  end
  return best, second
end

-- read_heads reads the heads of all places.
local function read_heads()
  for _, place in ipairs(places) do
    read_head(place)
    pass_over(place)
  end
end

-- read_ready reads the best jobs of all places.
local function read_ready()
  if #places == 1 and not has_limits then
    read_from(places[1], bound, max)
    if bound ~= '+inf' and not places[1].head then read_head(places[1]) end
    return
  end
  read_heads()
  local best, second = best_two(false)
  while best and #ready < max do
    local upto, most, number = second or bound, max, nil
    if band > 0 then
      number = band_of(best.head)
      upto, most = '(' .. text((number + 1) * band), math.min(max, #ready + room_in(number))
    end
    if bound ~= '+inf' and tonumber((string.gsub(upto, '^%(', ''))) > tonumber(bound) then upto = bound end
    local head = best.head
    local n = read_from(best, upto, most)
    if n == 0 and (not best.candidates or best.head == head) then return end
    if number then take_room(number, n) end
    if not best.head then read_head(best) end
    for _, place in ipairs(places) do pass_over(place) end
    best, second = best_two(false)
  end
end

-- lease_numbers has the different leases of the call: most jobs share one.
local lease_texts, lease_numbers, which, ids, records = {}, {}, {}, {}, {}
local function add_job(id, lease, record)
  local n = #ids + 1
  if not lease_numbers[lease] then
    lease_texts[#lease_texts + 1] = lease
    lease_numbers[lease] = text(#lease_texts)
  end
  which[n], ids[n], records[n] = lease_numbers[lease], id, record
end

-- read_records reads the records of jobs, some at a time, until it has more than max_bytes.
local function read_records(job_ids)
  local found, bytes, i = {}, 0, 1
  while i <= #job_ids and bytes <= max_bytes do
    local job_keys = {}
    for k = i, math.min(i + 24, #job_ids) do
      local id = job_ids[k]
      job_keys[#job_keys + 1] = job .. id
    end
    for _, record in ipairs(redis.call('MGET', slice(job_keys, 1))) do
      found[i], bytes, i = record, bytes + #(record or ''), i + 1
    end
  end
  return found, i - 1
end

-- note_crashes tells the caller how often a job that it gets has crashed.
local crashed = {}
local function note_crashes(id, t)
  if t.crashes > 0 then crashed[#crashed + 1], crashed[#crashed + 2] = id, text(t.crashes) end
end

-- answer_again answers the leases of the last answer that still run. Another delivery gets them under its own token.
local function answer_again()
  read_heads()
  read_deadlines()
  local claimed, renewed_deadlines, renewed_leases = {}, {}, {}
  for id in string.gmatch(last_ids, '%S+') do claimed[#claimed + 1] = id end
  for i, stored in pairs(read_column(leases, claimed)) do
    local id, lease, head = claimed[i], parse_lease(stored)
    local record = lease and lease.token == last_token and redis.call('GET', job .. id)
    if record then
      local new = lease.class.text .. ' ' ..
        format_run(lease.attempt, lease.retries, lease.first_claim, lease.started, lease.due, token) ..
        lease.options
      add_job(id, new, record)
      renewed_deadlines[#renewed_deadlines + 1] = deadline_of(lease.class).heartbeat
      renewed_deadlines[#renewed_deadlines + 1] = id
      renewed_leases[#renewed_leases + 1] = id
      renewed_leases[#renewed_leases + 1] = new .. (lease.cancel and ' cancel' or '') .. '\n' .. head
    end
  end
  for i, stored in pairs(read_column(tried, ids)) do
    if stored then note_crashes(ids[i], parse_tried(stored)) end
  end
  -- The first write succeeds in a full Redis too.
  redis.call('PEXPIRE', claims, '60000')
  if token == last_token then return end
  bulk('ZREM', heartbeat_deadlines, ids)
  bulk('ZADD', heartbeat_deadlines, renewed_deadlines)
  bulk('HSET', leases, renewed_leases)
  redis.call('SET', claims, string.sub(known, -400) .. ',' .. delivery .. last_ids, 'PX', '60000')
end

local expired_tiers = {} -- of the jobs that this claim ended

-- charge_job counts an attempt that starts for its key, charges its line, and returns what the lease says of that.
local function charge_job(line)
  local s, v = key_states[line.line], virtual_of(lines, line.line_home)
  local t, of = tags_of(line.line_home)[line.line], touch(line)
  of.old_tag = of.old_tag or math.floor(t.tag)
  start_one(s, now)
  v.tag, v.is_changed = math.max(v.tag, t.tag), true
  t.tag, t.is_changed = t.tag + line.step, true
  return ' charge=' .. text(line.charge)
end

-- write_claim writes what hand_out found and did.
local function write_claim(started, unexplained, heartbeat_entries, run_entries, lease_entries, claimed_in_time)
  -- The first write removes, so that a full Redis accepts a claim, also one that finds nothing.
  redis.call('DEL', claims)
  for _, place in ipairs(places) do bulk('ZREM', key_of(place.name, queue, queues), place.taken) end
  for _, line in pairs(picks) do
    bulk('ZREM', lines .. 'jobs:' .. line.line_name, line.taken)
    touch(line).change = touch(line).change - #line.taken
    line.taken = {}
  end
  bulk('ZREM', expiries, claimed_in_time)
  bulk('ZADD', quarantine, unexplained)
  bulk('ZADD', heartbeat_deadlines, heartbeat_entries)
  bulk('ZADD', run_deadlines, run_entries)
  bulk('HSET', leases, lease_entries)
  if not claim_id or #ids > 0 then
    redis.call('SET', claims, (claim_id and delivery or number) .. ' ' .. table.concat(ids, ' '), 'PX', '60000')
  end
  write_ends(outbox, ended, unacked, tried, checkpoints, reserved)
  write_unique(unique, job, scheduled, tried, events, now)
  write_entries(queue, queues, doorbell, job, lines)
  write_counters(counters, owners)
  publish(events, started)
end

-- hand_out starts attempts of the jobs that were read.
local function hand_out()
  local started, events_wanted = text(now), has_listeners(events)

  read_deadlines()
  read_ready()
  local found, looked = read_records(ready)
  local tried_texts, held = read_column(tried, ready), read_column(leases, ready)

  -- first_lease is the lease of a first attempt, which the jobs of one class share.
  local first_leases = {} -- class as text -> lease
  local first_run = ' ' .. format_run('1', '0', started, started, '0', token)
  local function first_lease(class, charge)
    local lease = first_leases[class.text]
    if not lease then
      lease = class.text .. first_run .. deadline_of(class).lease_for .. charge
      first_leases[class.text] = lease
    end
    return lease
  end

  local bytes, heartbeat_entries, run_entries, lease_entries, unexplained = 0, {}, {}, {}, {}
  local claimed_in_time = {} -- the jobs that leave expiries
  local gone = 0 -- how many of the jobs leave their queues
  for i = 1, looked do
    local id, record, line, charge = ready[i], found[i], picks[i], ''
    local taken = (line or homes[i]).taken
    local class, head = parse_start(record or '')
    if not class or held[i] then
      unexplained[#unexplained + 1], unexplained[#unexplained + 2] = started, id
    elseif is_expired(class, tried_texts[i], now) then
      expire_waiting(queue, queues, scheduled, expiries, tried, lines, checkpoints, events, id, class, head, started)
      expired_tiers[#expired_tiers + 1] = class.tier
      taken = line and {} or taken -- it has left its line
    else
      bytes = bytes + #record
      if bytes > max_bytes and #ids > 0 then break end
      local lease, attempt, is_first = nil, '1', true
      if line then charge = charge_job(line) end
      if tried_texts[i] then
        local t = parse_tried(tried_texts[i])
        local run = t.run
        note_crashes(id, t)
        attempt, is_first = text(run.attempt + 1), run.first_claim == '0'
        local first_claim = is_first and started or run.first_claim
        local new_run = format_run(attempt, run.retries, first_claim, started, run.due, token)
        lease = class.text .. ' ' .. new_run .. deadline_of(class).lease_for .. charge .. extras.format(t.log_bytes, '')
      else
        lease = first_lease(class, charge)
      end
      add_job(id, lease, record)
      local deadline, e = deadline_of(class), #lease_entries
      local run_deadline = class.max_run > 0 and text(now + class.max_run) or deadline.run
      heartbeat_entries[e + 1], heartbeat_entries[e + 2] = deadline.heartbeat, id
      run_entries[e + 1], run_entries[e + 2] = run_deadline, id
      lease_entries[e + 1], lease_entries[e + 2] = id, lease .. '\n' .. head
      count_waiting(class, true, is_first, -1, 0)
      count_running(class, 1)
      if class.expires then claimed_in_time[#claimed_in_time + 1] = id end
      if class.unique_while == 'w' then free_unique(id, class) end
      if events_wanted then note_event(events, id, class.tier, 'PROCESSING', attempt) end
    end
    gone, taken[#taken + 1] = i, id
  end
  for i = #ready, gone + 1, -1 do homes[i].head = text(scores[i]) end
  write_claim(started, unexplained, heartbeat_entries, run_entries, lease_entries, claimed_in_time)
end

if is_repeat then answer_again() else hand_out() end

local saved = {}
for i, stored in pairs(read_column(checkpoints, ids)) do
  if stored then saved[#saved + 1], saved[#saved + 2] = ids[i], string.gsub(stored, '^%d+ %d+ ', '') end
end
local best = best_two(true)
for _, place in ipairs(places) do
  if place.head or place.is_passed_over then ring(doorbell, place.name) end
end
return {
  best and best.head or '', lease_texts, which, ids, records, saved, was_passed_over and '1' or '', expired_tiers,
  crashed, text(now),
}
