-- Who stands in the fair queue, and who is taken out of it because nobody answers for it any more.
-- returns nothing: these are functions for the scripts of this folder
-- calls lindex llen lpos lrange lrem persist pexpire rpush time zadd zcard zrangebyscore zrem zscore
-- wire 6.1; who has shown itself in `seen` goes by that, everybody else by its score as in Redisson (section 23 item 7)
local GONE_AFTER, FOREIGN_WAIT, KEPT = 5000, 300000, 15000
local function now_ms()
  local time = redis.call('time')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
local function leave(q, owner)
  redis.call('lrem', q.queue, 0, owner)
  redis.call('zrem', q.timeout, owner)
  return redis.call('zrem', q.seen, owner)
end
local function purge(q)
  local changed = false
  for _, owner in ipairs(redis.call('zrangebyscore', q.seen, '-inf', q.now - GONE_AFTER)) do
    changed = leave(q, owner) == 1 or changed
  end
  local head = redis.call('lindex', q.queue, 0)
  while head and not redis.call('zscore', q.seen, head) do
    local due = redis.call('zscore', q.timeout, head)
    if due and tonumber(due) > q.now then break end
    leave(q, head)
    changed, head = true, redis.call('lindex', q.queue, 0)
  end
  return head, changed
end
local function enter(q, owner)
  local place = redis.call('lpos', q.queue, owner) or redis.call('rpush', q.queue, owner) - 1
  redis.call('zadd', q.seen, q.now, owner)
  local foreign = 0
  if redis.call('llen', q.queue) > redis.call('zcard', q.seen) and place > 0 then
    for _, other in ipairs(redis.call('lrange', q.queue, 0, place - 1)) do
      if not redis.call('zscore', q.seen, other) then foreign = foreign + 1 end
    end
  end
  redis.call('zadd', q.timeout, q.now + (place + 1) * GONE_AFTER + foreign * FOREIGN_WAIT, owner)
  local ours = redis.call('llen', q.queue) == redis.call('zcard', q.seen)
  for _, key in ipairs({ q.queue, q.timeout, q.seen }) do
    if ours or key == q.seen then redis.call('pexpire', key, KEPT) else redis.call('persist', key) end
  end
end
