-- Checks whether the latch has reached zero.
-- KEYS[1] latch   string  the count
-- KEYS[2] deleted string  exists for a while after a deletion of the latch
-- ARGV[1] refused integer 1 when this waiter saw a positive count before
-- returns the count, 0 when it is zero or not set, -1 when the latch was deleted during this wait
-- calls del exists get
-- wire 14.3, 14.2; a positive count ends the note of a deletion
local latch, deleted = KEYS[1], KEYS[2]
local refused = tonumber(ARGV[1])
local count = tonumber(redis.call('get', latch) or 0)
if not count then
  return redis.error_reply('WRONGTYPE the name is another kind of object')
end
local was_deleted = redis.call('exists', deleted) == 1
if count <= 0 then
  return refused == 1 and was_deleted and -1 or 0
end
if was_deleted then
  redis.call('del', deleted)
end
return count
