-- Counts the permits and changes nothing.
-- KEYS[1] counter string available permits, may be negative
-- KEYS[2] ids     zset   ids of acquired permits, each with its end in unix milliseconds
-- returns {available permits, ended ones included; acquired permits; 1 when the number was ever set}
-- calls get zcard zcount
-- wire 13.6
local counter, ids = KEYS[1], KEYS[2]
local left = redis.call('get', counter)
if not tonumber(left or 0) then
  return redis.error_reply('WRONGTYPE the name is another kind of object')
end
local ended = redis.call('zcount', ids, '0', now_ms())
return { tonumber(left or 0) + ended, redis.call('zcard', ids) - ended, left and 1 or 0 }
