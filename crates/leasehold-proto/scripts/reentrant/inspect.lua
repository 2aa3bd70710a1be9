-- Reads the remaining time of the lock and the hold count of one owner.
-- KEYS[1] lock  hash   the lock; field: wire owner, value: hold count
-- ARGV[1] owner string wire owner to look up, empty for none
-- returns {PTTL (-2: free, -1: no expiry), the owner's hold count (0: none)}
-- calls hget pttl
-- wire 5.6
local lock, owner = KEYS[1], ARGV[1]
local count = redis.call('hget', lock, owner)
return { redis.call('pttl', lock), tonumber(count or 0) }
