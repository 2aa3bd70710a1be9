-- Acquires a free lock and raises the token. A repeated call finds its hold and returns the same token.
-- KEYS[1] lock       hash    the lock; field: wire owner, value: hold count
-- KEYS[2] token      string  the fencing token of the last grant, or the last one that it reserved
-- ARGV[1] lease_ms   integer lease of the key from now
-- ARGV[2] owner      string  wire owner, unique per acquisition
-- ARGV[3] hybrid     integer 1 when a token is at least the server's time in unix microseconds
-- ARGV[4] token_kept integer how many milliseconds the token outlives a grant, 0 for no expiry
-- ARGV[5] tokens     integer how many tokens the grant reserves in a row; equal in each repeat of the call
-- returns {-2, the first token} on success, else {the PTTL of another owner's hold (-1: no expiry), ''}
-- calls hexists exists hlen hset hdel pttl pexpire get set time
-- wire 7.1, 7.2; a token of 2^53 or more stops the lock; hold, lease and token are written together or not at all
local lock, token = KEYS[1], KEYS[2]
local lease_ms, owner, hybrid = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])
local token_kept, tokens = tonumber(ARGV[4]), tonumber(ARGV[5])
if not lease_ms or lease_ms < 1 or lease_ms % 1 ~= 0 or lease_ms > 9007199254740991 or not token_kept
  or token_kept < 0 or token_kept % 1 ~= 0 or not tokens or tokens < 1 or tokens % 1 ~= 0 then
  return redis.error_reply('LOCKERR acquire: lease_ms, token_kept and tokens must be whole')
end
local mine = redis.call('hexists', lock, owner) == 1
if not mine and redis.call('exists', lock) == 1 then
  local is_other = redis.call('hlen', lock) > 1
  if is_other then return redis.error_reply('WRONGTYPE the name is a read-write lock or a group of values') end
  return { redis.call('pttl', lock), '' }
end
local last = redis.call('get', token)
local given = mine and last and (tonumber(last) or 0) - tokens + 1
local first = given or (tonumber(last or 0) or -1) + 1
if first < 1 or first + tokens > 9007199254740991 then
  return redis.error_reply('WRONGTYPE the token key holds no token')
end
local kept = math.max(token_kept, lease_ms)
if given then
  if token_kept > 0 then redis.call('pexpire', token, kept) end
  if redis.call('pttl', lock) < lease_ms then redis.call('pexpire', lock, ARGV[1]) end
  return { -2, string.format('%.0f', first) }
end
local time = hybrid == 1 and redis.call('time')
if time then first = math.max(first, time[1] * 1000000 + time[2]) end
local final = string.format('%.0f', first + tokens - 1)
redis.call('hset', lock, owner, '1')
local done = redis.pcall('pexpire', lock, ARGV[1])
if done == 1 and token_kept > 0 then done = redis.pcall('set', token, final, 'PX', kept) end
if done == 1 then done = redis.pcall('set', token, final) end
if done.ok then return { -2, string.format('%.0f', first) } end
return redis.call('hdel', lock, owner) and done
