-- Frees the lock of any holder and wakes the waiters.
-- KEYS[1] lock    hash   the lock
-- ARGV[1] publish string PUBLISH, or SPUBLISH in a cluster with sharded channels
-- ARGV[2] channel string the channel of the waiters
-- ARGV[3] message string the payload, an ASCII decimal
-- returns 1 when it was held, 0 when it was free
-- calls hlen del publish|spublish
-- wire 5.5; hlen refuses a key of another type
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
