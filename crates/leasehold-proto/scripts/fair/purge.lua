-- Removes dead waiters from the fair queue.
-- returns nothing: functions for the scripts of this folder
-- calls lindex lrem zadd zrangebyscore zrem zscore
-- wire 6.1; behind the head, one call removes a limited number of dead waiters
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
