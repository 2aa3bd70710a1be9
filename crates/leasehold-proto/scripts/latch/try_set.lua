-- Sets the count of a latch that has no count.
-- KEYS[1] latch   string  the count
-- KEYS[2] done    string  the reply of this operation, for a repeated call
-- ARGV[1] count   integer the count
-- ARGV[2] done_ms integer how long the reply is kept
-- ARGV[3] publish string  PUBLISH, or SPUBLISH in a cluster with sharded channels
-- ARGV[4] channel string  the channel of the waiters
-- ARGV[5] message string  the payload, an ASCII decimal
-- returns 1 when set, 0 when there is a count
-- calls get set publish|spublish
-- wire 14.2, 4.2
local latch, done = KEYS[1], KEYS[2]
local count, done_ms = tonumber(ARGV[1]), tonumber(ARGV[2])
local publish, channel, message = ARGV[3], ARGV[4], ARGV[5]
if not count or count < 0 or count % 1 ~= 0 or not done_ms then
  return redis.error_reply('LOCKERR try_set: the count must be whole and not negative')
end
local value, before = redis.call('get', latch), redis.call('get', done)
if before then
  return tonumber(before)
end
redis.call('set', done, value and 0 or 1, 'PX', done_ms)
if value then
  return 0
end
local changed = redis.pcall('set', latch, count)
if changed.err then
  redis.call('set', done, '', 'PX', 1)
  return changed
end
redis.pcall(publish, channel, message)
return 1
