-- Acquires a read hold among readers or inside the user's write hold. A repeated call finds its hold.
-- KEYS[1] lock      hash    the lock; fields: mode (read or write), reader -> holds, writer..':write' -> holds
-- KEYS[2] timeout   string  lease key of this owner's first hold
-- KEYS[3] upgrade   string  exists while a reader waits to upgrade; no reader joins then
-- KEYS[4] writer    string  exists while a preferred writer waits
-- ARGV[1] lease_ms  integer lease of the hold from now
-- ARGV[2] owner     string  wire owner, unique per acquisition
-- ARGV[3] companion string  wire owner of the user's write hold, empty for none
-- ARGV[4] yields    integer 1 to let a waiting writer go first
-- returns nil on success, else the PTTL of the hold or mark that is in the way (-1: no expiry)
-- calls hget hexists hset hdel set del pttl pexpire
-- wire 9.2, 9.8, 4.3; an absolute count; refuses a hash without a mode
local lock, timeout, upgrade, writer = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local lease_ms, owner, companion, yields = tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]
if not lease_ms or lease_ms < 1 or lease_ms % 1 ~= 0 or lease_ms > 9007199254740991 then
  return redis.error_reply('LOCKERR acquire: lease_ms must be whole and positive')
end
local lives = redis.call('pttl', lock)
local mode = lives ~= -2 and redis.call('hget', lock, 'mode')
if lives ~= -2 and mode ~= 'read' and mode ~= 'write' then
  return redis.error_reply('WRONGTYPE the name belongs to something else than a read-write lock')
end
local known = mode and redis.call('hexists', lock, owner) == 1
local within = mode == 'write' and companion ~= '' and redis.call('hexists', lock, companion .. ':write') == 1
if not known and not within then
  local wait = mode == 'write' and lives or mode and redis.call('pttl', upgrade) or -2
  if wait == -2 and yields == '1' then wait = redis.call('pttl', writer) end
  if wait ~= -2 then return wait end
end
if known then
  if redis.call('pttl', timeout) < lease_ms then redis.call('set', timeout, '1', 'px', ARGV[1]) end
  if lives < lease_ms then redis.call('pexpire', lock, ARGV[1]) end
  return nil
end
redis.call('hset', lock, 'mode', mode or 'read', owner, '1')
local done = redis.pcall('set', timeout, '1', 'px', ARGV[1])
if done.ok and lives < lease_ms then done = redis.pcall('pexpire', lock, ARGV[1]) end
if type(done) == 'table' and not done.ok then
  redis.call('del', timeout)
  redis.call('hdel', lock, owner, not mode and 'mode' or owner)
  return done
end
return nil
