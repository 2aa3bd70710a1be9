-- Looks at how many permits are left.
-- KEYS[1] counter string how many permits are left, may be below zero
-- KEYS[2] timeout zset   the permit ids of an expirable semaphore; there must be none
-- returns that number, 0 when it was never set
-- calls get
-- wire 12, availablePermits
local counter, timeout = KEYS[1], KEYS[2]
local left = redis.call('get', counter)
if is_other(left, timeout) then
  return redis.error_reply('WRONGTYPE the name is another kind of object')
end
return tonumber(left or 0)
