-- Permits that come back: the counter first, and their ids with it or not at all.
-- returns nothing: these are functions for the scripts of this folder
-- calls incrby zcount zrem zremrangebyscore publish|spublish
-- wire 13; a server that refuses one of the two commands leaves the total as it was
-- Takes back the permits that have ended, and returns how many are left: the wire's reclaim step, of all at once.
local function reclaim(counter, ids, now, left, publish, channel)
  local ended = redis.call('zcount', ids, '0', now)
  if ended == 0 then
    return tonumber(left or 0)
  end
  local total = redis.call('incrby', counter, ended)
  if type(redis.pcall('zremrangebyscore', ids, '0', now)) == 'table' then
    redis.call('incrby', counter, -ended)
    -- Refused once more, which is told.
    redis.call('zremrangebyscore', ids, '0', now)
  end
  if total > 0 then
    redis.pcall(publish, channel, total)
  end
  return total
end
-- Gives back the permits of these ids. Returns the new total, or nothing and the error of a server that refuses.
local function give_back(counter, ids, taken)
  local total, done = redis.pcall('incrby', counter, #taken), 1
  if type(total) == 'table' then return nil, total end
  for _, id in ipairs(taken) do
    if type(done) == 'number' then done = redis.pcall('zrem', ids, id) end
  end
  if type(done) == 'number' then return total end
  redis.call('incrby', counter, -#taken)
  return nil, done
end
