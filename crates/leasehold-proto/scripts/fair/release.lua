-- Releases one hold of several, or the lock itself, and wakes the next in the queue. Removes a waiter.
-- KEYS[1] lock      hash    the lock; field: wire owner, value: hold count
-- KEYS[2] queue     list    waiters, next in the queue first
-- KEYS[3] timeout   zset    deadline of each waiter by Redisson's rules, in unix milliseconds
-- KEYS[4] seen      zset    time of the last call of each waiter of leasehold, in unix milliseconds
-- ARGV[1] owner     string  wire owner
-- ARGV[2] remaining integer hold count after this release, 0 to free the lock and leave the queue
-- ARGV[3] publish   string  PUBLISH, or SPUBLISH in a cluster with sharded channels
-- ARGV[4] channel   string  prefix of the channel of a waiter; its owner follows
-- ARGV[5] message   string  the payload, an ASCII decimal
-- returns nil when the owner does not hold it, 0 after a partial release, 1 when the lock is free
-- calls hexists hset hdel exists publish|spublish
-- wire 6.5, 6.4, 4.2; wakes the head also when the lock had expired
local lock, queue, timeout, seen = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local owner, remaining = ARGV[1], tonumber(ARGV[2])
local publish, channel, message = ARGV[3], ARGV[4], ARGV[5]
if not remaining or remaining < 0 or remaining % 1 ~= 0 then
  return redis.error_reply('LOCKERR release: remaining must be whole and not negative')
end
local mine = redis.call('hexists', lock, owner) == 1
if remaining > 0 then
  if not mine then return nil end
  redis.call('hset', lock, owner, ARGV[2])
  return 0
end
local q = { queue = queue, timeout = timeout, seen = seen, now = now_ms() }
if not mine then leave(q, owner) end
local head = purge(q)
if mine then redis.call('hdel', lock, owner) end
if head and redis.call('exists', lock) == 0 then
  redis.pcall(publish, channel .. ':' .. head, message)
end
keep(q)
return mine and 1 or nil
