-- Acquires a free lock for writing. A repeated call finds its hold.
-- KEYS[1] lock      hash    the lock; fields: mode (read or write), reader -> holds, writer..':write' -> holds
-- KEYS[2] mark      string  owner of the waiting writer that yielding readers let go first
-- ARGV[1] lease_ms  integer lease of the lock from now
-- ARGV[2] owner     string  wire owner, unique per acquisition
-- ARGV[3] companion string  wire owner of the user's read hold, empty for none
-- ARGV[4] mark_ms   integer how long the mark of a refused waiter lasts, 0 for no mark
-- returns nil on success, else the PTTL of other holds (-1: no expiry), -3 when it would wait for its own read hold
-- calls hget hexists hset hdel get set del pttl pexpire
-- wire 9.3, 9.8, 4.3; an absolute count; refuses a hash without a mode
local lock, mark = KEYS[1], KEYS[2]
local lease_ms, owner, companion, mark_ms = tonumber(ARGV[1]), ARGV[2], ARGV[3], tonumber(ARGV[4])
if not lease_ms or lease_ms < 1 or lease_ms % 1 ~= 0 or lease_ms > 9007199254740991
  or not mark_ms or mark_ms < 0 or mark_ms % 1 ~= 0 then
  return redis.error_reply('LOCKERR acquire: lease_ms must be whole and positive, mark_ms whole and not negative')
end
local lives = redis.call('pttl', lock)
local mode = lives ~= -2 and redis.call('hget', lock, 'mode')
if lives ~= -2 and mode ~= 'read' and mode ~= 'write' then
  return redis.error_reply('WRONGTYPE the name belongs to something else than a read-write lock')
end
if mode and redis.call('hexists', lock, owner .. ':write') == 0 then
  if companion ~= '' and redis.call('hexists', lock, companion) == 1 then return -3 end
  if mark_ms > 0 then redis.call('set', mark, owner, 'px', ARGV[4]) end
  return lives
end
if mode then
  if lives < lease_ms then redis.call('pexpire', lock, ARGV[1]) end
  return nil
end
local marked = mark_ms > 0 and redis.call('get', mark) == owner
redis.call('hset', lock, 'mode', 'write', owner .. ':write', '1')
local done = redis.pcall('pexpire', lock, ARGV[1])
if done == 1 and marked then done = redis.pcall('del', mark) end
if type(done) == 'table' then
  redis.call('hdel', lock, 'mode', owner .. ':write')
  return done
end
return nil
