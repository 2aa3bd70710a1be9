-- Releases one hold of several, or the lock itself, and then wakes the waiters.
-- KEYS[1] lock      hash    the lock; field: wire owner, value: hold count
-- ARGV[1] owner     string  wire owner
-- ARGV[2] remaining integer hold count after this release, 0 to free the lock
-- ARGV[3] publish   string  PUBLISH, or SPUBLISH in a cluster with sharded channels
-- ARGV[4] channel   string  the channel of the waiters
-- ARGV[5] message   string  the payload, an ASCII decimal
-- returns nil when the owner does not hold it, 0 after a partial release, 1 + the listeners when the lock is free
-- calls hexists hset hdel publish|spublish
-- wire 5.4, 4.2, 4.4; a partial release keeps the lease
local lock, owner, remaining = KEYS[1], ARGV[1], tonumber(ARGV[2])
local publish, channel, message = ARGV[3], ARGV[4], ARGV[5]
if not remaining or remaining < 0 or remaining % 1 ~= 0 then
  return redis.error_reply('LOCKERR release: remaining must be whole and not negative')
end
if remaining > 0 then
  if redis.call('hexists', lock, owner) == 0 then
    return nil
  end
  redis.call('hset', lock, owner, ARGV[2])
  return 0
end
if redis.call('hdel', lock, owner) == 0 then
  return nil
end
local listeners = redis.pcall(publish, channel, message)
return 1 + (tonumber(listeners) or 0)
