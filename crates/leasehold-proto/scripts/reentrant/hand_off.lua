-- Renews, and never shortens, the lease of a hold that passes on inside its client, and counts the lock's listeners.
-- KEYS[1] lock     hash    the lock; field: wire owner, value: hold count
-- ARGV[1] lease_ms integer lease of the key from now
-- ARGV[2] owner    string  wire owner
-- ARGV[3] numsub   string  NUMSUB, SHARDNUMSUB for sharded channels, or empty where one node does not know all listeners
-- ARGV[4] channel  string  the channel of the waiters
-- returns 2 + the listeners, 1 when renewed with unknown listeners, 0 when the lock is free, -1 when another owner holds it
-- calls hexists exists pttl pexpire pubsub
-- wire 17.3, 5.8; keeps the hold count; an error of the count leaves the listeners unknown
local lock = KEYS[1]
local lease_ms, owner = tonumber(ARGV[1]), ARGV[2]
local numsub, channel = ARGV[3], ARGV[4]
if not lease_ms or lease_ms < 1 or lease_ms % 1 ~= 0 or lease_ms > 9007199254740991 then
  return redis.error_reply('LOCKERR hand_off: lease_ms must be whole and positive')
end
if redis.call('hexists', lock, owner) == 0 then
  return -redis.call('exists', lock)
end
if redis.call('pttl', lock) < lease_ms then
  redis.call('pexpire', lock, ARGV[1])
end
if numsub == '' then
  return 1
end
local counted = redis.pcall('pubsub', numsub, channel)
local listeners = tonumber(counted[2])
return listeners and 2 + listeners or 1
