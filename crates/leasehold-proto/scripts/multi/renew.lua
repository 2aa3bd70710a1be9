-- Renews, and never shortens, the leases of all locks of this owner. Frees the others when a lock is gone.
-- KEYS[1] lock     hash    the first lock, then the others; field: wire owner, value: hold count
-- ARGV[1] lease_ms integer lease of the keys from now
-- ARGV[2] owner    string  wire owner
-- ARGV[3] count    integer the hold count to set, 0 to keep it
-- ARGV[4] publish  string  PUBLISH, or SPUBLISH in a cluster with sharded channels
-- ARGV[5] prefix   string  prefix of the channels of the waiters
-- ARGV[6] message  string  the payload, an ASCII decimal
-- returns 1 when all are renewed, 0 when one is free, -1 when another owner holds one
-- calls hexists exists hset pttl pexpire hdel publish|spublish
-- wire 10.2, 17.3
local lock = KEYS[1]
local lease_ms, owner, count = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])
local publish, prefix, message = ARGV[4], ARGV[5], ARGV[6]
if not lease_ms or lease_ms < 1 or lease_ms % 1 ~= 0 or lease_ms > 9007199254740991
  or not count or count < 0 or count % 1 ~= 0 then
  return redis.error_reply('LOCKERR renew: lease_ms must be whole and positive, count whole and not negative')
end
local answer = redis.call('hexists', lock, owner) == 1 and 1 or -redis.call('exists', lock)
for _, key in ipairs(KEYS) do
  if redis.call('hexists', key, owner) == 0 then answer = math.min(answer, -redis.call('exists', key)) end
end
for _, key in ipairs(KEYS) do
  if answer == 1 then
    if count > 0 then redis.call('hset', key, owner, ARGV[3]) end
    if redis.call('pttl', key) < lease_ms then redis.call('pexpire', key, ARGV[1]) end
  elseif redis.call('hdel', key, owner) == 1 then
    local channel = prefix .. (key:find('{', 1, true) and ':' .. key or ':{' .. key .. '}')
    redis.pcall(publish, channel, message)
  end
end
return answer
