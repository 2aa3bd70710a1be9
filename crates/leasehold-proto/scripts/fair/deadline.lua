-- Computes the deadlines of waiters, which outlast what Redisson waiters subtract from them.
-- returns nothing: functions for the scripts that confirm a place in the queue
-- calls lrange pexpire zscore
-- wire 6.2, 21; a Redisson waiter subtracts its own wait, at most the distance to the deadline before it
local FOREIGN_WAIT, KEPT = 300000, 15000
-- Adds the wait of a Redisson waiter to the waits before the next place.
local function add_wait(q, waits, owner)
  if redis.call('zscore', q.seen, owner) then return end
  local due = tonumber(redis.call('zscore', q.timeout, owner) or 0)
  waits.sum = waits.sum + math.max(FOREIGN_WAIT, due - waits.last)
  waits.last = math.max(waits.last, due)
end
-- Sums the waits of the Redisson waiters before this place.
local function waits_before(q, place, redisson)
  local waits = { sum = 0, last = q.now }
  if redisson and place > 0 then
    for _, owner in ipairs(redis.call('lrange', q.queue, 0, place - 1)) do add_wait(q, waits, owner) end
  end
  return waits
end
-- Returns the deadline of the waiter at this place, which is 0 for the head.
local function deadline(q, owner, place, foreign)
  local margin = (place + 1) * GONE_AFTER + foreign
  -- Redisson subtracts its whole wait, however little of it is left, so the margin at entry counts.
  local seen = foreign > 0 and redis.call('zscore', q.seen, owner)
  local due = seen and redis.call('zscore', q.timeout, owner)
  if due then margin = math.max(margin, due - seen) end
  return q.now + margin
end
-- Renews the expiry of the keys. Returns a number, or the error of a server that refuses it.
local function expire(q, redisson)
  local done = redis.pcall('pexpire', q.seen, KEPT)
  for _, key in ipairs(redisson and {} or { q.queue, q.timeout }) do
    if type(done) == 'number' then done = redis.pcall('pexpire', key, KEPT) end
  end
  return done
end
