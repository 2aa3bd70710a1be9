-- Reads the number of available permits.
-- KEYS[1] counter string available permits, may be negative
-- KEYS[2] timeout zset   ids of an expirable semaphore's permits; must not exist
-- returns that number, 0 when it was never set
-- calls get
-- wire 12.3
local counter, timeout = KEYS[1], KEYS[2]
local left = redis.call('get', counter)
if is_other(left, timeout) then
  return redis.error_reply('WRONGTYPE the name is another kind of object')
end
return tonumber(left or 0)
