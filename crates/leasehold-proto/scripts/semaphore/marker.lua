-- Holds helpers for the marker of an acquisition: the key that makes each of its calls count once.
-- returns nothing: functions for the scripts of this folder
-- calls decrby del exists get incrby pttl set
-- wire 12.2, 4.2
local MARKER_MS = 3600000
-- Tells whether the name is not a plain counter of permits.
local function is_other(value, timeout)
  return not tonumber(value or 0) or redis.call('exists', timeout) == 1
end
-- Reads the number of permits taken, negative while an earlier call may still arrive and 0 once they are returned.
local function taken_by(marker)
  return tonumber(redis.call('get', marker) or '')
end
-- Takes the permits. When the server refuses a part, undoes the rest and returns the server's error. The marker ends with
-- a counter that has an expiry, so it belongs to that counter and not to the next one of the name.
local function take(counter, marker, permits, uncertain, taken)
  if not taken or uncertain == 1 then
    local lifetime = redis.call('pttl', counter)
    if lifetime <= 0 then lifetime = MARKER_MS end
    redis.call('set', marker, uncertain == 1 and -permits or permits, 'PX', lifetime)
  end
  local done = not taken and redis.pcall('decrby', counter, permits)
  if type(done) == 'table' then
    redis.call('del', marker)
    return done
  end
end
-- Returns the permits and replies the new total, or nil when there is nothing to return, then the error of a refusal. A
-- counter that is gone stays gone: it would come back without its expiry, and with permits of its own.
local function return_permits(counter, marker, permits, expired, uncertain)
  local taken, lifetime = taken_by(marker), redis.call('pttl', counter)
  local back = math.abs(taken or (expired == 1 and lifetime == -1 and permits or 0))
  if lifetime == -2 then back = 0 end
  local total, done = back > 0 and redis.call('incrby', counter, back), 1
  if uncertain == 1 or (taken and taken <= 0) then
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
