-- Deletes a latch, and tells those who wait for it.
-- KEYS[1] latch      string  the count
-- KEYS[2] deleted    string  is there when the latch was deleted a short while ago
-- KEYS[3] done       string  what this operation has answered
-- ARGV[1] deleted_ms integer how long the deletion is told
-- ARGV[2] done_ms    integer how long the answer is kept
-- ARGV[3] publish    string  PUBLISH, or SPUBLISH in a cluster with sharded channels
-- ARGV[4] channel    string  where waiters listen
-- ARGV[5] message    string  what they are told, an ASCII decimal
-- returns 1 when deleted, 0 when there was none
-- calls del get set publish|spublish
-- wire 14, delete
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
