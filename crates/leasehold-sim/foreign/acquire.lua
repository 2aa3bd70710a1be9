-- Redisson's acquire on the key of a lock (protocol, 5.1), which increments the count and sets the lease anew.
-- KEYS[1] lock; ARGV[1] lease in ms; ARGV[2] owner
if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
  redis.call('hincrby', KEYS[1], ARGV[2], 1)
  redis.call('pexpire', KEYS[1], ARGV[1])
  return nil
end
return redis.call('pttl', KEYS[1])
