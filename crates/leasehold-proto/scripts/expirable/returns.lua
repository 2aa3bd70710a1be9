-- Returns permits to the counter. The counter and the ids change together or not at all.
-- returns nothing: functions for the scripts of this folder
-- calls exists incrby zcount zrem zremrangebyscore publish|spublish
-- wire 13.1, 4.3; restores the total when the server refuses one of the two commands
-- Returns all ended permits to the counter, and replies the available permits. A counter that is gone stays gone.
local function reclaim(counter, ids, now, left, publish, channel)
  local ended = redis.call('zcount', ids, '0', now)
  if ended == 0 then
    return tonumber(left or 0)
  end
  if not left then
    redis.call('zremrangebyscore', ids, '0', now)
    return 0
  end
  local total = redis.call('incrby', counter, ended)
  if type(redis.pcall('zremrangebyscore', ids, '0', now)) == 'table' then
    redis.call('incrby', counter, -ended)
    -- The server refuses this command again, which ends the script with the server's error.
    redis.call('zremrangebyscore', ids, '0', now)
  end
  if total > 0 then
    redis.pcall(publish, channel, total)
  end
  return total
end
-- Returns the permits of these ids, and replies the new total, or nil and the error of a server that refuses.
local function return_permits(counter, ids, taken)
  local exists = redis.pcall('exists', counter)
  if type(exists) == 'table' then return nil, exists end
  exists = exists == 1
  local total, done = exists and redis.pcall('incrby', counter, #taken) or 0, 1
  if type(total) == 'table' then return nil, total end
  for _, id in ipairs(taken) do
    if type(done) == 'number' then done = redis.pcall('zrem', ids, id) end
  end
  if type(done) == 'number' then return total end
  if exists then redis.call('incrby', counter, -#taken) end
  return nil, done
end
