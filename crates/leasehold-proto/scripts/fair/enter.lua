-- Queues a waiter or confirms its place, with a deadline that outlasts what Redisson waiters subtract from it.
-- returns nothing: a function for the script that acquires
-- calls llen lpos lrange pexpire rpush zadd zrem zscore
-- wire 6.2, 21; a Redisson waiter subtracts its own wait, at most the distance to the deadline before it
local FOREIGN_WAIT, KEPT = 300000, 15000
-- Sums the waits of the Redisson waiters before this place.
local function waits_before(q, place)
  local sum, last = 0, q.now
  for _, other in ipairs(place > 0 and redis.call('lrange', q.queue, 0, place - 1) or {}) do
    if not redis.call('zscore', q.seen, other) then
      local due = tonumber(redis.call('zscore', q.timeout, other) or 0)
      sum, last = sum + math.max(FOREIGN_WAIT, due - last), math.max(last, due)
    end
  end
  return sum
end
-- Returns the error of a server that refuses a part of the entry. The waiter is then in no key.
local function enter(q, owner)
  local place, seen = redis.call('lpos', q.queue, owner), redis.call('zscore', q.seen, owner)
  -- Redisson removes a waiter from the list and the deadlines, never from `seen`.
  if seen and not place then redis.call('zrem', q.seen, owner) end
  local redisson = has_redisson_waiters(q)
  local at = place or redis.call('llen', q.queue)
  local foreign = redisson and waits_before(q, at) or 0
  local margin = (at + 1) * GONE_AFTER + foreign
  -- Redisson subtracts its whole wait, however little of it is left, so the margin at entry counts.
  local due = place and redis.call('zscore', q.timeout, owner)
  if foreign > 0 and seen and due then margin = math.max(margin, due - seen) end
  redis.call('zadd', q.timeout, q.now + margin, owner)
  local done = redis.pcall('zadd', q.seen, q.now, owner)
  if not place and type(done) == 'number' then done = redis.pcall('rpush', q.queue, owner) end
  for _, key in ipairs({ q.seen, not redisson and q.queue or nil, not redisson and q.timeout or nil }) do
    if type(done) == 'number' then done = redis.pcall('pexpire', key, KEPT) end
  end
  if type(done) == 'table' then
    leave(q, owner)
    return done
  end
  keep(q)
end
