-- Reads the value of the hold.
-- KEYS[1] lock string the lock; value of the hold
-- returns the value, nil when the lock is free
-- calls get
-- wire 25.6
local lock = KEYS[1]
return redis.call('get', lock)
