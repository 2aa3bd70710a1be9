-- Permits that end by the server's clock: a set of ids, each with its end.
-- returns nothing: these are functions for the scripts of this folder
-- calls incrby time zremrangebyscore zscore publish|spublish
-- wire 13; the server's clock in the place of each client's (promise P5)
local UNENDING = 922337203685477
local function now_ms()
  local time = redis.call('time')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
-- The ids of an argument, 16 bytes each.
local function each(given)
  local all = {}
  for at = 1, #given, 16 do
    all[#all + 1] = string.sub(given, at, at + 15)
  end
  return all
end
-- How many of these are there.
local function present(ids, all)
  local found = 0
  for _, id in ipairs(all) do
    if redis.call('zscore', ids, id) then
      found = found + 1
    end
  end
  return found
end
-- Takes back the permits that have ended, and returns how many are left: the wire's reclaim step, of all at once.
local function reclaim(counter, ids, now, left, publish, channel)
  local ended = redis.call('zremrangebyscore', ids, '0', now)
  if ended == 0 then
    return tonumber(left or 0)
  end
  local total = redis.call('incrby', counter, ended)
  if total > 0 then
    redis.call(publish, channel, total)
  end
  return total
end
