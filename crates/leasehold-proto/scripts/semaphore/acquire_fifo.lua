-- Takes permits that are there when nobody stands before the owner; queues the owner, or shows that it still waits.
-- KEYS[1] counter  string  how many permits are left, may be below zero
-- KEYS[2] marker   string  how many this acquisition has taken
-- KEYS[3] timeout  zset    the permit ids of an expirable semaphore; there must be none
-- KEYS[4] queue    list    who waits in order, the next one first
-- KEYS[5] seen     zset    when each of them last showed itself, in unix milliseconds
-- ARGV[1] permits  integer how many
-- ARGV[2] doubtful integer 1 when an earlier call of this acquisition may yet arrive
-- ARGV[3] owner    string  wire owner, unique per acquisition
-- ARGV[4] once     integer 1 when the owner does not wait and is not to be queued
-- ARGV[5] publish  string  PUBLISH, or SPUBLISH in a cluster with sharded channels
-- ARGV[6] channel  string  where waiters listen
-- returns 1 when taken, 0 when there are too few or somebody is before the owner
-- calls exists get lrem time zrem publish|spublish
-- wire 12, 21 item 31; who has not shown itself for five seconds is passed by
local counter, marker, timeout, queue, seen = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local permits, doubtful, owner, once = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])
local publish, channel = ARGV[5], ARGV[6]
if not permits or permits < 0 or permits % 1 ~= 0 then
  return redis.error_reply('LOCKERR acquire: permits must be whole and not negative')
end
local left = redis.call('get', counter)
if is_other(left, timeout) then return redis.error_reply('WRONGTYPE the name is another kind of object') end
local taken, time = taken_by(marker), redis.call('time')
if permits == 0 then return 1 elseif taken == 0 then return 0 end
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local head = pass_by(queue, seen, owner, now)
left = tonumber(left or 0)
if not taken and (permits > left or (head and head ~= owner)) then
  if once == 1 then return 0 end
  return stand(queue, seen, owner, now) or 0
end
redis.call('zrem', seen, owner)
redis.call('lrem', queue, 0, owner)
local refused = take(counter, marker, permits, doubtful, taken)
if refused then return refused end
if left > permits and redis.call('exists', queue) == 1 then redis.pcall(publish, channel, left - permits) end
return 1
