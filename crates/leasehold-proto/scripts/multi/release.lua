-- Releases one hold of several on all locks, or the locks themselves. Then wakes the waiters of each.
-- KEYS[1] lock      hash    the first lock, then the others; field: wire owner, value: hold count
-- ARGV[1] owner     string  wire owner
-- ARGV[2] remaining integer hold count after this release, 0 to free the locks
-- ARGV[3] publish   string  PUBLISH, or SPUBLISH in a cluster with sharded channels
-- ARGV[4] prefix    string  prefix of the channels of the waiters
-- ARGV[5] message   string  the payload, an ASCII decimal
-- returns nil when the owner does not hold all, 0 after a partial release, 1 + the most listeners of one free lock
-- calls hexists hset hdel publish|spublish
-- wire 10.2, 5.4, 4.2; a partial release keeps the lease
local lock, owner, remaining = KEYS[1], ARGV[1], tonumber(ARGV[2])
local publish, prefix, message = ARGV[3], ARGV[4], ARGV[5]
if not remaining or remaining < 0 or remaining % 1 ~= 0 then
  return redis.error_reply('LOCKERR release: remaining must be whole and not negative')
end
local all = redis.call('hexists', lock, owner) == 1
for _, key in ipairs(KEYS) do
  all = redis.call('hexists', key, owner) == 1 and all
end
local freed = {}
for _, key in ipairs(KEYS) do
  if remaining > 0 and all then
    redis.call('hset', key, owner, ARGV[2])
  elseif remaining == 0 and redis.call('hdel', key, owner) == 1 then
    freed[#freed + 1] = prefix .. (key:find('{', 1, true) and ':' .. key or ':{' .. key .. '}')
  end
end
local listeners = 0
for _, channel in ipairs(freed) do
  listeners = math.max(listeners, tonumber(redis.pcall(publish, channel, message)) or 0)
end
if not all then return nil end
return remaining > 0 and 0 or 1 + listeners
