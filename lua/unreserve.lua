-- unreserve: gives back reserved places that no job of SQL needs, and notes which places are needed for long.
-- KEYS   counters owners job ended reserved reserving
-- per place (n = 1, 4, ...):
-- ARGV[n+0] id: the job
-- ARGV[n+1] is_needed: 1 SQL has the job: it keeps its place, unless Redis has the job by now | 0 it loses its place
-- ARGV[n+2] seen: the time in reserving at which SQL was asked; at another time nothing happens | '' at any time | '-'
--        if it is not in reserving
-- REPLY  per place: OK | EMPTY (there is none, or it was reserved again)
-- TWICE  a place that is gone answers EMPTY
local counters, owners, job, ended, reserved, reserving = unpack(KEYS)
local reply = {}

for i = 1, #ARGV, 3 do
  local id, is_needed, seen = ARGV[i], ARGV[i + 1] == '1', ARGV[i + 2]
  local word = 'EMPTY'
  local since = redis.call('ZSCORE', reserving, id)
  if seen == '' or seen == '-' and not since or since and tonumber(since) == tonumber(seen) then
    local place = places.parse(redis.call('HGET', reserved, id))
    if not place or not is_needed or places.has_job(job, ended, id, place.generation) then
      if places.free(reserved, reserving, id) then word = 'OK' end
      redis.call('ZREM', reserving, id)
    else
      redis.call('ZREM', reserving, id)
      word = 'OK'
    end
  end
  reply[#reply + 1] = word
end
write_counters(counters, owners)
return reply
