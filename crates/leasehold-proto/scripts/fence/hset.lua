-- Sets a field of a hash; the check stands before it.
-- KEYS[1] key   hash  what is written
-- ARGV[1] field bytes which field
-- ARGV[2] value bytes what to set
-- returns nil
-- calls hexists hset set
-- wire 7; not Redisson's
local key = KEYS[1]
local field, value = ARGV[1], ARGV[2]
-- A key of another type is refused here, before anything is written.
redis.call('hexists', key, field)
redis.call('set', fence, string.format('%.0f', token))
redis.call('hset', key, field, value)
return nil
