-- kill: a waiting job becomes a dead letter at once; a running job stays as it is.
-- KEYS   queue queues scheduled expiries outbox counters owners doorbell job tried leases checkpoints ended unacked
--        unique reserved events alarms lines
-- per job (n = 1, 4, ...):
-- ARGV[n+0] id: the job
-- ARGV[n+1] generation: only this generation is killed
-- ARGV[n+2] reason: the error of the dead letter
-- REPLY  per job: FAILED tier (ended by this call) | FAILED (killed before this call) | BUSY (it runs) | ENDED
--        (otherwise) | EMPTY (no such job or generation)
-- TWICE  a killed job answers FAILED without its tier
local queue, queues, scheduled, expiries, outbox, counters, owners, doorbell, job, tried, leases, checkpoints, ended,
  unacked, unique, reserved, events, alarms, lines = unpack(KEYS)
local now = time_ms()
local at = text(now)
local reply, killed = {}, {}

-- cause_of returns the cause that a detail has.
local function cause_of(detail) return string.match(detail, '^%S+') end

-- kill_waiting ends a job that is ready, scheduled or HELD.
local function kill_waiting(id, class, head, reason)
  local t = take_waiting(queue, queues, scheduled, expiries, tried, lines, id, class, head)
  t.cause, t.error = 'KILLED', reason
  end_waiting(checkpoints, id, class, head, 'NEED_DISCARD', at, t)
  note_event(events, id, class.tier, 'FAILED', t.run.attempt, 'KILLED')
  note_alarm(alarms, id, class.tier, 'FAILED', t.run.attempt, 'KILLED')
end

for i = 1, #ARGV, 3 do
  local id, generation, reason = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local lease, head = parse_lease(redis.call('HGET', leases, id))
  local e, detail
  if not lease then e, head, detail = read_ended(ended, id) end
  local class = lease and lease.class or e and e.class
  if not class then class, head = read_start(job .. id) end
  local word = 'EMPTY'
  if class and generation == class.generation then
    if lease then
      word = 'BUSY'
    elseif killed[id] or e and cause_of(detail) == 'KILLED' then
      word = 'FAILED'
    elseif e then
      word = 'ENDED'
    else
      word, killed[id] = 'FAILED ' .. class.tier, true
      kill_waiting(id, class, head, reason)
    end
  end
  reply[#reply + 1] = word
end

write_ends(outbox, ended, unacked, tried, checkpoints, reserved)
write_unique(unique, job, scheduled, tried, events, now)
write_entries(queue, queues, doorbell, job, lines)
write_counters(counters, owners)
publish(events, at)
publish(alarms, at)
return reply
