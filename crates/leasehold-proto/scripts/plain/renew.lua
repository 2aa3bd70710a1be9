-- Renews, and never shortens, the lease of this owner's hold, and tells whether a waiter has marked it.
-- KEYS[1] lock     string  the lock; value of the hold
-- ARGV[1] value    string  value of the hold
-- ARGV[2] marked   string  the value with its mark, or the value if it takes no mark
-- ARGV[3] lease_ms integer lease of the key from now
-- returns 2 when the hold is renewed and 4 when it is marked too, 0 when the lock is free, -1 when it is another one's
-- calls get pttl pexpire
-- wire 25.5
local lock, value, marked, lease_ms = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3])
if not lease_ms or lease_ms < 1 or lease_ms % 1 ~= 0 or lease_ms > 9007199254740991 then
  return redis.error_reply('LOCKERR renew: lease_ms must be whole and positive')
end
local held = redis.call('get', lock)
if not held then return 0 end
if held ~= value and held ~= marked then return -1 end
if redis.call('pttl', lock) < lease_ms then redis.call('pexpire', lock, ARGV[3]) end
return held == value and 2 or 4
