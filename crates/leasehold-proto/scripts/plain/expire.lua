-- Sets the lease of this owner's hold, which may be shorter, and wakes a waiter that sleeps for the old lease.
-- KEYS[1] lock     string  the lock; value of the hold
-- ARGV[1] value    string  value of the hold
-- ARGV[2] marked   string  the value with its mark, or the value if it takes no mark
-- ARGV[3] lease_ms integer lease of the key from now
-- ARGV[4] publish  string  PUBLISH, or SPUBLISH in a cluster with sharded channels
-- ARGV[5] channel  string  the channel of this library's waiters
-- ARGV[6] message  string  the payload, an ASCII decimal
-- returns 2 when the lease is set and 4 when the hold is marked too, 0 when the lock is free, -1 when it is another one's
-- calls get pexpire publish|spublish
-- wire 25.5
local lock, value, marked, lease_ms = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3])
local publish, channel, message = ARGV[4], ARGV[5], ARGV[6]
if not lease_ms or lease_ms < 1 or lease_ms % 1 ~= 0 or lease_ms > 9007199254740991 then
  return redis.error_reply('LOCKERR expire: lease_ms must be whole and positive')
end
local held = redis.call('get', lock)
if not held then return 0 end
if held ~= value and held ~= marked then return -1 end
redis.call('pexpire', lock, ARGV[3])
if held ~= marked then return 2 end
redis.pcall(publish, channel, message)
return 4
