-- snapshot: every key of one partition, in one step; for audits in tests, it walks all keys. KEYS[1] is their common beginning.
local reply = {}
for _, key in ipairs(redis.call('KEYS', KEYS[1] .. '*')) do
  local kind = redis.call('TYPE', key).ok
  local value
  if kind == 'hash' then value = redis.call('HGETALL', key)
  elseif kind == 'zset' then value = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  elseif kind == 'list' then value = redis.call('LRANGE', key, 0, -1)
  else value = {redis.call('GET', key)} end
  reply[#reply + 1] = {string.sub(key, #KEYS[1] + 1), kind, string.format('%.0f', redis.call('PTTL', key)), value}
end
return reply
