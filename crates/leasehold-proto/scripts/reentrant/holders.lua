-- Reads who holds the lock.
-- KEYS[1] lock hash the lock; field: wire owner, value: hold count
-- returns {PTTL (-2: free, -1: no expiry), number of fields, field, value, ...}; no fields if there are more than 100
-- calls hgetall hlen pttl
-- wire 5.6
local lock = KEYS[1]
local fields = redis.call('hlen', lock)
local reply = { redis.call('pttl', lock), fields }
if fields <= 100 then
  for _, item in ipairs(redis.call('hgetall', lock)) do
    reply[#reply + 1] = item
  end
end
return reply
