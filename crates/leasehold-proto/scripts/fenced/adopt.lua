-- Passes a hold from its wire owner to another one with a new token. A repeated call returns the same token.
-- KEYS[1] lock       hash    the lock; field: wire owner, value: hold count
-- KEYS[2] token      string  the fencing token of the last grant, or the last one that it reserved
-- ARGV[1] lease_ms   integer lease of the key from now
-- ARGV[2] owner      string  wire owner of the adopter, unique per adoption
-- ARGV[3] giver      string  wire owner of the hold that is given away
-- ARGV[4] hybrid     integer 1 when a token is at least the server's time in unix microseconds
-- ARGV[5] token_kept integer how many milliseconds the token outlives a grant, 0 for no expiry
-- ARGV[6] tokens     integer how many tokens the adoption reserves in a row; equal in each repeat of the call
-- ARGV[7] publish    string  PUBLISH, or SPUBLISH in a cluster with sharded channels
-- ARGV[8] channel    string  the channel of the waiters, who sleep for the giver's lease and read the shorter one
-- ARGV[9] message    string  the payload, an ASCII decimal
-- returns {-2, the first token} on success, else {0, ''}: the hold is gone
-- calls hlen hexists hset hdel pttl pexpire get set time publish|spublish
-- wire 5.9, 7.1, 7.2; the giver may still write, so its token must not be the adopter's
local lock, token = KEYS[1], KEYS[2]
local lease_ms, owner, giver, hybrid = tonumber(ARGV[1]), ARGV[2], ARGV[3], tonumber(ARGV[4])
local token_kept, tokens = tonumber(ARGV[5]), tonumber(ARGV[6])
local publish, channel, message = ARGV[7], ARGV[8], ARGV[9]
if not lease_ms or lease_ms < 1 or lease_ms % 1 ~= 0 or lease_ms > 9007199254740991 or not token_kept
  or token_kept < 0 or token_kept % 1 ~= 0 or not tokens or tokens < 1 or tokens % 1 ~= 0 then
  return redis.error_reply('LOCKERR adopt: lease_ms, token_kept and tokens must be whole')
end
if redis.call('hlen', lock) > 1 then
  return redis.error_reply('WRONGTYPE the name is a read-write lock or a group of values')
end
local mine = redis.call('hexists', lock, owner) == 1
if not mine and redis.call('hexists', lock, giver) == 0 then return { 0, '' } end
local last = tonumber(redis.call('get', token) or 0) or -1
local first = mine and last - tokens + 1 or last + 1
local time = not mine and hybrid == 1 and redis.call('time')
if time then first = math.max(first, time[1] * 1000000 + time[2]) end
if first < 1 or first + tokens > 9007199254740991 then
  return redis.error_reply('WRONGTYPE the token key holds no token')
end
local final, kept = string.format('%.0f', first + tokens - 1), math.max(token_kept, lease_ms)
local done = redis.pcall('set', token, final)
if done.ok and token_kept > 0 then done = redis.pcall('set', token, final, 'PX', kept) end
if not done.ok then return done end
local given = redis.call('pttl', lock)
if not mine or given < lease_ms then redis.call('pexpire', lock, ARGV[1]) end
redis.call('hset', lock, owner, '1')
redis.call('hdel', lock, giver)
if not mine and given > lease_ms then redis.pcall(publish, channel, message) end
return { -2, string.format('%.0f', first) }
