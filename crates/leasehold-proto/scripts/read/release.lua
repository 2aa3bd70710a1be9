-- Releases one read hold of several, or all. The lock then lives as long as its longest reader, or is free.
-- KEYS[1] lock      hash    the lock; fields: mode (read or write), reader -> holds, writer..':write' -> holds
-- KEYS[2] readers   string  prefix of the lease keys of readers
-- KEYS[3] upgrade   string  exists while a reader waits to upgrade
-- ARGV[1] owner     string  wire owner
-- ARGV[2] remaining integer hold count after this release, 0 to release all
-- ARGV[3] publish   string  PUBLISH, or SPUBLISH in a cluster with sharded channels
-- ARGV[4] channel   string  the channel of the waiters
-- ARGV[5] message   string  the payload, an ASCII decimal
-- returns nil when the owner does not hold it, 0 when the lock stays held, 1 when it is free
-- calls hget hlen hset hdel hgetall del exists pttl pexpire publish|spublish
-- wire 9.4, 4.2; never shortens a write hold, nor the remaining holds of this owner
local SAME = 10
local lock, readers, upgrade = KEYS[1], KEYS[2], KEYS[3]
local owner, remaining, publish, channel, message = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5]
if not remaining or remaining < 0 or remaining % 1 ~= 0 then
  return redis.error_reply('LOCKERR release: remaining must be whole and not negative')
end
local held = tonumber(redis.call('hget', lock, owner))
if not held then return nil end
local function timeout(reader, hold) return readers .. ':' .. reader .. ':rwlock_timeout:' .. hold end
local mode = redis.call('hget', lock, 'mode')
local alone = remaining == 0 and mode == 'read' and redis.call('hlen', lock) == 2
local own, longest = -2, alone and 0 or redis.call('pttl', lock)
if remaining > 0 then redis.call('hset', lock, owner, ARGV[2]) elseif not alone then redis.call('hdel', lock, owner) end
for hold = remaining + 1, held do
  own = alone and 0 or math.max(own, redis.call('pttl', timeout(owner, hold)))
  redis.call('del', timeout(owner, hold))
end
if remaining > 0 or mode == 'write' then return 0 end
-- Skips a lock that another reader keeps for longer than this lease did, because the expiry stays right.
if longest > 0 and (own <= 0 or longest <= own + SAME) then
  longest = 0
  local fields = redis.call('hgetall', lock)
  for at = 1, #fields, 2 do
    local left = -2
    for hold = 1, tonumber(fields[at + 1]) or 0 do left = math.max(left, redis.call('pttl', timeout(fields[at], hold))) end
    if left <= 0 and fields[at] ~= 'mode' then redis.call('hdel', lock, fields[at]) end
    longest = math.max(longest, left)
  end
  if longest > 0 then redis.call('pexpire', lock, string.format('%.0f', longest)) end
end
if longest == 0 then redis.call('del', lock) end
if longest == 0 or redis.call('exists', upgrade) == 1 then redis.pcall(publish, channel, message) end
return longest == 0 and 1 or 0
