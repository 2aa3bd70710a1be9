-- The compare-and-expire of a lock of the Redis documentation.
-- KEYS[1] lock; ARGV[1] lease in ms; ARGV[2] value
if redis.call('get', KEYS[1]) == ARGV[2] then
  return redis.call('pexpire', KEYS[1], ARGV[1])
end
return 0
