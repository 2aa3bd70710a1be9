-- Returns permits by number, from any holder, and wakes the waiters.
-- KEYS[1] counter string  available permits, may be negative
-- KEYS[2] timeout zset    ids of an expirable semaphore's permits; must not exist
-- KEYS[3] done    string  the reply of this operation, for a repeated call
-- ARGV[1] permits integer number of permits
-- ARGV[2] done_ms integer how long the reply is kept
-- ARGV[3] publish string  PUBLISH, or SPUBLISH in a cluster with sharded channels
-- ARGV[4] channel string  the channel of the waiters
-- returns the available permits
-- calls get incrby set publish|spublish
-- wire 12.3
local counter, timeout, done = KEYS[1], KEYS[2], KEYS[3]
local permits, done_ms, publish, channel = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], ARGV[4]
if not permits or permits < 0 or permits % 1 ~= 0 or not done_ms then
  return redis.error_reply('LOCKERR put_back: permits must be whole and not negative')
end
local left, before = redis.call('get', counter), redis.call('get', done)
if is_other(left, timeout) then
  return redis.error_reply('WRONGTYPE the name is another kind of object')
end
if before then
  return tonumber(before)
end
local total = redis.call('incrby', counter, permits)
local kept = redis.pcall('set', done, total, 'PX', done_ms)
if kept.err then
  redis.call('incrby', counter, -permits)
  return kept
end
redis.pcall(publish, channel, total)
return total
