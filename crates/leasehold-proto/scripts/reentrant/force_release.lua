-- Frees the lock whoever holds it, and wakes the waiters.
-- KEYS[1] lock    hash   the lock
-- ARGV[1] publish string PUBLISH, or SPUBLISH in a cluster with sharded channels
-- ARGV[2] channel string where waiters listen
-- ARGV[3] message string what they are told, an ASCII decimal
-- returns 1 when somebody held it, 0 when it was free
-- calls hlen del publish|spublish
-- wire 5.5; a key of another type is refused by hlen and stays untouched
local lock = KEYS[1]
local publish, channel, message = ARGV[1], ARGV[2], ARGV[3]
local fields = redis.call('hlen', lock)
if fields > 1 then
  return redis.error_reply('WRONGTYPE the name belongs to a read-write lock or a group of values')
end
if fields == 0 then
  return 0
end
redis.call('del', lock)
redis.pcall(publish, channel, message)
return 1
