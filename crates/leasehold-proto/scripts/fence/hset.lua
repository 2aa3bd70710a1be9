-- Sets a field of a hash after the check of the token.
-- KEYS[1] key   hash  the key to write
-- ARGV[1] field bytes the field to set
-- ARGV[2] value bytes the new value
-- returns nil
-- calls hexists hset set
-- wire 7.3
local key = KEYS[1]
local field, value = ARGV[1], ARGV[2]
-- Refuses a key of another type before the first write.
redis.call('hexists', key, field)
redis.call('set', fence, string.format('%.0f', token))
redis.call('hset', key, field, value)
return nil
