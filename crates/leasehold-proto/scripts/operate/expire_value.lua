-- Gives a plain lock without an expiry a lease, unless it has changed since it was seen.
-- KEYS[1] lock     string  the lock; value of the hold
-- ARGV[1] value    string  the value that the lock had
-- ARGV[2] marked   string  the value with its mark, or the value if it takes no mark
-- ARGV[3] lease_ms integer lease of the key from now
-- returns 1, or 0 when the lock is another one, or expires
-- calls get pexpire pttl
-- wire 24, 4.3
local lock, value, marked, lease_ms = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local held = redis.call('get', lock)
if not held or (held ~= value and held ~= marked) or redis.call('pttl', lock) ~= -1 then
  return 0
end
return redis.call('pexpire', lock, lease_ms)
