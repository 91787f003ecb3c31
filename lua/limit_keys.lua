-- limit_keys: sets the limits of keys of lines, and puts parked lines that may run now into their queues.
-- KEYS   queue queues doorbell job lines
-- per key (n = 1, 3, ...):
-- ARGV[n+0] key: of the lines
-- ARGV[n+1] limits: 'running weight interval_ms burst waiting strict paused_until': at most so many attempts run at
--        once; its share of the tier's worker time; at most one attempt starts per interval on average, after burst
--        at once; at most so many jobs of a line are ready; '1' = one attempt after the other, in the order of
--        arrival, else '0'; no attempt starts before paused_until, in ms. Zero = no such limit | '' no limits
-- REPLY  per key: OK
-- TWICE  the limits are set once more
local queue, queues, doorbell, job, lines = unpack(KEYS)
local reply, keys = {}, {}

for i = 1, #ARGV, 2 do
  local key, limits = ARGV[i], ARGV[i + 1]
  -- The first write removes, so that a full Redis takes what follows.
  redis.call('HDEL', lines .. 'limits', key)
  if limits ~= '' then redis.call('HSET', lines .. 'limits', key, limits) end
  keys[#keys + 1] = key
  reply[#reply + 1] = 'OK'
end

write_entries(queue, queues, doorbell, job, lines, keys)
return reply
