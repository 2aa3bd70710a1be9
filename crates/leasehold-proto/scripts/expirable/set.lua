-- Sets the total number of permits, acquired permits included. The available number may become negative.
-- KEYS[1] counter string  available permits, may be negative
-- KEYS[2] ids     zset    ids of acquired permits, each with its end in unix milliseconds
-- KEYS[3] done    string  the reply of this operation, for a repeated call
-- ARGV[1] permits integer number of permits to set
-- ARGV[2] done_ms integer how long the reply is kept
-- ARGV[3] publish string  PUBLISH, or SPUBLISH in a cluster with sharded channels
-- ARGV[4] channel string  the channel of the waiters
-- returns the available permits
-- calls get incrby set zcard publish|spublish
-- wire 13.5
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
