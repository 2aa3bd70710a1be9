-- Sets the lease of an acquired permit, longer or shorter.
-- KEYS[1] counter  string  available permits, may be negative
-- KEYS[2] ids      zset    ids of acquired permits, each with its end in unix milliseconds
-- KEYS[3] done     string  the reply of this operation, for a repeated call
-- ARGV[1] given    bytes   the id
-- ARGV[2] lease_ms integer lease of the permit from now
-- ARGV[3] done_ms  integer how long the reply is kept
-- ARGV[4] publish  string  PUBLISH, or SPUBLISH in a cluster with sharded channels
-- ARGV[5] channel  string  the channel of the waiters
-- returns 1 when set, 0 when the permit is not acquired any more
-- calls get set zadd zscore
-- wire 13.4
local counter, ids, done = KEYS[1], KEYS[2], KEYS[3]
local given, lease_ms, done_ms = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local publish, channel = ARGV[4], ARGV[5]
if not lease_ms or lease_ms < 1 or lease_ms % 1 ~= 0 or lease_ms > UNENDING or #given ~= 16 or not done_ms then
  return redis.error_reply('LOCKERR update_lease: lease_ms must be whole and positive, an id has 16 bytes')
end
local left, before = redis.call('get', counter), redis.call('get', done)
if not tonumber(left or 0) then
  return redis.error_reply('WRONGTYPE the name is another kind of object')
end
if before then
  return tonumber(before)
end
local now = now_ms()
reclaim(counter, ids, now, left, publish, channel)
local taken = redis.call('zscore', ids, given) and 1 or 0
redis.call('set', done, taken, 'PX', done_ms)
local changed = taken == 1 and redis.pcall('zadd', ids, now + lease_ms, given)
if type(changed) == 'table' then
  redis.call('set', done, '', 'PX', 1)
  return changed
end
return taken
