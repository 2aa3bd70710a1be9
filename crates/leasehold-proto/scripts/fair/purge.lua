-- Removes dead waiters from the fair queue, and hurries the head of a free lock.
-- returns nothing: functions for the scripts of this folder
-- calls lindex lrange lrem pubsub zadd zrangebyscore zrem zscore publish|spublish
-- wire 6.1, 6.2; behind the head, one call removes a limited number of dead waiters
local PURGED = 64
-- Removes dead waiters of leasehold and overdue heads of Redisson. Returns the head, and whether it removed a waiter.
local function purge(q)
  local gone_at, changed = q.now - GONE_AFTER, false
  local head = redis.call('lindex', q.queue, 0)
  local called_at = head and redis.call('zscore', q.seen, head)
  while head and tonumber(called_at or 0) <= gone_at do
    local due = not called_at and redis.call('zscore', q.timeout, head)
    if due and tonumber(due) > q.now then break end
    redis.call('lrem', q.queue, 1, head)
    redis.call('zrem', q.timeout, head)
    redis.call('zrem', q.seen, head)
    changed, head = true, redis.call('lindex', q.queue, 0)
    called_at = head and redis.call('zscore', q.seen, head)
  end
  for _, owner in ipairs(redis.call('zrangebyscore', q.seen, '-inf', gone_at, 'limit', 0, PURGED)) do
    changed = leave(q, owner) == 1 or changed
  end
  -- After a clock was set back, a dead head would otherwise stay for as long as the step.
  if called_at and tonumber(called_at) > q.now then redis.call('zadd', q.seen, q.now, head) end
  return head, changed
end
-- Gives all Redisson waiters to whose channels nobody listens the same five seconds as the head, so dead ones are passed
-- together. A live one that begins to wait at this moment enters again. Without the listeners of all nodes, or the right to
-- count them, each has its own five seconds.
local function cut_silent(q)
  if q.numsub == '' then return end
  local owners, channels = {}, {}
  for _, owner in ipairs(redis.call('lrange', q.queue, 1, PURGED)) do
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
