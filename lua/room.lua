-- This file stands behind the prelude in front of submit and reserve, the two doors by which jobs come in. It says
-- whether there is room for one more.
--
-- Tiers fill a limit one after the other, the smallest share first, and each at most to its share. What a tier has
-- beyond its share (jobs that came due, were requeued or restored) keeps no other tier out. shares is 'tier fresh
-- delayed delayedbytes living bytes' of each tier, the smallest share first. The counters '-' and '~' are marks of
-- the reserved places: '-' says that all are there, '~' is the token of a process that reserves them anew.
local function open_room(counters, owners, lines, shares)
  local room = {share_of = {}} -- tier -> limit -> its share
  local tier_shares, share_of = {}, room.share_of -- in the order of the shares
  local share_pattern = '(%S+) (%d+) (%d+) (%d+) (%d+) (%d+)'
  for tier, fresh, delayed, delayed_bytes, living, bytes in string.gmatch(shares, share_pattern) do
    local of = {
      tier = tier, fresh = tonumber(fresh), delayed = tonumber(delayed), delayedbytes = tonumber(delayed_bytes),
      living = tonumber(living), bytes = tonumber(bytes),
    }
    tier_shares[#tier_shares + 1], share_of[tier] = of, of
  end

  local counts = {} -- counter -> its value before this call
  local fields = redis.call('HGETALL', counters)
  for i = 1, #fields, 2 do counts[fields[i]] = tonumber(fields[i + 1]) end

  -- is_whole says that the places of all jobs that SQL has are reserved. A Redis that has lost its data lacks the mark.
  room.is_whole = counts['-'] ~= nil

  -- taken_before returns how much of a limit a tier had taken before this call.
  local function taken_before(tier, limit)
    local function taken(counter) return math.max(counts[tier .. ':' .. counter] or 0, 0) end
    -- Living jobs have no counter of their own: they are ready, scheduled, running, or have a reserved place.
    if limit == 'living' then return taken('ready') + taken('scheduled') + taken('running') + taken('reserved') end
    return taken(limit)
  end

  -- used has how much of each limit is taken, or more than that: see is_full.
  local used = {
    fresh = counts.fresh or 0, delayed = counts.delayed or 0, delayedbytes = counts.delayedbytes or 0,
    living = 0, bytes = counts.bytes or 0,
  }
  for _, of in ipairs(tier_shares) do used.living = used.living + taken_before(of.tier, 'living') end

  -- add counts what a job of this call takes of a limit. It adds all of it to used, which is at most too much.
  local taken_now = {fresh = {}, delayed = {}, delayedbytes = {}, living = {}, bytes = {}} -- limit -> tier -> n
  local function add(limit, tier, n)
    local taken = taken_now[limit]
    taken[tier], used[limit] = (taken[tier] or 0) + n, used[limit] + n
  end
  room.add = add

  -- add_up_used computes exactly how much of a limit is taken.
  local function add_up_used(limit)
    local fills, others = {}, counts[limit] or 0 -- others = what tiers without a plan have
    for i, of in ipairs(tier_shares) do
      fills[i] = taken_before(of.tier, limit)
      others = others - fills[i]
    end
    local sum = math.max(others, 0)
    for i, of in ipairs(tier_shares) do
      sum = math.max(sum, math.min(sum + fills[i] + (taken_now[limit][of.tier] or 0), of[limit]))
    end
    used[limit] = sum
  end

  -- is_full says whether used has reached a number. Only then is used added up exactly.
  local function is_full(limit, number)
    if used[limit] >= number then add_up_used(limit) end
    return used[limit] >= number
  end
  room.is_full = is_full

  -- queue_full says whether a queue has as many jobs that were never claimed as it may have.
  local function queue_full(class, counter)
    if not class.queue_limit then return false end
    local name = '@' .. class.queue
    local new = counter_changes[counter] and counter_changes[counter][name] or 0
    return (counts[name .. ':' .. counter] or 0) + new >= class.queue_limit
  end

  -- line_full says whether a line has as many ready jobs, with those whose places are reserved, as its key may have in
  -- a line.
  local line_sizes = {} -- name of a line -> its jobs, with those of this call
  local function line_full(class)
    local l = class.line and class.state.limits
    if not l or l.waiting == 0 then return false end
    local name = class.line.line_name
    line_sizes[name] = line_sizes[name] or
      redis.call('ZCARD', lines .. 'jobs:' .. name) + (counts['#' .. name .. ':reserved'] or 0)
    return line_sizes[name] >= l.waiting
  end

  -- full_limit returns the limit that has no capacity for a job of this class, or nil. A HELD job counts as delayed.
  local of_fresh, of_delayed = {'living', 'bytes'}, {'delayedbytes', 'living', 'bytes'}
  function room.full_limit(class, is_held)
    local is_fresh = class.delay == 0 and not is_held
    local count_limit = is_fresh and 'fresh' or 'delayed'
    if queue_full(class, count_limit) then return 'queue' end
    if is_fresh and line_full(class) then return 'line' end
    if is_full(count_limit, is_held and class.held_limit or class.limit) then return count_limit end
    local of = share_of[class.tier]
    for _, limit in ipairs(is_fresh and of_fresh or of_delayed) do
      if of and is_full(limit, of[limit]) then return limit end
    end
    return nil
  end

  -- take counts a job that comes in.
  function room.take(class, is_fresh, bytes)
    add('living', class.tier, 1)
    add('bytes', class.tier, bytes)
    if is_fresh then
      add('fresh', class.tier, 1)
      local size = class.line and line_sizes[class.line.line_name]
      if size then line_sizes[class.line.line_name] = size + 1 end
    else
      add('delayed', class.tier, 1)
      add('delayedbytes', class.tier, bytes)
    end
  end

  -- quota_spent says whether as many of the owner's jobs live as the quota allows.
  local living_before = {} -- owner -> how many of its jobs lived before this call
  function room.quota_spent(class)
    local owner = class.owner
    if not class.quota or owner == '-' then return false end
    living_before[owner] = living_before[owner] or tonumber(redis.call('HGET', owners, owner) or 0)
    return living_before[owner] + (owner_changes[owner] or 0) >= class.quota
  end

  return room
end

