-- Sets a key; the check stands before it.
-- KEYS[1] key   string what is written
-- ARGV[1] value bytes  what to set
-- returns nil
-- calls strlen set
-- wire 7; not Redisson's
local key, value = KEYS[1], ARGV[1]
-- A key of another type is refused here, before anything is written.
redis.call('strlen', key)
redis.call('set', fence, string.format('%.0f', token))
redis.call('set', key, value)
return nil
