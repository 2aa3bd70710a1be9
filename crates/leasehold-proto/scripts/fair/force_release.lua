-- Frees the lock whoever holds it, and wakes the next in the queue.
-- KEYS[1] lock    hash   the lock
-- KEYS[2] queue   list   who waits, the next one first
-- KEYS[3] timeout zset   until when Redisson counts a waiter as alive, in unix milliseconds
-- KEYS[4] seen    zset   when a waiter of this library last showed itself, in unix milliseconds
-- ARGV[1] publish string PUBLISH, or SPUBLISH in a cluster with sharded channels
-- ARGV[2] channel string where waiters listen, each with its owner behind it
-- ARGV[3] message string what they are told, an ASCII decimal
-- returns 1 when somebody held it, 0 when it was free
-- calls hlen del publish|spublish
-- wire 6.6
local lock, queue, timeout, seen = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local publish, channel, message = ARGV[1], ARGV[2], ARGV[3]
local fields = redis.call('hlen', lock)
if fields > 1 then
  return redis.error_reply('WRONGTYPE the name belongs to a read-write lock or a group of values')
end
if fields == 0 then
  return 0
end
redis.call('del', lock)
local q = { queue = queue, timeout = timeout, seen = seen, now = now_ms() }
local head = purge(q)
if head then
  redis.pcall(publish, channel .. ':' .. head, message)
end
keep(q)
return 1
