-- Looks whether the latch has reached zero.
-- KEYS[1] latch   string  the count
-- KEYS[2] deleted string  is there when the latch was deleted a short while ago
-- ARGV[1] refused integer 1 when whoever asks has seen a positive count before
-- returns the count, 0 when it is zero or not set, -1 when it was deleted while whoever asks was waiting
-- calls del exists get
-- wire 14, await; a deletion is told (section 21 item 34), and a count that was set since, by whomever, ends that
local latch, deleted = KEYS[1], KEYS[2]
local refused = tonumber(ARGV[1])
local count = tonumber(redis.call('get', latch) or 0)
if not count then
  return redis.error_reply('WRONGTYPE the name is another kind of object')
end
local was_deleted = redis.call('exists', deleted) == 1
if count <= 0 then
  return refused == 1 and was_deleted and -1 or 0
end
if was_deleted then
  redis.call('del', deleted)
end
return count
