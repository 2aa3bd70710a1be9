-- Passes a hold from its wire owner to another one. A repeated call finds its hold.
-- KEYS[1] lock     hash    the lock; field: wire owner, value: hold count
-- ARGV[1] lease_ms integer lease of the key from now
-- ARGV[2] owner    string  wire owner of the adopter, unique per adoption
-- ARGV[3] giver    string  wire owner of the hold that is given away
-- ARGV[4] publish  string  PUBLISH, or SPUBLISH in a cluster with sharded channels
-- ARGV[5] channel  string  the channel of the waiters, empty for a lock without one
-- ARGV[6] message  string  the payload, an ASCII decimal
-- returns nil on success, else 0: the hold is gone
-- calls hlen hexists hset hdel pttl pexpire publish|spublish
-- wire 5.9, 4.2; an absolute count; the hold stays the giver's when the server refuses its expiry; waiters that sleep for
-- the lease of the giver read the shorter one
local lock = KEYS[1]
local lease_ms, owner, giver = tonumber(ARGV[1]), ARGV[2], ARGV[3]
local publish, channel, message = ARGV[4], ARGV[5], ARGV[6]
if not lease_ms or lease_ms < 1 or lease_ms % 1 ~= 0 or lease_ms > 9007199254740991 then
  return redis.error_reply('LOCKERR adopt: lease_ms must be whole and positive')
end
if redis.call('hlen', lock) > 1 then
  return redis.error_reply('WRONGTYPE the name belongs to a read-write lock or a group of values')
end
if redis.call('hexists', lock, owner) == 1 then
  if redis.call('pttl', lock) < lease_ms then
    redis.call('pexpire', lock, ARGV[1])
  end
  return nil
end
if redis.call('hexists', lock, giver) == 0 then
  return 0
end
local given = redis.call('pttl', lock)
local expires = redis.pcall('pexpire', lock, ARGV[1])
if expires ~= 1 then
  return expires
end
redis.call('hset', lock, owner, '1')
redis.call('hdel', lock, giver)
if given > lease_ms and channel ~= '' then
  redis.pcall(publish, channel, message)
end
return nil
