-- forget: memory is short: acknowledged jobs leave before their time to live is over. SQL answers for them.
-- KEYS   outbox job
-- ARGV   before young_ms; per job: id
-- REPLY  per job: OK (gone) | ENDED at (it could go, but ended after before) | BUSY (it stays) | EMPTY (no such job)
-- TWICE  a job that is gone answers EMPTY
-- before is a time of Redis in ms: a job that ended then or earlier goes. Whatever before says, a job stays that lives,
-- that the outbox has, or that ended within young_ms: a late copy of its submit, or its holder's repeated report, must
-- still find it.
local outbox, job = unpack(KEYS)
local before, young = tonumber(ARGV[1]), tonumber(ARGV[2])
local now = time_ms()
local over = {COMPLETED = true, FAILED = true, CANCELLED = true}
local ids, reply = {}, {}
for i = 3, #ARGV, 1 do ids[#ids + 1] = ARGV[i] end
local waits = scores(outbox, ids)

for _, id in ipairs(ids) do
  local key = job .. id
  local word, ttl = 'BUSY', redis.call('PTTL', key) -- only an acknowledged job has one
  if ttl == -2 then
    word = 'EMPTY'
  elseif ttl >= 0 and not waits[id] then
    local m = redis.call('HMGET', key, 'state', 'ended')
    local ended = tonumber(m[2] or now)
    if over[m[1]] and now - ended >= young then
      word = ended <= before and 'OK' or 'ENDED ' .. text(ended)
    end
    if word == 'OK' then redis.call('DEL', key) end
  end
  reply[#reply + 1] = word
end
return reply
