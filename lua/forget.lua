-- forget: memory is short: slices of acknowledged jobs leave Redis before their time to live is over. SQL answers for
--        their jobs.
-- KEYS   ended
-- ARGV[1] before: a time of Redis in ms; a slice whose last job ended then or earlier goes
-- ARGV[2] min_age_ms: a slice whose last job ended within this time stays, whatever before says
-- per slice (n = 3, 4, ...):
-- ARGV[n+0] slice_name: the slice
-- REPLY  per slice: OK jobs (gone with so many jobs) | ENDED at jobs (it could go, but ended after before) | BUSY (it
--        stays) | EMPTY (no such slice)
-- TWICE  a slice that is gone answers EMPTY
-- A slice without a time to live has jobs that SQL lacks. A slice that ended within min_age_ms stays because a late
-- copy of a submit, or a holder's repeated report, must still find its job.
local ended = unpack(KEYS)
local before, min_age = tonumber(ARGV[1]), tonumber(ARGV[2])
local now = time_ms()
local reply = {}

for i = 3, #ARGV, 1 do
  local slice_name = ARGV[i]
  local word, ttl = 'BUSY', redis.call('PTTL', ended .. slice_name)
  if ttl == -2 then
    word = 'EMPTY'
  elseif ttl >= 0 then
    local last_end, jobs = tonumber(redis.call('HGET', ended .. slice_name, '-') or now), 0
    jobs = redis.call('HLEN', ended .. slice_name) - 1
    if now - last_end >= min_age then
      word = (last_end <= before and 'OK ' or 'ENDED ' .. text(last_end) .. ' ') .. text(jobs)
    end
    if string.sub(word, 1, 2) == 'OK' then redis.call('UNLINK', ended .. slice_name) end
  end
  reply[#reply + 1] = word
end
return reply
