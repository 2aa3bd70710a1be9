-- Passes the lock from its leader to a waiting successor. The lock is never free in between. A repeated call changes nothing.
-- KEYS[1] lock      hash    the lock; field: wire owner, value: hold count
-- KEYS[2] token     string  the fencing token of the last grant
-- ARGV[1] owner     string  wire owner of the leader
-- ARGV[2] successor string  wire owner of the successor's attempts
-- ARGV[3] lease_ms  integer lease of the key from now, until the successor's attempt raises it
-- ARGV[4] publish   string  PUBLISH, or SPUBLISH in a cluster with sharded channels
-- ARGV[5] channel   string  the channel of the observers
-- returns the token of the successor, or nil when neither of them holds the lock
-- calls get hdel hexists hset pexpire publish|spublish set time
-- wire 26.3, 7.2; the token is at least the server's time in unix microseconds
local lock, token = KEYS[1], KEYS[2]
local owner, successor, lease_ms, publish, channel = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
if redis.call('hexists', lock, successor) == 1 then
  return redis.call('get', token)
end
if redis.call('hexists', lock, owner) == 0 then
  return nil
end
local time = redis.call('time')
local last = tonumber(redis.call('get', token) or 0) or -1
local next = math.max(last + 1, time[1] * 1000000 + time[2])
if last < 0 or next > 9007199254740991 then
  return redis.error_reply('WRONGTYPE the token key holds no token')
end
local raised = string.format('%.0f', next)
local done = redis.pcall('set', token, raised)
if not done.ok then
  return done
end
redis.call('hset', lock, successor, '1')
redis.call('hdel', lock, owner)
redis.call('pexpire', lock, lease_ms)
redis.pcall(publish, channel, successor)
return raised
