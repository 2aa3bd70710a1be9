-- Returns the permits of an acquisition, once, and wakes the waiters.
-- KEYS[1] counter   string  available permits, may be negative
-- KEYS[2] marker    string  permits that this acquisition took
-- KEYS[3] timeout   zset    ids of an expirable semaphore's permits; must not exist
-- ARGV[1] permits   integer number of requested permits
-- ARGV[2] expired   integer 1 when the grant is confirmed and so old that its marker can have expired
-- ARGV[3] uncertain integer 1 when an earlier call of this acquisition may still arrive
-- ARGV[4] publish   string  PUBLISH, or SPUBLISH in a cluster with sharded channels
-- ARGV[5] channel   string  the channel of the waiters
-- returns 1 + the listeners when permits were returned, 0 when there were none to return
-- calls get publish|spublish
-- wire 12.2
local counter, marker, timeout = KEYS[1], KEYS[2], KEYS[3]
local permits, expired, uncertain = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local publish, channel = ARGV[4], ARGV[5]
if not permits or permits < 0 or permits % 1 ~= 0 then
  return redis.error_reply('LOCKERR release: permits must be whole and not negative')
end
if is_other(redis.call('get', counter), timeout) then
  return redis.error_reply('WRONGTYPE the name is another kind of object')
end
if permits == 0 then
  return 1
end
local total, refused = return_permits(counter, marker, permits, expired, uncertain)
if refused then return refused end
if not total then
  return 0
end
local listeners = redis.pcall(publish, channel, total)
return 1 + (tonumber(listeners) or 0)
