-- Releases one write hold of several, or all, and wakes the waiters. Readers then keep the lock, or it is free.
-- KEYS[1] lock      hash    the lock; fields: mode (read or write), reader -> holds, writer..':write' -> holds
-- KEYS[2] readers   string  prefix of the lease keys of readers
-- KEYS[3] mark      string  mark that the owner may have left while it waited; ends with the owner
-- ARGV[1] owner     string  wire owner
-- ARGV[2] remaining integer hold count after this release, 0 to release all
-- ARGV[3] publish   string  PUBLISH, or SPUBLISH in a cluster with sharded channels
-- ARGV[4] channel   string  the channel of the waiters
-- ARGV[5] message   string  the payload, an ASCII decimal
-- returns nil when the owner does not hold it, 0 after a partial release, 1 + the listeners when no writer is left
-- calls hexists hlen hset hdel hgetall get del pttl pexpire publish|spublish
-- wire 9.5, 4.2; a partial release keeps the lease; publishes also when readers are left
local lock, readers, mark = KEYS[1], KEYS[2], KEYS[3]
local owner, remaining, publish, channel, message = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5]
if not remaining or remaining < 0 or remaining % 1 ~= 0 then
  return redis.error_reply('LOCKERR release: remaining must be whole and not negative')
end
if redis.call('hexists', lock, owner .. ':write') == 0 then
  if string.sub(redis.call('get', mark) or '', -#owner) == owner then
    redis.call('del', mark)
    redis.pcall(publish, channel, message)
  end
  return nil
end
if remaining > 0 then
  redis.call('hset', lock, owner .. ':write', ARGV[2])
  return 0
end
local fields, longest, gone = {}, 0, { owner .. ':write' }
if redis.call('hlen', lock) > 2 then fields = redis.call('hgetall', lock) end
for at = 1, #fields, 2 do
  local left, timeout = -2, readers .. ':' .. fields[at] .. ':rwlock_timeout:'
  for hold = 1, tonumber(fields[at + 1]) or 0 do left = math.max(left, redis.call('pttl', timeout .. hold)) end
  if left <= 0 and fields[at] ~= 'mode' then gone[#gone + 1] = fields[at] end
  longest = math.max(longest, left)
end
if longest == 0 then
  redis.call('del', lock)
else
  for _, field in ipairs(gone) do redis.call('hdel', lock, field) end
  redis.call('hset', lock, 'mode', 'read')
  redis.call('pexpire', lock, string.format('%.0f', longest))
end
local listeners = redis.pcall(publish, channel, message)
return 1 + (tonumber(listeners) or 0)
