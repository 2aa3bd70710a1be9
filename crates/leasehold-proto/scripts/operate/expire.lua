-- Gives a lock without an expiry a lease, unless it has changed since it was seen.
-- KEYS[1] lock     hash    the lock; field: wire owner, value: hold count
-- ARGV[1] field    string  a field that the lock had
-- ARGV[2] count    string  the value of that field
-- ARGV[3] fields   integer the number of fields
-- ARGV[4] lease_ms integer lease of the key from now
-- returns 1, or 0 when the lock is another one, or expires
-- calls hget hlen pexpire pttl
-- wire 24, 4.3
local lock, field, count = KEYS[1], ARGV[1], ARGV[2]
local fields, lease_ms = tonumber(ARGV[3]), ARGV[4]
local is_same = redis.call('hget', lock, field) == count and redis.call('hlen', lock) == fields
if not is_same or redis.call('pttl', lock) ~= -1 then
  return 0
end
return redis.call('pexpire', lock, lease_ms)
