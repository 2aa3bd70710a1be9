-- Holds helpers for the description of a name, each of which reads a bounded part of one key.
-- returns nothing: functions for the scripts of this folder
-- calls getrange hscan llen lrange pttl type zcard zrange zscore
-- wire 24; a key of another type counts as missing
local MOST, HOLDS = 100, 10
local function kind(key)
  local found = redis.call('type', key)
  return type(found) == 'table' and found.ok or found
end
local function text(key)
  return kind(key) == 'string' and redis.call('getrange', key, 0, 255)
end
-- Reads fields and values. No lock has a long value, and a hash with one is read no further.
local function fields(key)
  local all, some = redis.call('hscan', key, '0', 'count', 1)[2], {}
  local is_long = all[2] and #all[2] > 32
  if not is_long then all = redis.call('hscan', key, '0', 'count', MOST)[2] end
  for at = 1, math.min(#all, 2 * MOST) do some[at] = string.sub(all[at], 1, 128) end
  return some
end
-- Reads the longest lease of each reader.
local function leases_of(readers, content)
  local leases = {}
  for at = 1, #content, 2 do
    local left, timeout = -2, readers .. ':' .. content[at] .. ':rwlock_timeout:'
    for hold = 1, math.min(tonumber(content[at + 1]) or 0, HOLDS) do left = math.max(left, redis.call('pttl', timeout .. hold)) end
    leases[#leases + 1] = left
  end
  return leases
end
local function waiters(list, seen, due)
  if kind(list) ~= 'list' then return { 0 } end
  local reply, has_seen, has_due = { redis.call('llen', list) }, kind(seen) == 'zset', kind(due) == 'zset'
  for _, owner in ipairs(redis.call('lrange', list, 0, MOST - 1)) do
    reply[#reply + 1] = string.sub(owner, 1, 128)
    reply[#reply + 1] = has_seen and redis.call('zscore', seen, owner)
    reply[#reply + 1] = has_due and redis.call('zscore', due, owner)
  end
  return reply
end
local function ends(key)
  if kind(key) ~= 'zset' then return { 0 } end
  return { redis.call('zcard', key), redis.call('zrange', key, 0, MOST - 1, 'withscores') }
end
