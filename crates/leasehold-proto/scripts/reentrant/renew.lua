-- Extends the lease of this owner's hold; never shortens it.
-- KEYS[1] lock     hash     the lock; field: wire owner, value: hold count
-- ARGV[1] lease_ms integer  how long the key lives from now
-- ARGV[2] owner    string   wire owner
-- returns 1 when extended, 0 when the lock is free, -1 when somebody else holds it
-- calls hexists exists pttl pexpire
-- wire 17.3 (a) for one name, and section 23 item 15
local lock = KEYS[1]
local lease_ms, owner = tonumber(ARGV[1]), ARGV[2]
if not lease_ms or lease_ms < 1 or lease_ms % 1 ~= 0 or lease_ms > 9007199254740991 then
  return redis.error_reply('LOCKERR renew: lease_ms must be whole and positive')
end
if redis.call('hexists', lock, owner) == 0 then
  return -redis.call('exists', lock)
end
if redis.call('pttl', lock) < lease_ms then
  redis.call('pexpire', lock, ARGV[1])
end
return 1
