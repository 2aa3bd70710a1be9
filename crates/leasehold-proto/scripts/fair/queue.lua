-- Holds the helpers of the fair queue: its clock, and how a waiter leaves or is removed as dead.
-- returns nothing: functions for the scripts of this folder
-- calls lindex llen lrem persist time zadd zcard zrangebyscore zrem zscore
-- wire 6.1, 4.5; a waiter in `seen` lives by its last call, any other by its deadline
local GONE_AFTER = 5000
local function now_ms()
  local time = redis.call('time')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
local function leave(q, owner)
  redis.call('lrem', q.queue, 0, owner)
  redis.call('zrem', q.timeout, owner)
  return redis.call('zrem', q.seen, owner)
end
-- Tells whether Redisson waiters are queued: the list is then longer than `seen`. A waiter of leasehold that Redisson
-- has removed from the list hides one of them until its next call, or until it counts as dead.
local function has_redisson_waiters(q)
  return redis.call('llen', q.queue) > redis.call('zcard', q.seen)
end
-- Removes the expiry while Redisson waiters are queued, because only waiters of leasehold renew it.
local function keep(q)
  if has_redisson_waiters(q) then
    redis.call('persist', q.queue)
    redis.call('persist', q.timeout)
  end
end
-- Removes dead waiters of leasehold and overdue heads of Redisson. Returns the head, and whether it removed a waiter.
local function purge(q)
  local changed = false
  for _, owner in ipairs(redis.call('zrangebyscore', q.seen, '-inf', q.now - GONE_AFTER)) do
    changed = leave(q, owner) == 1 or changed
  end
  local head = redis.call('lindex', q.queue, 0)
  local called_at = head and redis.call('zscore', q.seen, head)
  while head and not called_at do
    local due = redis.call('zscore', q.timeout, head)
    if due and tonumber(due) > q.now then break end
    leave(q, head)
    changed, head = true, redis.call('lindex', q.queue, 0)
    called_at = head and redis.call('zscore', q.seen, head)
  end
  -- After a clock was set back, a dead head would otherwise stay for as long as the step.
  if called_at and tonumber(called_at) > q.now then redis.call('zadd', q.seen, q.now, head) end
  return head, changed
end
