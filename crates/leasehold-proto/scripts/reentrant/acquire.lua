-- Acquires a free lock. A repeated call finds its hold.
-- KEYS[1] lock     hash    the lock; field: wire owner, value: hold count
-- ARGV[1] lease_ms integer lease of the key from now
-- ARGV[2] owner    string  wire owner, unique per acquisition
-- returns nil on success, else the PTTL of another owner's hold (-1: no expiry)
-- calls hlen hexists hset hdel pttl pexpire
-- wire 5.1, 4.2, 4.3; an absolute count; undoes the hold when the server refuses its expiry
local lock = KEYS[1]
local lease_ms, owner = tonumber(ARGV[1]), ARGV[2]
if not lease_ms or lease_ms < 1 or lease_ms % 1 ~= 0 or lease_ms > 9007199254740991 then
  return redis.error_reply('LOCKERR acquire: lease_ms must be whole and positive')
end
local owners = redis.call('hlen', lock)
if owners > 0 then
  if redis.call('hexists', lock, owner) == 0 then
    if owners > 1 then
      return redis.error_reply('WRONGTYPE the name belongs to a read-write lock or a group of values')
    end
    return redis.call('pttl', lock)
  end
  if redis.call('pttl', lock) < lease_ms then
    redis.call('pexpire', lock, ARGV[1])
  end
  return nil
end
redis.call('hset', lock, owner, '1')
local expires = redis.pcall('pexpire', lock, ARGV[1])
if expires ~= 1 then
  redis.call('hdel', lock, owner)
  return expires
end
return nil
