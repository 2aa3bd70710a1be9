-- Takes an owner off the queue, gives back what it has taken, once, and wakes those who wait.
-- KEYS[1] counter  string  how many permits are left, may be below zero
-- KEYS[2] marker   string  how many this acquisition has taken
-- KEYS[3] timeout  zset    the permit ids of an expirable semaphore; there must be none
-- KEYS[4] queue    list    who waits in order, the next one first
-- KEYS[5] seen     zset    when each of them last showed itself, in unix milliseconds
-- ARGV[1] permits  integer how many were asked for
-- ARGV[2] granted  integer 1 when they were granted for certain
-- ARGV[3] doubtful integer 1 when an earlier call of this acquisition may yet arrive
-- ARGV[4] owner    string  wire owner, unique per acquisition
-- ARGV[5] publish  string  PUBLISH, or SPUBLISH in a cluster with sharded channels
-- ARGV[6] channel  string  where waiters listen
-- returns 1 when given back, 0 when there was nothing to give back
-- calls get lrem zrem publish|spublish
-- wire 12, 21 item 31; one who leaves the queue tells the next
local counter, marker, timeout, queue, seen = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local permits, granted, doubtful, owner = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local publish, channel = ARGV[5], ARGV[6]
if not permits or permits < 0 or permits % 1 ~= 0 then
  return redis.error_reply('LOCKERR release: permits must be whole and not negative')
end
local left = redis.call('get', counter)
if is_other(left, timeout) then
  return redis.error_reply('WRONGTYPE the name is another kind of object')
end
redis.call('zrem', seen, owner)
local stood = redis.call('lrem', queue, 0, owner) > 0
if permits == 0 then
  return granted
end
local total, refused = give_back(counter, marker, permits, granted, doubtful)
if refused then return refused end
if total or (stood and tonumber(left or 0) > 0) then
  redis.pcall(publish, channel, total or left)
end
return total and 1 or 0
