-- Reads the remaining lease of a permit and changes nothing.
-- KEYS[1] counter string available permits, may be negative
-- KEYS[2] ids     zset   ids of acquired permits, each with its end in unix milliseconds
-- ARGV[1] given   bytes  the id
-- returns the milliseconds, -1 for a permit without an end, nil when it is not acquired
-- calls get zscore
-- wire 13.6
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
