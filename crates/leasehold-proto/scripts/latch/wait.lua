-- Checks whether the latch has reached zero.
-- KEYS[1] latch string the count
-- KEYS[2] note  string how the last rounds have ended
-- returns the count, 0 when it is not set, and the numbers of the last opening and the last deletion, 0 for none
-- calls get
-- wire 14.3, 14.4
local latch, note = KEYS[1], KEYS[2]
local count = tonumber(redis.call('get', latch) or 0)
if not count then
  return redis.error_reply('WRONGTYPE the name is another kind of object')
end
local opened, deleted = ends(note)
return { count, opened, deleted }
