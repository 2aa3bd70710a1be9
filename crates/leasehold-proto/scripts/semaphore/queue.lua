-- Holds the wait queue of a FIFO semaphore: a list of owners, and the time of each owner's last call.
-- returns nothing: functions for the script that acquires
-- calls lindex lpop lrem pexpire rpush zadd zrem zscore
-- wire 12.4; a waiter that has not called for five seconds is passed by
-- Drops silent heads and returns the first live owner.
local function pass_by(queue, seen, owner, now)
  local head = redis.call('lindex', queue, 0)
  while head and head ~= owner do
    local shown = tonumber(redis.call('zscore', seen, head) or 0)
    -- A clock that was set back would keep a dead head alive for as long as the step.
    if shown > now then redis.call('zadd', seen, now, head) end
    if shown >= now - 5000 then break end
    redis.call('zrem', seen, redis.call('lpop', queue))
    head = redis.call('lindex', queue, 0)
  end
  return head
end
-- Queues the owner, or records that it still waits. Returns the error of a server that refuses a part of that.
local function stand(queue, seen, owner, now)
  local done = redis.call('zadd', seen, now, owner)
  if done == 1 then done = redis.pcall('rpush', queue, owner) end
  for _, key in ipairs({ queue, seen }) do
    if type(done) == 'number' then done = redis.pcall('pexpire', key, 10000) end
  end
  if type(done) == 'number' then return nil end
  redis.call('zrem', seen, owner)
  redis.call('lrem', queue, 0, owner)
  return done
end
