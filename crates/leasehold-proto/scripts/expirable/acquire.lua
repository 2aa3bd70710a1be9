-- Acquires available permits under these ids. A repeated call finds its ids, takes nothing more, and never shortens.
-- KEYS[1] counter  string  available permits, may be negative
-- KEYS[2] ids      zset    ids of acquired permits, each with its end in unix milliseconds
-- ARGV[1] given    bytes   the new ids, 16 bytes each
-- ARGV[2] lease_ms integer lease of the permits from now
-- ARGV[3] publish  string  PUBLISH, or SPUBLISH in a cluster with sharded channels
-- ARGV[4] channel  string  the channel of the waiters
-- returns nil on success, else the milliseconds until the next permit ends, -1 when none does
-- calls decrby get pexpire pttl zadd zrange zrem zscore
-- wire 13.2
local counter, ids = KEYS[1], KEYS[2]
local given, lease_ms, publish, channel = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
if not lease_ms or lease_ms < 1 or lease_ms % 1 ~= 0 or lease_ms > UNENDING or #given % 16 ~= 0 then
  return redis.error_reply('LOCKERR acquire: lease_ms must be whole and positive, ids have 16 bytes')
end
local left, now, all = redis.call('get', counter), now_ms(), each(given)
if not tonumber(left or 0) then
  return redis.error_reply('WRONGTYPE the name is another kind of object')
end
left = reclaim(counter, ids, now, left, publish, channel)
local wanted = #all - present(ids, all)
if wanted > 0 and wanted > left then
  local next = redis.call('zrange', ids, 0, 0, 'withscores')[2]
  return next and tonumber(next) < UNENDING and next - now or -1
end
local lifetime = redis.call('pttl', counter)
if wanted > 0 then
  redis.call('decrby', counter, wanted)
end
for at, id in ipairs(all) do
  local ends = math.max(now + lease_ms, tonumber(redis.call('zscore', ids, id) or 0))
  local done = redis.pcall('zadd', ids, ends, id)
  if at == 1 and lifetime > 0 and type(done) == 'number' then done = redis.pcall('pexpire', ids, lifetime) end
  if type(done) == 'table' and wanted > 0 then
    redis.call('decrby', counter, -wanted)
    redis.call('zrem', ids, id)
  end
  if type(done) == 'table' then return done end
end
return nil
