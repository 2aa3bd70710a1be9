-- The compare-and-delete of the Redis documentation, with the inputs of the other scripts here.
-- KEYS[1] lock; ARGV[1] unused; ARGV[2] value
if redis.call('get', KEYS[1]) == ARGV[2] then
  return redis.call('del', KEYS[1])
end
return 0
