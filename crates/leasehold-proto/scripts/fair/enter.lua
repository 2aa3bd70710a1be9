-- A waiter enters the fair queue or shows itself there, with a deadline that outlasts what strangers take off it.
-- returns nothing: this is a function for the script that acquires
-- calls llen lpos lrange pexpire rpush zadd zrem zscore
-- wire 6.2; a stranger takes its own wait off the deadlines behind it: at most what its deadline is beyond the one before
local FOREIGN_WAIT, KEPT = 300000, 15000
-- How long the strangers before this place may wait, all together.
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
-- Returns the error of a server that refuses a part of it; the waiter stands nowhere then.
local function enter(q, owner)
  local place, seen = redis.call('lpos', q.queue, owner), redis.call('zscore', q.seen, owner)
  -- Redisson takes a waiter of ours out of the list alone.
  if seen and not place then redis.call('zrem', q.seen, owner) end
  local strangers = has_strangers(q)
  local at = place or redis.call('llen', q.queue)
  local foreign = strangers and waits_before(q, at) or 0
  local margin = (at + 1) * GONE_AFTER + foreign
  -- A wait that was longer when the waiter came is taken off whole, however little of it is left by now.
  local due = place and redis.call('zscore', q.timeout, owner)
  if foreign > 0 and seen and due then margin = math.max(margin, due - seen) end
  redis.call('zadd', q.timeout, q.now + margin, owner)
  local done = redis.pcall('zadd', q.seen, q.now, owner)
  if not place and type(done) == 'number' then done = redis.pcall('rpush', q.queue, owner) end
  for _, key in ipairs({ q.seen, not strangers and q.queue or nil, not strangers and q.timeout or nil }) do
    if type(done) == 'number' then done = redis.pcall('pexpire', key, KEPT) end
  end
  if type(done) == 'table' then
    leave(q, owner)
    return done
  end
  keep(q)
end
