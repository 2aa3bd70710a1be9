-- Releases all plain locks of this owner. Then wakes the waiters of each.
-- KEYS[1] lock    string  the first lock, then the others; value of the hold
-- ARGV[1] value   string  value of the holds
-- ARGV[2] marked  string  the value with its mark
-- ARGV[3] publish string  PUBLISH, or SPUBLISH in a cluster with sharded channels
-- ARGV[4] prefix  string  prefix of the channels of the waiters
-- ARGV[5] message string  the payload, an ASCII decimal
-- returns nil when the owner does not hold all, else 1 + the most listeners of one lock
-- calls get del publish|spublish
-- wire 25.9
local lock, value, marked = KEYS[1], ARGV[1], ARGV[2]
local publish, prefix, message = ARGV[3], ARGV[4], ARGV[5]
local all, own, listeners = redis.call('get', lock) ~= false, {}, 0
for _, key in ipairs(KEYS) do
  local held = redis.call('get', key)
  if held == value or held == marked then own[#own + 1] = key else all = false end
end
for _, key in ipairs(own) do
  redis.call('del', key)
  local channel = prefix .. (key:find('{', 1, true) and ':' .. key or ':{' .. key .. '}')
  listeners = math.max(listeners, tonumber(redis.pcall(publish, channel, message)) or 0)
end
if not all then return nil end
return 1 + listeners
