-- Counts the latch down by one, once, and opens it at zero.
-- KEYS[1] latch   string  the count
-- KEYS[2] note    string  how the last rounds have ended
-- KEYS[3] done    string  the reply of this operation, for a repeated call
-- ARGV[1] note_ms integer how long waiters learn of the end of a round
-- ARGV[2] done_ms integer how long the reply is kept
-- ARGV[3] publish string  PUBLISH, or SPUBLISH in a cluster with sharded channels
-- ARGV[4] channel string  the channel of the waiters
-- ARGV[5] message string  the payload at zero, an ASCII decimal
-- returns the remaining count
-- calls decr del get set publish|spublish
-- wire 14.1, 14.4, 4.2
local latch, note, done = KEYS[1], KEYS[2], KEYS[3]
local note_ms, done_ms = tonumber(ARGV[1]), tonumber(ARGV[2])
local publish, channel, message = ARGV[3], ARGV[4], ARGV[5]
if not note_ms or not done_ms then
  return redis.error_reply('LOCKERR count_down: note_ms and done_ms must be numbers')
end
local value, before = redis.call('get', latch), redis.call('get', done)
local count = tonumber(value or 0)
if not count then
  return redis.error_reply('WRONGTYPE the name is another kind of object')
end
if before then return tonumber(before) end
local left = math.max(count - 1, 0)
local noted = count == 1 and ended(note, false)
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
if noted then
  redis.call('set', note, noted, 'PX', note_ms)
  redis.pcall(publish, channel, message)
end
return left
