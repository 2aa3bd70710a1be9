-- Takes a free lock, or sets the hold count of one that is already this owner's.
-- KEYS[1] lock     hash     the lock; field: wire owner, value: hold count
-- ARGV[1] lease_ms integer  how long the key lives from now
-- ARGV[2] owner    string   wire owner, unique per acquisition
-- ARGV[3] count    integer  the hold count to set, 1 for a fresh acquire; above 1 only an existing hold is changed
-- returns nil when held; an integer when not: PTTL of somebody else's hold (-1: no expiry), -2 when count is above 1
--         and the hold is gone and the lock is free
-- calls exists hexists hset pexpire pttl
-- wire 5.1; absolute count instead of an increment (reliability 4.3, section 23 item 8)
local lock = KEYS[1]
local lease_ms, owner, count = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])
if not lease_ms or lease_ms < 1 or lease_ms % 1 ~= 0 or lease_ms > 9007199254740991 or not count or count < 1 then
  return redis.error_reply('LOCKERR acquire: lease_ms and count must be whole and positive')
end
local mine = redis.call('hexists', lock, owner) == 1
if mine or (count == 1 and redis.call('exists', lock) == 0) then
  redis.call('hset', lock, owner, ARGV[3])
  redis.call('pexpire', lock, ARGV[1])
  return nil
end
return redis.call('pttl', lock)
