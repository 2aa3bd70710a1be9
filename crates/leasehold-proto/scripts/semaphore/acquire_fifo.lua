-- Acquires available permits for the head of the queue. Else queues the owner, or records that it still waits.
-- KEYS[1] counter   string  available permits, may be negative
-- KEYS[2] marker    string  permits that this acquisition took
-- KEYS[3] timeout   zset    ids of an expirable semaphore's permits; must not exist
-- KEYS[4] queue     list    waiters, next in the queue first
-- KEYS[5] seen      zset    time of the last call of each waiter, in unix milliseconds
-- ARGV[1] permits   integer number of permits
-- ARGV[2] uncertain integer 1 when an earlier call of this acquisition may still arrive
-- ARGV[3] owner     string  wire owner, unique per acquisition
-- ARGV[4] once      integer 1 when the owner does not wait and must not be queued
-- ARGV[5] publish   string  PUBLISH, or SPUBLISH in a cluster with sharded channels
-- ARGV[6] channel   string  the channel of the waiters
-- returns 1 on success, 0 when there are too few permits or another owner is ahead
-- calls exists get lrem time zrem publish|spublish
-- wire 12.4, 12.2; a head that has not called for five seconds is dropped, and the next one is woken
local counter, marker, timeout, queue, seen = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local permits, uncertain, owner, once = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])
local publish, channel = ARGV[5], ARGV[6]
if not permits or permits < 0 or permits % 1 ~= 0 then
  return redis.error_reply('LOCKERR acquire: permits must be whole and not negative')
end
local left = redis.call('get', counter)
if is_other(left, timeout) then return redis.error_reply('WRONGTYPE the name is another kind of object') end
local taken, time = taken_by(marker), redis.call('time')
if permits == 0 then return 1 elseif taken == 0 then return 0 end
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local head, dropped = drop_silent(queue, seen, owner, now)
left = tonumber(left or 0)
if not taken and (permits > left or (head and head ~= owner)) then
  if dropped and head and head ~= owner and left > 0 then redis.pcall(publish, channel, left) end
  if once == 1 then return 0 end
  return enqueue(queue, seen, owner, now) or 0
end
if redis.call('zrem', seen, owner) == 1 then redis.call('lrem', queue, 1, owner) end
local refused = take(counter, marker, permits, uncertain, taken)
if refused then return refused end
if left > permits and redis.call('exists', queue) == 1 then redis.pcall(publish, channel, left - permits) end
return 1
