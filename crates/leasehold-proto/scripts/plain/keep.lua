-- Releases one hold of several, of which the server sees one: tells whether the owner has the lock.
-- KEYS[1] lock   string the lock; value of the hold
-- ARGV[1] value  string value of the hold
-- ARGV[2] marked string the value with its mark, or the value if it takes no mark
-- returns 0 when the owner has the lock, else nil
-- calls get
-- wire 25.4
local lock, value, marked = KEYS[1], ARGV[1], ARGV[2]
local held = redis.call('get', lock)
if held == value or held == marked then return 0 end
return nil
