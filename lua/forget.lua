-- forget: memory is short: acknowledged jobs leave Redis before their time to live is over. SQL answers for them.
-- KEYS   outbox job
-- ARGV[1] before: a time of Redis in ms; a job that ended then or earlier goes
-- ARGV[2] min_age_ms: a job that ended within this time stays, whatever before says
-- per job (n = 3, 4, ...):
-- ARGV[n+0] id: the job
-- REPLY  per job: OK (gone) | ENDED at (it could go, but ended after before) | BUSY (it stays) | EMPTY (no such job)
-- TWICE  a job that is gone answers EMPTY
-- A job that lives stays, and so does a job in the outbox. A job that ended within min_age_ms stays because a late copy
-- of its submit, or its holder's repeated report, must still find it.
local outbox, job = unpack(KEYS)
local before, min_age = tonumber(ARGV[1]), tonumber(ARGV[2])
local now = time_ms()
local ended_states = {COMPLETED = true, FAILED = true, CANCELLED = true}
local ids, reply = {}, {}
for i = 3, #ARGV, 1 do ids[#ids + 1] = ARGV[i] end
local outbox_scores = scores(outbox, ids)

for _, id in ipairs(ids) do
  local key = job .. id
  local word, ttl = 'BUSY', redis.call('PTTL', key) -- only an acknowledged job has a time to live
  if ttl == -2 then
    word = 'EMPTY'
  elseif ttl >= 0 and not outbox_scores[id] then
    local m = redis.call('HMGET', key, 'state', 'ended')
    local state, ended = m[1], tonumber(m[2] or now)
    if ended_states[state] and now - ended >= min_age then
      word = ended <= before and 'OK' or 'ENDED ' .. text(ended)
    end
    if word == 'OK' then redis.call('DEL', key) end
  end
  reply[#reply + 1] = word
end
return reply
