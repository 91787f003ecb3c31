-- promote: scheduled jobs that are due become ready, each at its own place. Parked lines whose time has come go back
--        into their queues.
-- KEYS   scheduled queue queues counters doorbell quarantine job tried events lines
-- ARGV[1] limit: how many jobs to promote at most, and of how many keys to look at the parked lines
-- REPLY  per due job: OK | QUARANTINED (scheduled, yet no such job)
-- TWICE  the script acts on what it finds: it does not find a promoted job again
-- A key that was parked while Redis' clock was ahead has a time that is too late. So each call also looks at a few of
-- the keys whose times are to come, at others a moment later.
local scheduled, queue, queues, counters, doorbell, quarantine, job, tried, events, lines = unpack(KEYS)
local limit = ARGV[1]
local now_ms = time_ms()
local now = text(now_ms)
local looks = 10 -- at parked keys whose times are to come
local reply, ids, tried_entries, unexplained = {}, {}, {}, {}

local due = redis.call('ZRANGEBYSCORE', scheduled, '-inf', now, 'WITHSCORES', 'LIMIT', '0', limit)
for i = 1, #due, 2 do ids[#ids + 1] = due[i] end
local tried_texts = read_column(tried, ids)
for i, id in ipairs(ids) do
  local class, head = read_start(job .. id)
  local word = 'OK'
  if not class then
    word = 'QUARANTINED'
    unexplained[#unexplained + 1], unexplained[#unexplained + 2] = now, id
  else
    local text_of_tried = make_ready(events, id, class, head, parse_tried(tried_texts[i]), due[2 * i])
    if text_of_tried then
      tried_entries[#tried_entries + 1], tried_entries[#tried_entries + 2] = id, text_of_tried
    end
  end
  reply[#reply + 1] = word
end

local woken = redis.call('ZRANGEBYSCORE', lines .. 'parked', '-inf', now, 'LIMIT', '0', limit)
bulk('ZREM', scheduled, ids)
bulk('ZREM', lines .. 'parked', woken)
local later = redis.call('ZCOUNT', lines .. 'parked', '(' .. now, '(+inf')
if later > 0 then
  local from = text(math.floor(now_ms / 100) * looks % later)
  local keys = redis.call('ZRANGEBYSCORE', lines .. 'parked', '(' .. now, '(+inf', 'LIMIT', from, text(looks))
  for _, key in ipairs(keys) do woken[#woken + 1] = key end
end
bulk('ZADD', quarantine, unexplained)
bulk('HSET', tried, tried_entries)
write_entries(queue, queues, doorbell, job, lines, woken)
write_counters(counters)
publish(events, now)
return reply
