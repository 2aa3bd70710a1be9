-- Frees the lock of any holder and wakes the next in the queue.
-- KEYS[1] lock    hash   the lock
-- KEYS[2] queue   list   waiters, next in the queue first
-- KEYS[3] timeout zset   deadline of each waiter by Redisson's rules, in unix milliseconds
-- KEYS[4] seen    zset   time of the last call of each waiter of leasehold, in unix milliseconds
-- ARGV[1] publish string PUBLISH, or SPUBLISH in a cluster with sharded channels
-- ARGV[2] channel string prefix of the channel of a waiter; its owner follows
-- ARGV[3] message string the payload, an ASCII decimal
-- returns 1 when it was held, 0 when it was free
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
