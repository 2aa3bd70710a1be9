-- Takes all permits that are left, for good.
-- KEYS[1] counter string  how many permits are left, may be below zero
-- KEYS[2] timeout zset    the permit ids of an expirable semaphore; there must be none
-- KEYS[3] done    string  what this operation has answered
-- ARGV[1] done_ms integer how long the answer is kept
-- returns how many they were
-- calls get set
-- wire 12, drainPermits; as there, an expiry of the counter is dropped
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
