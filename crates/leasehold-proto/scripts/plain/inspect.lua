-- Reads the remaining time of the lock, and whether one hold has it.
-- KEYS[1] lock   string the lock; value of the hold
-- ARGV[1] value  string value to look up, empty for none
-- ARGV[2] marked string the value with its mark, or the value if it takes no mark
-- returns {PTTL (-2: free, -1: no expiry), 1 if the value is there and 0 if not}
-- calls get pttl
-- wire 25.6
local lock, value, marked = KEYS[1], ARGV[1], ARGV[2]
local held = redis.call('get', lock)
local is_own = value ~= '' and (held == value or held == marked)
return { redis.call('pttl', lock), is_own and 1 or 0 }
