-- Gives back what an acquisition has taken, once, and wakes those who wait.
-- KEYS[1] counter  string  how many permits are left, may be below zero
-- KEYS[2] marker   string  how many this acquisition has taken
-- KEYS[3] timeout  zset    the permit ids of an expirable semaphore; there must be none
-- ARGV[1] permits  integer how many were asked for
-- ARGV[2] granted  integer 1 when they were granted for certain
-- ARGV[3] doubtful integer 1 when an earlier call of this acquisition may yet arrive
-- ARGV[4] publish  string  PUBLISH, or SPUBLISH in a cluster with sharded channels
-- ARGV[5] channel  string  where waiters listen
-- returns 1 when given back, 0 when there was nothing to give back
-- calls get publish|spublish
-- wire 12
local counter, marker, timeout = KEYS[1], KEYS[2], KEYS[3]
local permits, granted, doubtful = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local publish, channel = ARGV[4], ARGV[5]
if not permits or permits < 0 or permits % 1 ~= 0 then
  return redis.error_reply('LOCKERR release: permits must be whole and not negative')
end
if is_other(redis.call('get', counter), timeout) then
  return redis.error_reply('WRONGTYPE the name is another kind of object')
end
if permits == 0 then
  return granted
end
local total, refused = give_back(counter, marker, permits, granted, doubtful)
if refused then return refused end
if not total then
  return 0
end
redis.pcall(publish, channel, total)
return 1
