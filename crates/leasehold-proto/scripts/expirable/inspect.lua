-- Looks at how many permits there are, and changes nothing.
-- KEYS[1] counter string how many permits are left, may be below zero
-- KEYS[2] ids     zset   the ids of those that are taken, each with its end in unix milliseconds
-- returns {how many are left when those that have ended are taken back, how many are taken, 1 when it was ever set}
-- calls get zcard zcount
-- wire 13, availablePermits, acquiredPermits, getPermits
local counter, ids = KEYS[1], KEYS[2]
local left = redis.call('get', counter)
if not tonumber(left or 0) then
  return redis.error_reply('WRONGTYPE the name is another kind of object')
end
local ended = redis.call('zcount', ids, '0', now_ms())
return { tonumber(left or 0) + ended, redis.call('zcard', ids) - ended, left and 1 or 0 }
