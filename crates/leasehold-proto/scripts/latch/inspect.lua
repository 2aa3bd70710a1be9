-- Reads the count of a latch.
-- KEYS[1] latch string the count
-- returns the count, 0 when it is not set
-- calls get
-- wire 14.3
local latch = KEYS[1]
local count = tonumber(redis.call('get', latch) or 0)
if not count then
  return redis.error_reply('WRONGTYPE the name is another kind of object')
end
return count
