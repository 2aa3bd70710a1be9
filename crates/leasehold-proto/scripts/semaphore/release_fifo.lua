-- Removes an owner from the queue, returns its permits once, and wakes the waiters.
-- KEYS[1] counter   string  available permits, may be negative
-- KEYS[2] marker    string  permits that this acquisition took
-- KEYS[3] timeout   zset    ids of an expirable semaphore's permits; must not exist
-- KEYS[4] queue     list    waiters, next in the queue first
-- KEYS[5] seen      zset    time of the last call of each waiter, in unix milliseconds
-- ARGV[1] permits   integer number of requested permits
-- ARGV[2] expired   integer 1 when the grant is confirmed and so old that its marker can have expired
-- ARGV[3] uncertain integer 1 when an earlier call of this acquisition may still arrive
-- ARGV[4] owner     string  wire owner, unique per acquisition
-- ARGV[5] publish   string  PUBLISH, or SPUBLISH in a cluster with sharded channels
-- ARGV[6] channel   string  the channel of the waiters
-- returns 1 when permits were returned, 0 when there were none to return
-- calls get lrem zrem publish|spublish
-- wire 12.4, 12.2; an owner that leaves the queue wakes the next waiter
local counter, marker, timeout, queue, seen = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local permits, expired, uncertain, owner = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local publish, channel = ARGV[5], ARGV[6]
if not permits or permits < 0 or permits % 1 ~= 0 then
  return redis.error_reply('LOCKERR release: permits must be whole and not negative')
end
local left = redis.call('get', counter)
if is_other(left, timeout) then
  return redis.error_reply('WRONGTYPE the name is another kind of object')
end
local was_queued = redis.call('zrem', seen, owner) == 1 and redis.call('lrem', queue, 1, owner) == 1
if permits == 0 then
  return 1
end
local total, refused = return_permits(counter, marker, permits, expired, uncertain)
if refused then return refused end
if total or (was_queued and tonumber(left or 0) > 0) then
  redis.pcall(publish, channel, total or left)
end
return total and 1 or 0
