-- Holds the helpers of the fair queue: its clock, its expiry, and how a waiter leaves.
-- returns nothing: functions for the scripts of this folder
-- calls llen lrem persist time zcard zrem zscore
-- wire 6.1, 4.5; a waiter in `seen` lives by its last call, any other by its deadline
local GONE_AFTER = 5000
local function now_ms()
  local time = redis.call('time')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
-- Removes a waiter. The search ends at its place, and an owner that is in no set is not searched for.
local function leave(q, owner)
  if redis.call('zscore', q.timeout, owner) or redis.call('zscore', q.seen, owner) then
    redis.call('lrem', q.queue, 1, owner)
  end
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
