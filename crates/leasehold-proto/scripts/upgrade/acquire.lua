-- Acquires a write hold with the user's read hold once no other reader lives. Keeps new readers out until then.
-- KEYS[1] lock      hash    the lock; fields: mode (read or write), reader -> holds, writer..':write' -> holds
-- KEYS[2] readers   string  prefix of the lease keys of readers
-- KEYS[3] mark      string  the waiting upgrade: 'reader writer', two wire owners
-- ARGV[1] lease_ms  integer lease of the lock from now
-- ARGV[2] owner     string  wire owner of the write hold
-- ARGV[3] companion string  wire owner of the read hold
-- ARGV[4] mark_ms   integer how long the mark of a refused waiter lasts, 0 for no mark
-- returns nil on success, else PTTL (-1: no expiry), -2 when the read hold is gone, -3 when another reader waits too
-- calls hexists hget hgetall hset hdel get set del pttl pexpire
-- wire 9.8, 9.2; leaves the state of a writer that reads
local lock, readers, mark, dead = KEYS[1], KEYS[2], KEYS[3], {}
local lease_ms, owner, companion, mark_ms = tonumber(ARGV[1]), ARGV[2], ARGV[3], tonumber(ARGV[4])
if not lease_ms or lease_ms < 1 or lease_ms % 1 ~= 0 or lease_ms > 9007199254740991
  or not mark_ms or mark_ms < 0 or mark_ms % 1 ~= 0 then
  return redis.error_reply('LOCKERR acquire: lease_ms must be whole and positive, mark_ms whole and not negative')
end
if redis.call('hexists', lock, owner .. ':write') == 0 then
  local fields, living = redis.call('hgetall', lock), {}
  for at = 1, #fields, 2 do
    local alive, timeout = false, readers .. ':' .. fields[at] .. ':rwlock_timeout:'
    for hold = 1, tonumber(fields[at + 1]) or 0 do alive = alive or redis.call('pttl', timeout .. hold) > 0 end
    local list = alive and living or dead
    list[#list + 1], living[fields[at]] = fields[at], alive
  end
  if not living[companion] then return -2 end
  if redis.call('hget', lock, 'mode') == 'write' then return redis.call('pttl', lock) end
  if #living > 1 then
    local other = redis.call('get', mark)
    if other and string.sub(other, 1, #companion + 1) ~= companion .. ' ' then return -3 end
    if mark_ms > 0 then redis.call('set', mark, companion .. ' ' .. owner, 'px', ARGV[4]) end
    return redis.call('pttl', lock)
  end
  for _, field in ipairs(dead) do if field ~= 'mode' then redis.call('hdel', lock, field) end end
  redis.call('hset', lock, 'mode', 'write', owner .. ':write', '1')
  local done = redis.call('pttl', lock) < lease_ms and redis.pcall('pexpire', lock, ARGV[1])
  if type(done) ~= 'table' then done = redis.pcall('del', mark) end
  if type(done) ~= 'table' then return nil end
  redis.call('hset', lock, 'mode', 'read')
  redis.call('hdel', lock, owner .. ':write')
  return done
end
if redis.call('pttl', lock) < lease_ms then redis.call('pexpire', lock, ARGV[1]) end
return nil
