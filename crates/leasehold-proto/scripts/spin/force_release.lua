-- Frees the lock of any holder. Publishes nothing, since spin locks have no channel.
-- KEYS[1] lock hash the lock
-- returns 1 when it was held, 0 when it was free
-- calls hlen del
-- wire 8.2; hlen refuses a key of another type
local lock = KEYS[1]
local fields = redis.call('hlen', lock)
if fields > 1 then
  return redis.error_reply('WRONGTYPE the name belongs to a read-write lock or a group of values')
end
if fields == 0 then
  return 0
end
redis.call('del', lock)
return 1
