-- Looks at how long a permit is still taken, and changes nothing.
-- KEYS[1] counter string how many permits are left, may be below zero
-- KEYS[2] ids     zset   the ids of those that are taken, each with its end in unix milliseconds
-- ARGV[1] given   bytes  the id
-- returns the milliseconds, -1 when it does not end by itself, nil when it is not taken
-- calls get zscore
-- wire 13, getLeaseTime
local counter, ids = KEYS[1], KEYS[2]
local given = ARGV[1]
if not tonumber(redis.call('get', counter) or 0) then
  return redis.error_reply('WRONGTYPE the name is another kind of object')
end
local ends, now = tonumber(redis.call('zscore', ids, given) or 0), now_ms()
if ends >= UNENDING then
  return -1
end
return ends > now and ends - now or nil
