-- hasten: a scheduled job, delayed or backing off, becomes ready now, at its own place, as if it were due. A HELD job
--        stays HELD, and is due at once when its unique key is free.
-- KEYS   scheduled queue queues counters doorbell job tried leases ended events lines
-- per job (n = 1, 2, ...):
-- ARGV[n+0] id: the job
-- REPLY  per job: OK (it is ready, or HELD and due) | BUSY (it runs) | ENDED | EMPTY (no such job)
-- TWICE  a job that is ready answers OK
local scheduled, queue, queues, counters, doorbell, job, tried, leases, ended, events, lines = unpack(KEYS)
local now = time_ms()
local reply, tried_entries = {}, {}

for i = 1, #ARGV, 1 do
  local id, word = ARGV[i], 'EMPTY'
  local class, head = read_start(job .. id)
  if parse_lease(redis.call('HGET', leases, id)) then
    word = 'BUSY'
  elseif read_ended(ended, id) then
    word = 'ENDED'
  elseif class then
    word = 'OK'
    local due = redis.call('ZSCORE', scheduled, id)
    if is_held_score(due) then
      redis.call('ZREM', scheduled, id)
      redis.call('ZADD', scheduled, text(held_from), id)
    elseif due then
      redis.call('ZREM', scheduled, id)
      local t = parse_tried(redis.call('HGET', tried, id))
      local text_of_tried = make_ready(events, id, class, head, t, text(math.min(now, tonumber(due))))
      if text_of_tried then
        tried_entries[#tried_entries + 1], tried_entries[#tried_entries + 2] = id, text_of_tried
      end
    end
  end
  reply[#reply + 1] = word
end

bulk('HSET', tried, tried_entries)
write_entries(queue, queues, doorbell, job, lines)
write_counters(counters)
publish(events, text(now))
return reply
