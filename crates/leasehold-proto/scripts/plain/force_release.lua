-- Frees the lock of any holder, then wakes the waiters.
-- KEYS[1] lock    string  the lock; value of the hold
-- KEYS[2] signal  list    the list on which waiters of another library block, or the lock itself
-- ARGV[1] publish string  PUBLISH, or SPUBLISH in a cluster with sharded channels
-- ARGV[2] channel string  the channel of this library's waiters
-- ARGV[3] message string  the payload, an ASCII decimal
-- ARGV[4] other   string  the channel of another library's waiters, or nothing
-- returns 1 when the lock was held, 0 when it was free
-- calls strlen del publish publish|spublish lpush pexpire
-- wire 25.6; strlen refuses a key of another type
local lock, signal = KEYS[1], KEYS[2]
local publish, channel, message, other = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
redis.call('strlen', lock)
local found = redis.call('del', lock)
if signal ~= lock then
  redis.pcall('del', signal)
  redis.pcall('lpush', signal, '1')
  redis.pcall('pexpire', signal, 1000)
end
if other ~= '' then redis.pcall('publish', other, lock) end
redis.pcall(publish, channel, message)
return found
