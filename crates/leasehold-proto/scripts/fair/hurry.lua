-- Hurries the head of a free lock, and with it the dead waiters of Redisson behind it.
-- returns nothing: functions for the scripts of this folder
-- calls lrange pubsub zadd zscore publish|spublish
-- wire 6.2; one call looks at a limited number of waiters
local CUT = 64
-- Gives all Redisson waiters to whose channels nobody listens the same five seconds as the head, so dead ones are passed
-- together. A live one that begins to wait at this moment enters again. Without the listeners of all nodes, or the right to
-- count them, each has its own five seconds.
local function cut_silent(q)
  if q.numsub == '' then return end
  local owners, channels = {}, {}
  for _, owner in ipairs(redis.call('lrange', q.queue, 1, CUT)) do
    if not redis.call('zscore', q.seen, owner) then
      owners[#owners + 1], channels[#channels + 1] = owner, q.channel .. ':' .. owner
    end
  end
  local counts = #owners > 0 and redis.pcall('pubsub', q.numsub, unpack(channels)) or {}
  for at, owner in ipairs(owners) do
    local due = tonumber(redis.call('zscore', q.timeout, owner) or 0)
    if counts[2 * at] == 0 and due > q.now + GONE_AFTER then
      redis.call('zadd', q.timeout, q.now + GONE_AFTER, owner)
    end
  end
end
-- Gives the head of a free lock five seconds to take it, and wakes the head after a change. Returns the end of these
-- seconds, and whether there was a change.
local function hurry(q, head, changed)
  local called_at = redis.call('zscore', q.seen, head)
  local due = called_at and called_at + GONE_AFTER or tonumber(redis.call('zscore', q.timeout, head) or 0)
  if due > q.now + GONE_AFTER then
    due, changed = q.now + GONE_AFTER, true
    redis.call('zadd', q.timeout, due, head)
    cut_silent(q)
  end
  local publish = q.publish
  if changed then redis.pcall(publish, q.channel .. ':' .. head, q.message) end
  return due, changed
end
