-- Queues a waiter or confirms its place.
-- returns nothing: a function for the script that acquires
-- calls llen lpos rpush zadd zrem zscore
-- wire 6.2; the place of an owner that is in no set is not searched for
-- Returns the error of a server that refuses a part of the entry. The waiter is then in no key.
local function enter(q, owner)
  local seen = redis.call('zscore', q.seen, owner)
  local queued = seen or redis.call('zscore', q.timeout, owner)
  local place = queued and redis.call('lpos', q.queue, owner)
  -- Redisson removes a waiter from the list and the deadlines, never from `seen`.
  if seen and not place then redis.call('zrem', q.seen, owner) end
  local redisson = has_redisson_waiters(q)
  local at = place or redis.call('llen', q.queue)
  local due = deadline(q, owner, at, waits_before(q, at, redisson).sum)
  redis.call('zadd', q.timeout, due, owner)
  local done = redis.pcall('zadd', q.seen, q.now, owner)
  if not place and type(done) == 'number' then done = redis.pcall('rpush', q.queue, owner) end
  if type(done) == 'number' then done = expire(q, redisson) end
  if type(done) == 'table' then
    leave(q, owner)
    return done
  end
  keep(q)
end
