-- This file stands behind the prelude in front of the scripts that know reserved places: those of jobs that SQL has, or
-- is about to have, and Redis has not yet. reserved is a HASH
--   id -> "counts_as tier queue owner generation bytes[ line=<key>][ of=<batch>][ end=<job>:<its generation>]"
-- of names the batch that owes the job; end the job that has ended, if the place is that of its callback.
-- counts_as says how the place counts: f = as a fresh job, d = as one that was delayed at submit, l = as a living one
-- only. reserving is a ZSET id -> the time in ms of the places that SQL has not confirmed.
local places = {}

-- places.parse returns the parts of a place, or nil.
function places.parse(stored)
  local counts_as, tier, queue, owner, generation, bytes, rest =
    string.match(stored or '', '^([fdl]) (%S+) (%S+) (%S+) (%d+) (%d+)(.*)$')
  if not counts_as then return nil end
  return {
    counts_as = counts_as, tier = tier, queue = queue, owner = owner, generation = tonumber(generation),
    bytes = tonumber(bytes), line = string.match(rest, '^ line=(%S+)'),
  }
end

-- places.change counts n more or fewer of a place, wherever the job itself would count.
function places.change(place, n)
  change_counter(place.tier, 'reserved', n)
  count_living(place, n, place.bytes)
  if place.counts_as == 'f' then count_job(place, 'fresh', n) end
  if place.counts_as == 'd' then
    count_job(place, 'delayed', n)
    change_counter(place.tier, 'delayedbytes', n * place.bytes)
  end
  if place.counts_as == 'f' and place.line then
    change_counter('#' .. place.tier .. ':' .. place.line .. ':' .. place.queue, 'reserved', n)
  end
end

-- places.free gives a place back, and returns it; nil if there is none.
function places.free(reserved, reserving, id)
  if places.is_empty == nil then places.is_empty = redis.call('EXISTS', reserved) == 0 end
  local stored = not places.is_empty and redis.call('HGET', reserved, id)
  if not stored then return nil end
  redis.call('HDEL', reserved, id)
  redis.call('ZREM', reserving, id)
  local place = places.parse(stored)
  if place then places.change(place, -1) end
  return place
end

-- places.has_job says whether Redis has the job of a place, in the generation of the place or in a later one.
function places.has_job(job, ended, id, generation)
  local living, e = read_start(job .. id), read_ended(ended, id)
  local found = living or e and e.class
  return found ~= nil and found ~= false and tonumber(found.generation) >= generation
end

