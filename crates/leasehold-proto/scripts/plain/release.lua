-- Releases the hold with this value, and wakes waiters if one has marked it, or if the hold cannot be marked.
-- KEYS[1] lock    string  the lock; value of the hold
-- KEYS[2] signal  list    the list on which waiters of another library block, or the lock itself
-- ARGV[1] value   string  value of the hold
-- ARGV[2] marked  string  the value with its mark, or the value if it takes no mark
-- ARGV[3] publish string  PUBLISH, or SPUBLISH in a cluster with sharded channels
-- ARGV[4] channel string  the channel of this library's waiters
-- ARGV[5] message string  the payload, an ASCII decimal
-- ARGV[6] other   string  the channel of another library's waiters, or nothing
-- returns nil when the lock is another one's or free, 0 when it is free now, 1 + the listeners after a message
-- calls get del publish publish|spublish lpush pexpire
-- wire 25.4, 25.7; the message on the other channel is the key
local lock, signal, value, marked = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local publish, channel, message, other = ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local held = redis.call('get', lock)
if held ~= value and held ~= marked then return nil end
redis.call('del', lock)
if signal ~= lock then
  redis.pcall('del', signal)
  redis.pcall('lpush', signal, '1')
  redis.pcall('pexpire', signal, 1000)
end
if other ~= '' then redis.pcall('publish', other, lock) end
if held ~= marked then return 0 end
return 1 + (tonumber(redis.pcall(publish, channel, message)) or 0)
