-- Deletes a latch and wakes its waiters.
-- KEYS[1] latch      string  the count
-- KEYS[2] deleted    string  exists for a while after a deletion of the latch
-- KEYS[3] done       string  the reply of this operation, for a repeated call
-- ARGV[1] deleted_ms integer how long waiters learn of the deletion
-- ARGV[2] done_ms    integer how long the reply is kept
-- ARGV[3] publish    string  PUBLISH, or SPUBLISH in a cluster with sharded channels
-- ARGV[4] channel    string  the channel of the waiters
-- ARGV[5] message    string  the payload, an ASCII decimal
-- returns 1 when deleted, 0 when there was none
-- calls del get set publish|spublish
-- wire 14.2, 4.2
local latch, deleted, done = KEYS[1], KEYS[2], KEYS[3]
local deleted_ms, done_ms = tonumber(ARGV[1]), tonumber(ARGV[2])
local publish, channel, message = ARGV[3], ARGV[4], ARGV[5]
if not deleted_ms or not done_ms then
  return redis.error_reply('LOCKERR delete: deleted_ms and done_ms must be numbers')
end
local value, before = redis.call('get', latch), redis.call('get', done)
if before then
  return tonumber(before)
end
redis.call('set', done, value and 1 or 0, 'PX', done_ms)
if not value then
  return 0
end
local changed = redis.pcall('del', latch)
if type(changed) == 'table' then
  redis.call('set', done, '', 'PX', 1)
  return changed
end
redis.call('set', deleted, '1', 'PX', deleted_ms)
redis.pcall(publish, channel, message)
return 1
