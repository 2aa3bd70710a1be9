-- Frees the lock when it is held in this mode, and wakes the waiters.
-- KEYS[1] lock    hash   the lock; fields: mode (read or write), reader -> holds, writer..':write' -> holds
-- KEYS[2] readers string prefix of the lease keys of readers
-- ARGV[1] side    string read or write
-- ARGV[2] publish string PUBLISH, or SPUBLISH in a cluster with sharded channels
-- ARGV[3] channel string the channel of the waiters
-- ARGV[4] message string the payload, an ASCII decimal
-- returns 1 when it was held in this mode, 0 otherwise
-- calls hget hgetall del publish|spublish
-- wire 9.6; deletes the lease keys of readers too
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
