-- Changes the number of permits and wakes the waiters.
-- KEYS[1] counter string  available permits, may be negative
-- KEYS[2] timeout zset    ids of an expirable semaphore's permits; must not exist
-- KEYS[3] done    string  the reply of this operation, for a repeated call
-- ARGV[1] permits integer change of the number, may be negative
-- ARGV[2] done_ms integer how long the reply is kept
-- ARGV[3] publish string  PUBLISH, or SPUBLISH in a cluster with sharded channels
-- ARGV[4] channel string  the channel of the waiters
-- returns the available permits
-- calls get set publish|spublish
-- wire 12.3; drops an expiry of the counter, as Redisson does
local counter, timeout, done = KEYS[1], KEYS[2], KEYS[3]
local permits, done_ms, publish, channel = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], ARGV[4]
if not permits or permits % 1 ~= 0 or not done_ms then
  return redis.error_reply('LOCKERR add: permits must be whole')
end
local left, before = redis.call('get', counter), redis.call('get', done)
if is_other(left, timeout) then
  return redis.error_reply('WRONGTYPE the name is another kind of object')
end
if before then
  return tonumber(before)
end
local total = tonumber(left or 0) + permits
redis.call('set', done, total, 'PX', done_ms)
local changed = redis.pcall('set', counter, total)
if changed.err then
  redis.call('set', done, '', 'PX', 1)
  return changed
end
redis.pcall(publish, channel, total)
return total
