-- What one acquisition has taken: a key of its own remembers it, so that no call counts twice.
-- returns nothing: these are functions for the scripts of this folder
-- calls decrby del exists get incrby set
-- wire 12; the counter alone cannot tell a repeated call from a new one (reliability 4.3)
local MARKER_MS = 3600000
-- Whether the name is something else than a plain counter of permits.
local function is_other(value, timeout)
  return not tonumber(value or 0) or redis.call('exists', timeout) == 1
end
-- How many it has taken: below zero when an earlier call of it may yet arrive, 0 when they are given back.
local function taken_by(marker)
  return tonumber(redis.call('get', marker) or '')
end
-- Returns the error of a server that refuses a part; the whole is undone then.
local function take(counter, marker, permits, doubtful, taken)
  if not taken or doubtful == 1 then
    redis.call('set', marker, doubtful == 1 and -permits or permits, 'PX', MARKER_MS)
  end
  local done = not taken and redis.pcall('decrby', counter, permits)
  if type(done) == 'table' then
    redis.call('del', marker)
    return done
  end
end
-- Returns the new total, or nothing when nothing was to be given back; behind it the error of a server that refuses.
local function give_back(counter, marker, permits, granted, doubtful)
  local taken = taken_by(marker)
  local back = math.abs(taken or (granted == 1 and doubtful == 0 and permits or 0))
  local total, done = back > 0 and redis.call('incrby', counter, back), 1
  if doubtful == 1 or (taken and taken <= 0) then
    done = redis.pcall('set', marker, '0', 'PX', MARKER_MS)
  elseif taken then
    done = redis.pcall('del', marker)
  end
  if type(done) == 'table' and not done.ok then
    if total then redis.call('incrby', counter, -back) end
    return nil, done
  end
  return total
end
