-- Sets a key after the check of the token.
-- KEYS[1] key   string the key to write
-- ARGV[1] value bytes  the new value
-- returns nil
-- calls strlen set
-- wire 7.3
local key, value = KEYS[1], ARGV[1]
-- Refuses a key of another type before the first write.
redis.call('strlen', key)
redis.call('set', fence, string.format('%.0f', token))
redis.call('set', key, value)
return nil
