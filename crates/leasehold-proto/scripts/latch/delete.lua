-- Deletes a latch and wakes its waiters.
-- KEYS[1] latch   string  the count
-- KEYS[2] note    string  how the last rounds have ended
-- KEYS[3] done    string  the reply of this operation, for a repeated call
-- ARGV[1] note_ms integer how long waiters learn of the end of a round
-- ARGV[2] done_ms integer how long the reply is kept
-- ARGV[3] publish string  PUBLISH, or SPUBLISH in a cluster with sharded channels
-- ARGV[4] channel string  the channel of the waiters
-- ARGV[5] message string  the payload, an ASCII decimal
-- returns 1 when deleted, 0 when there was none
-- calls del get set publish|spublish
-- wire 14.2, 14.4, 4.2
local latch, note, done = KEYS[1], KEYS[2], KEYS[3]
local note_ms, done_ms = tonumber(ARGV[1]), tonumber(ARGV[2])
local publish, channel, message = ARGV[3], ARGV[4], ARGV[5]
if not note_ms or not done_ms then
  return redis.error_reply('LOCKERR delete: note_ms and done_ms must be numbers')
end
local value, before = redis.call('get', latch), redis.call('get', done)
if before then
  return tonumber(before)
end
local noted = value and ended(note, true)
redis.call('set', done, value and 1 or 0, 'PX', done_ms)
if not noted then
  return 0
end
local changed = redis.pcall('del', latch)
if type(changed) == 'table' then
  redis.call('set', done, '', 'PX', 1)
  return changed
end
redis.call('set', note, noted, 'PX', note_ms)
redis.pcall(publish, channel, message)
return 1
