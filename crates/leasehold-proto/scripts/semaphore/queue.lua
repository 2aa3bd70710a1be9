-- Holds the wait queue of a FIFO semaphore: a list of owners, and the time of each owner's last call.
-- returns nothing: functions for the script that acquires
-- calls lindex lpop lrem pexpire rpush zadd zrem zscore
-- wire 12.4; a head that has not called for five seconds is dropped
-- Drops the heads before this owner that have not called for five seconds. Returns the head, or false without one, and
-- true if it has dropped any.
local function drop_silent(queue, seen, owner, now)
  local head, dropped = redis.call('lindex', queue, 0), false
  while head and head ~= owner do
    local called_at = tonumber(redis.call('zscore', seen, head) or 0)
    -- After a clock was set back, a dead head would otherwise stay for as long as the step.
    if called_at > now then redis.call('zadd', seen, now, head) end
    if called_at >= now - 5000 then break end
    redis.call('zrem', seen, redis.call('lpop', queue))
    dropped = true
    head = redis.call('lindex', queue, 0)
  end
  return head, dropped
end
-- Queues the owner, or records that it still waits. If the server refuses a part, removes the owner from both keys and
-- returns the server's error.
local function enqueue(queue, seen, owner, now)
  local done = redis.call('zadd', seen, now, owner)
  if done == 1 then done = redis.pcall('rpush', queue, owner) end
  for _, key in ipairs({ queue, seen }) do
    if type(done) == 'number' then done = redis.pcall('pexpire', key, 10000) end
  end
  if type(done) == 'number' then return nil end
  redis.call('zrem', seen, owner)
  redis.call('lrem', queue, 1, owner)
  return done
end
