-- Sets how many permits there are, those that are taken included; what is left may become less than nothing.
-- KEYS[1] counter string  how many permits are left, may be below zero
-- KEYS[2] ids     zset    the ids of those that are taken, each with its end in unix milliseconds
-- KEYS[3] done    string  what this operation has answered
-- ARGV[1] permits integer how many there are to be
-- ARGV[2] done_ms integer how long the answer is kept
-- ARGV[3] publish string  PUBLISH, or SPUBLISH in a cluster with sharded channels
-- ARGV[4] channel string  where waiters listen
-- returns how many are left
-- calls get incrby set zcard publish|spublish
-- wire 13, setPermits
local counter, ids, done = KEYS[1], KEYS[2], KEYS[3]
local permits, done_ms, publish, channel = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], ARGV[4]
if not permits or permits % 1 ~= 0 or not done_ms then
  return redis.error_reply('LOCKERR set: permits must be whole')
end
local left, before = redis.call('get', counter), redis.call('get', done)
if not tonumber(left or 0) then
  return redis.error_reply('WRONGTYPE the name is another kind of object')
end
if before then
  return tonumber(before)
end
local taken = redis.call('zcard', ids)
local change = left and permits - tonumber(left) - taken
local total = left and permits - taken or permits
redis.call('set', done, total, 'PX', done_ms)
local changed
if not left then
  changed = redis.pcall('set', counter, permits)
elseif change ~= 0 then
  changed = redis.pcall('incrby', counter, change)
end
if type(changed) == 'table' and changed.err then
  redis.call('set', done, '', 'PX', 1)
  return changed
end
if change ~= 0 then
  redis.pcall(publish, channel, permits)
end
return total
