-- Acquires a free lock like the reentrant lock, but only on a server whose uptime covers every earlier hold.
-- KEYS[1] lock      hash    the lock; field: wire owner, value: hold count
-- ARGV[1] lease_ms  integer lease of the key from now
-- ARGV[2] owner     string  wire owner, unique per acquisition
-- ARGV[3] uptime_ms integer minimum uptime of the server, 0 when it persists every write
-- returns nil on success, the PTTL of another owner's hold (-1: no expiry), or {milliseconds until the server counts}
-- calls hexists exists hlen hset hdel info pttl pexpire
-- wire 10.4, 5.1
local lock = KEYS[1]
local lease_ms, owner, uptime_ms = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])
if not lease_ms or lease_ms < 1 or lease_ms % 1 ~= 0 or lease_ms > 9007199254740991 or not uptime_ms then
  return redis.error_reply('LOCKERR acquire: lease_ms must be whole and positive')
end
if redis.call('hexists', lock, owner) == 1 then
  if redis.call('pttl', lock) < lease_ms then redis.call('pexpire', lock, ARGV[1]) end
  return nil
end
if redis.call('exists', lock) == 1 then
  if redis.call('hlen', lock) > 1 then
    return redis.error_reply('WRONGTYPE the name is a read-write lock or a group of values')
  end
  return redis.call('pttl', lock)
end
if uptime_ms > 0 then
  -- Uptime counts whole seconds and can be almost a second too long.
  local seconds = tonumber(redis.call('info', 'server'):match('uptime_in_seconds:(%d+)')) or 0
  local remaining_ms = uptime_ms - (seconds - 1) * 1000
  if remaining_ms > 0 then return { remaining_ms } end
end
redis.call('hset', lock, owner, '1')
local expires = redis.pcall('pexpire', lock, ARGV[1])
if expires ~= 1 then
  redis.call('hdel', lock, owner)
  return expires
end
return nil
