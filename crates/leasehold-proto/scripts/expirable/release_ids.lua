-- Returns the permits of these ids, all or none, and wakes the waiters.
-- KEYS[1] counter string  available permits, may be negative
-- KEYS[2] ids     zset    ids of acquired permits, each with its end in unix milliseconds
-- KEYS[3] done    string  the reply of this operation, for a repeated call
-- ARGV[1] given   bytes   the ids, 16 bytes each
-- ARGV[2] done_ms integer how long the reply is kept
-- ARGV[3] publish string  PUBLISH, or SPUBLISH in a cluster with sharded channels
-- ARGV[4] channel string  the channel of the waiters
-- returns the number of returned permits, 0 when one of them was not acquired any more
-- calls get set zscore publish|spublish
-- wire 13.3
local counter, ids, done = KEYS[1], KEYS[2], KEYS[3]
local given, done_ms, publish, channel = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
if #given % 16 ~= 0 or not done_ms then
  return redis.error_reply('LOCKERR release_ids: ids have 16 bytes')
end
local left, now, all = redis.call('get', counter), now_ms(), each(given)
if not tonumber(left or 0) then
  return redis.error_reply('WRONGTYPE the name is another kind of object')
end
local before = redis.call('get', done)
if before then
  return tonumber(before)
end
for _, id in ipairs(all) do
  if tonumber(redis.call('zscore', ids, id) or 0) <= now then
    redis.call('set', done, '0', 'PX', done_ms)
    return 0
  end
end
reclaim(counter, ids, now, left, publish, channel)
redis.call('set', done, #all, 'PX', done_ms)
local _, refused = return_permits(counter, ids, all)
if refused then
  redis.call('set', done, '', 'PX', 1)
  return refused
end
redis.pcall(publish, channel, #all)
return #all
