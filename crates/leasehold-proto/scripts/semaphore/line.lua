-- The queue of a fifo semaphore: a list of owners, and when each of them last showed itself.
-- returns nothing: these are functions for the script that acquires
-- calls lindex lpop lrem pexpire rpush zadd zrem zscore
-- wire 12, 21 item 31; a waiter that has not shown itself for five seconds is passed by
-- Returns the head of the queue, behind those that are passed by.
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
-- Queues the owner, or shows that it still waits. Returns the error of a server that refuses a part of it.
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
