-- Frees the lock whoever holds it, if it is held in the way that is meant, and wakes the waiters.
-- KEYS[1] lock    hash   the lock; fields: mode (read or write), reader -> holds, writer..':write' -> holds
-- KEYS[2] readers string what the names of the read holds' leases begin with
-- ARGV[1] side    string read or write
-- ARGV[2] publish string PUBLISH, or SPUBLISH in a cluster with sharded channels
-- ARGV[3] channel string where waiters listen
-- ARGV[4] message string what they are told, an ASCII decimal
-- returns 1 when it was held so, 0 when it was not
-- calls hget hgetall del publish|spublish
-- wire 9.6; the read holds' leases go as well, instead of running out
local lock, readers, side = KEYS[1], KEYS[2], ARGV[1]
local publish, channel, message = ARGV[2], ARGV[3], ARGV[4]
if redis.call('hget', lock, 'mode') ~= side then
  return 0
end
local fields = redis.call('hgetall', lock)
for at = 1, #fields, 2 do
  for hold = 1, tonumber(fields[at + 1]) or 0 do
    redis.call('del', readers .. ':' .. fields[at] .. ':rwlock_timeout:' .. hold)
  end
end
redis.call('del', lock)
redis.pcall(publish, channel, message)
return 1
