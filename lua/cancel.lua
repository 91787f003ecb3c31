-- cancel: a waiting job ends CANCELLED at once; a running job keeps the request, and its holder's next report, of any
--        kind, ends it CANCELLED.
-- KEYS   queue queues scheduled expiries outbox counters owners doorbell job tried leases checkpoints ended unacked
--        unique reserved events lines
-- per job (n = 1, 3, ...):
-- ARGV[n+0] id: the job
-- ARGV[n+1] wanted_generation: only this generation is cancelled | '' any generation
-- REPLY  per job: CANCELLED tier (ended by this call) | CANCELLED (before this call) | CANCEL (running: the request is
--        kept) | ENDED (otherwise) | EMPTY (no such job)
-- TWICE  a cancelled job answers CANCELLED without its tier, a running job with a request answers CANCEL
local queue, queues, scheduled, expiries, outbox, counters, owners, doorbell, job, tried, leases, checkpoints, ended,
  unacked, unique, reserved, events, lines = unpack(KEYS)
local now = time_ms()
local at = text(now)
local reply, answers = {}, {}

-- cancel_running keeps the request with the lease.
local function cancel_running(id, lease, head)
  if not lease.cancel then
    redis.call('HDEL', leases, id) -- a full Redis accepts the script because its first write removes
    redis.call('HSET', leases, id, lease.text .. ' cancel\n' .. head)
  end
  note_event(events, id, lease.class.tier, 'PROCESSING', lease.attempt)
end

-- cancel_waiting ends a job that is ready, scheduled or HELD.
local function cancel_waiting(id, class, head)
  local t = take_waiting(queue, queues, scheduled, expiries, tried, lines, id, class, head)
  end_waiting(checkpoints, id, class, head, 'CANCELLED', at, t)
  note_event(events, id, class.tier, 'CANCELLED', t.run.attempt)
end

for i = 1, #ARGV, 2 do
  local id, wanted_generation = ARGV[i], ARGV[i + 1]
  local lease, head = parse_lease(redis.call('HGET', leases, id))
  local e = not lease and read_ended(ended, id)
  local class = lease and lease.class or e and e.class
  if not class then class, head = read_start(job .. id) end
  local word, ended_here = 'EMPTY', false
  if class and (wanted_generation == '' or wanted_generation == class.generation) then
    if lease then
      word = 'CANCEL'
      cancel_running(id, lease, head)
    elseif e or answers[id] then
      word = (answers[id] or e.state == 'CANCELLED') and 'CANCELLED' or 'ENDED'
    else
      word, ended_here, answers[id] = 'CANCELLED', true, true
      cancel_waiting(id, class, head)
    end
  end
  reply[#reply + 1] = ended_here and word .. ' ' .. class.tier or word
end

write_ends(outbox, ended, unacked, tried, checkpoints, reserved)
write_unique(unique, job, scheduled, tried, events, now)
write_entries(queue, queues, doorbell, job, lines)
write_counters(counters, owners)
publish(events, at)
return reply
