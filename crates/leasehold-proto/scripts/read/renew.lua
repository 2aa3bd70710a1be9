-- Renews, and never shortens, the lease keys of this reader and the lock. Sets the count at a re-entry.
-- KEYS[1] lock     hash    the lock; field: wire owner, value: its read holds
-- KEYS[2] readers  string  prefix of the lease keys of readers
-- ARGV[1] lease_ms integer lease of the holds from now
-- ARGV[2] owner    string  wire owner
-- ARGV[3] count    integer the hold count to set, 0 to keep it
-- returns 1 when renewed, 0 when the lock is free, -1 when only others hold it
-- calls hget exists hset set del pttl pexpire
-- wire 17.3, 9.2
local lock, readers = KEYS[1], KEYS[2]
local lease_ms, owner, count = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])
if not lease_ms or lease_ms < 1 or lease_ms % 1 ~= 0 or lease_ms > 9007199254740991
  or not count or count < 0 or count % 1 ~= 0 or count > 4294967295 then
  return redis.error_reply('LOCKERR renew: lease_ms must be whole and positive, count whole and not negative')
end
local held = tonumber(redis.call('hget', lock, owner))
if not held then
  return -redis.call('exists', lock)
end
local timeout = readers .. ':' .. owner .. ':rwlock_timeout:'
if count > 0 then
  redis.call('hset', lock, owner, ARGV[3])
  for hold = count + 1, held do redis.call('del', timeout .. hold) end
  held = count
end
for hold = 1, held do
  if redis.call('pttl', timeout .. hold) < lease_ms then
    redis.call('set', timeout .. hold, '1', 'px', ARGV[1])
  end
end
if redis.call('pttl', lock) < lease_ms then
  redis.call('pexpire', lock, ARGV[1])
end
return 1
