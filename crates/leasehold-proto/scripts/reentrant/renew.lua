-- Renews, and never shortens, the lease of this owner's hold. Sets the hold count at a re-entry.
-- KEYS[1] lock     hash    the lock; field: wire owner, value: hold count
-- ARGV[1] lease_ms integer lease of the key from now
-- ARGV[2] owner    string  wire owner
-- ARGV[3] count    integer the hold count to set, 0 to keep it
-- returns 1 when renewed, 0 when the lock is free, -1 when another owner holds it
-- calls hexists exists hset pttl pexpire
-- wire 17.3, 5.3
local lock = KEYS[1]
local lease_ms, owner, count = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])
if not lease_ms or lease_ms < 1 or lease_ms % 1 ~= 0 or lease_ms > 9007199254740991
  or not count or count < 0 or count % 1 ~= 0 then
  return redis.error_reply('LOCKERR renew: lease_ms must be whole and positive, count whole and not negative')
end
if redis.call('hexists', lock, owner) == 0 then
  return -redis.call('exists', lock)
end
if count > 0 then
  redis.call('hset', lock, owner, ARGV[3])
end
if redis.call('pttl', lock) < lease_ms then
  redis.call('pexpire', lock, ARGV[1])
end
return 1
