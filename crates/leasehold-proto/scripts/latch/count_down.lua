-- Counts the latch down by one, once, and opens it at zero.
-- KEYS[1] latch   string  the count
-- KEYS[2] done    string  the reply of this operation, for a repeated call
-- ARGV[1] done_ms integer how long the reply is kept
-- ARGV[2] publish string  PUBLISH, or SPUBLISH in a cluster with sharded channels
-- ARGV[3] channel string  the channel of the waiters
-- ARGV[4] message string  the payload at zero, an ASCII decimal
-- returns the remaining count
-- calls decr del get set publish|spublish
-- wire 14.1, 4.2
local latch, done = KEYS[1], KEYS[2]
local done_ms, publish, channel, message = tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]
if not done_ms then
  return redis.error_reply('LOCKERR count_down: done_ms must be a number')
end
local value, before = redis.call('get', latch), redis.call('get', done)
local count = tonumber(value or 0)
if not count then
  return redis.error_reply('WRONGTYPE the name is another kind of object')
end
if before then
  return tonumber(before)
end
local left = math.max(count - 1, 0)
redis.call('set', done, left, 'PX', done_ms)
local changed = 0
if left > 0 then
  changed = redis.pcall('decr', latch)
elseif value then
  changed = redis.pcall('del', latch)
end
if type(changed) == 'table' then
  redis.call('set', done, '', 'PX', 1)
  return changed
end
if count == 1 then
  redis.pcall(publish, channel, message)
end
return left
