-- Renews, and never shortens, the lease of permits that are all still acquired.
-- KEYS[1] counter  string  available permits, may be negative
-- KEYS[2] ids      zset    ids of acquired permits, each with its end in unix milliseconds
-- ARGV[1] given    bytes   the ids, 16 bytes each
-- ARGV[2] lease_ms integer lease of the permits from now
-- ARGV[3] publish  string  PUBLISH, or SPUBLISH in a cluster with sharded channels
-- ARGV[4] channel  string  the channel of the waiters
-- returns 1 when renewed, 0 when one of the permits is not acquired any more
-- calls get zadd zscore
-- wire 13.4
local counter, ids = KEYS[1], KEYS[2]
local given, lease_ms, publish, channel = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
if not lease_ms or lease_ms < 1 or lease_ms % 1 ~= 0 or lease_ms > UNENDING or #given % 16 ~= 0 then
  return redis.error_reply('LOCKERR renew: lease_ms must be whole and positive, ids have 16 bytes')
end
local left, now, all = redis.call('get', counter), now_ms(), each(given)
if not tonumber(left or 0) then
  return redis.error_reply('WRONGTYPE the name is another kind of object')
end
reclaim(counter, ids, now, left, publish, channel)
if present(ids, all) < #all then
  return 0
end
for _, id in ipairs(all) do
  if tonumber(redis.call('zscore', ids, id)) < now + lease_ms then
    redis.call('zadd', ids, now + lease_ms, id)
  end
end
return 1
