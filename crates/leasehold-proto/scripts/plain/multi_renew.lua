-- Renews, and never shortens, the leases of all plain locks of this owner. Frees the others when a lock is gone.
-- KEYS[1] lock     string  the first lock, then the others; value of the hold
-- ARGV[1] value    string  value of the holds
-- ARGV[2] marked   string  the value with its mark
-- ARGV[3] lease_ms integer lease of the keys from now
-- ARGV[4] publish  string  PUBLISH, or SPUBLISH in a cluster with sharded channels
-- ARGV[5] prefix   string  prefix of the channels of the waiters
-- ARGV[6] message  string  the payload, an ASCII decimal
-- returns 2 when all are renewed, 0 when one is free, -1 when another one has one
-- calls get pttl pexpire del publish|spublish
-- wire 25.9
local lock, value, marked, lease_ms = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3])
local publish, prefix, message = ARGV[4], ARGV[5], ARGV[6]
if not lease_ms or lease_ms < 1 or lease_ms % 1 ~= 0 or lease_ms > 9007199254740991 then
  return redis.error_reply('LOCKERR renew: lease_ms must be whole and positive')
end
local held, answer = { [lock] = redis.call('get', lock) }, 2
for _, key in ipairs(KEYS) do
  held[key] = redis.call('get', key)
  local is_own = held[key] == value or held[key] == marked
  if not is_own then answer = math.min(answer, held[key] and -1 or 0) end
end
for _, key in ipairs(KEYS) do
  if held[key] == value or held[key] == marked then
    if answer == 2 then
      if redis.call('pttl', key) < lease_ms then redis.call('pexpire', key, ARGV[3]) end
    else
      redis.call('del', key)
      redis.pcall(publish, prefix .. (key:find('{', 1, true) and ':' .. key or ':{' .. key .. '}'), message)
    end
  end
end
return answer
