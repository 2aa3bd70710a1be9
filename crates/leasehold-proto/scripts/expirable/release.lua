-- Returns the permits of these ids, each once, and wakes the waiters.
-- KEYS[1] counter string available permits, may be negative
-- KEYS[2] ids     zset   ids of acquired permits, each with its end in unix milliseconds
-- ARGV[1] given   bytes  the ids, 16 bytes each
-- ARGV[2] publish string PUBLISH, or SPUBLISH in a cluster with sharded channels
-- ARGV[3] channel string the channel of the waiters
-- returns 1 + the listeners when all were still acquired, 0 when a lease had ended or a permit was returned before
-- calls get zscore publish|spublish
-- wire 13.3; one message for all ids
local counter, ids = KEYS[1], KEYS[2]
local given, publish, channel = ARGV[1], ARGV[2], ARGV[3]
if #given % 16 ~= 0 then
  return redis.error_reply('LOCKERR release: ids have 16 bytes')
end
local left, now, all = redis.call('get', counter), now_ms(), each(given)
if not tonumber(left or 0) then
  return redis.error_reply('WRONGTYPE the name is another kind of object')
end
local held, taken, listeners = 0, {}, 0
for _, id in ipairs(all) do
  local ends = tonumber(redis.call('zscore', ids, id) or '')
  if ends then taken[#taken + 1] = id end
  held = held + (ends and ends > now and 1 or 0)
end
if #taken > 0 then
  local total, refused = return_permits(counter, ids, taken)
  if refused then return refused end
  listeners = redis.pcall(publish, channel, total)
end
return held == #all and 1 + (tonumber(listeners) or 0) or 0
