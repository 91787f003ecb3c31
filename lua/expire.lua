-- expire: jobs that must be claimed by a time, and that nobody claimed by then, end EXPIRED, whatever they wait for.
-- KEYS   expiries queue queues scheduled outbox counters owners doorbell job tried leases checkpoints ended unacked
--        unique reserved events lines
-- ARGV[1] limit: how many jobs to look at at most
-- REPLY  per due job: EXPIRED tier | EMPTY (no such job waits for its first claim; it leaves expiries)
-- TWICE  the script acts on what it finds: it does not find again what it ended
local expiries, queue, queues, scheduled, outbox, counters, owners, doorbell, job, tried, leases, checkpoints, ended,
  unacked, unique, reserved, events, lines = unpack(KEYS)
local limit = ARGV[1]
local now = time_ms()
local at = text(now)
local reply = {}

local due = redis.call('ZRANGEBYSCORE', expiries, '-inf', at, 'LIMIT', '0', limit)
bulk('ZREM', expiries, due)
local running, tried_texts = read_column(leases, due), read_column(tried, due)
for i, id in ipairs(due) do
  local class, head = read_start(job .. id)
  if class and not running[i] and not read_ended(ended, id) and is_expired(class, tried_texts[i], now) then
    expire_waiting(queue, queues, scheduled, expiries, tried, lines, checkpoints, events, id, class, head, at)
    reply[i] = 'EXPIRED ' .. class.tier
  else
    reply[i] = 'EMPTY'
  end
end

write_ends(outbox, ended, unacked, tried, checkpoints, reserved)
write_unique(unique, job, scheduled, tried, events, now)
write_entries(queue, queues, doorbell, job, lines)
write_counters(counters, owners)
publish(events, at)
return reply
