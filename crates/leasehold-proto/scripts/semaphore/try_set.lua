-- Sets the number of permits when it was never set.
-- KEYS[1] counter     string  available permits
-- KEYS[2] done        string  the reply of this operation, for a repeated call
-- ARGV[1] permits     integer number of permits to set
-- ARGV[2] lifetime_ms integer lifetime of the semaphore from now, 0 for no expiry
-- ARGV[3] done_ms     integer how long the reply is kept
-- ARGV[4] publish     string  PUBLISH, or SPUBLISH in a cluster with sharded channels
-- ARGV[5] channel     string  the channel of the waiters
-- returns 1 when set, 0 when it was set before
-- calls get set publish|spublish
-- wire 12.3, 13.5
local counter, done = KEYS[1], KEYS[2]
local permits, lifetime_ms, done_ms = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local publish, channel = ARGV[4], ARGV[5]
if not permits or permits % 1 ~= 0 or not lifetime_ms or lifetime_ms < 0 or lifetime_ms % 1 ~= 0
  or lifetime_ms > 9007199254740991 or not done_ms then
  return redis.error_reply('LOCKERR try_set: permits and lifetime_ms must be whole')
end
local value, before = redis.call('get', counter), redis.call('get', done)
if before then
  return tonumber(before)
end
if value then
  redis.call('set', done, '0', 'PX', done_ms)
  return 0
end
redis.call('set', done, '1', 'PX', done_ms)
local changed
if lifetime_ms > 0 then
  changed = redis.pcall('set', counter, permits, 'PX', lifetime_ms)
else
  changed = redis.pcall('set', counter, permits)
end
if changed.err then
  redis.call('set', done, '', 'PX', 1)
  return changed
end
redis.pcall(publish, channel, permits)
return 1
