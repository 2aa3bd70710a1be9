-- Reads the value of the hold.
-- KEYS[1] lock string the lock; value of the hold
-- returns the first KiB of the value, nil when the lock is free
-- calls exists getrange
-- wire 25.6
local lock = KEYS[1]
local value = redis.call('getrange', lock, 0, 1023)
if value == '' and redis.call('exists', lock) == 0 then return nil end
return value
