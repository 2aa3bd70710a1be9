-- Takes all available permits for good.
-- KEYS[1] counter string  available permits, may be negative
-- KEYS[2] timeout zset    ids of an expirable semaphore's permits; must not exist
-- KEYS[3] done    string  the reply of this operation, for a repeated call
-- ARGV[1] done_ms integer how long the reply is kept
-- returns the number of taken permits
-- calls get set
-- wire 12.3; drops an expiry of the counter, as Redisson does
local counter, timeout, done = KEYS[1], KEYS[2], KEYS[3]
local done_ms = tonumber(ARGV[1])
if not done_ms then
  return redis.error_reply('LOCKERR drain: done_ms must be a number')
end
local left, before = redis.call('get', counter), redis.call('get', done)
if is_other(left, timeout) then
  return redis.error_reply('WRONGTYPE the name is another kind of object')
end
if before then
  return tonumber(before)
end
redis.call('set', done, left or '0', 'PX', done_ms)
local changed = left and redis.pcall('set', counter, '0')
if changed and changed.err then
  redis.call('set', done, '', 'PX', 1)
  return changed
end
return tonumber(left or 0)
